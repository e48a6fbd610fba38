"""The promised names are there, and nothing else is exported by accident."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import typing

import pytest

import agentos.workflows.parallel as parallel
from agentos.workflows.parallel import coordinator, credential_coordinator, input_sanitizer
from agentos.workflows.parallel.coordinator import (
    ParallelCoordinator,
    ParallelRunConfig,
    ProgressReport,
    ProgressStats,
    WorkflowResult,
)


def test_the_package_exports_the_promised_names_and_no_others() -> None:
    assert parallel.__all__ == [
        "CredentialCoordinator",
        "OutputPrefixer",
        "ParallelCoordinator",
        "sanitize_identifier",
    ]


PROMISED_MODULES = {
    "ParallelCoordinator": "coordinator",
    "CredentialCoordinator": "credential_coordinator",
    "OutputPrefixer": "output_prefixer",
    "sanitize_identifier": "input_sanitizer",
}


@pytest.mark.parametrize("name", parallel.__all__)
def test_each_exported_name_is_the_thing_in_its_promised_module(name: str) -> None:
    exported = getattr(parallel, name)
    assert exported.__name__ == name
    assert exported is getattr(importlib.import_module(f"agentos.workflows.parallel.{PROMISED_MODULES[name]}"), name)
    assert exported.__doc__


def test_a_star_import_brings_exactly_the_exported_names() -> None:
    namespace: dict[str, object] = {}
    exec("from agentos.workflows.parallel import *", namespace)
    assert namespace.keys() - {"__builtins__"} == set(parallel.__all__)


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match=r"'agentos\.workflows\.parallel' has no attribute 'Nonsense'"):
        _ = parallel.Nonsense
    with pytest.raises(ImportError, match="Nonsense"):
        exec("from agentos.workflows.parallel import Nonsense")


def test_the_coordinator_module_holds_the_results_of_both_faces() -> None:
    for name in ("WorkflowResult", "ProgressStats", "ParallelRunConfig", "ProgressReport", "ParallelCoordinator"):
        assert getattr(coordinator, name).__module__ == coordinator.__name__


def test_the_progress_report_has_the_promised_keys() -> None:
    assert typing.get_type_hints(ProgressReport) == {
        "total": int,
        "completed": int,
        "failed": int,
        "in_progress": int,
        "pending": int,
        "failed_items": list[str],
        "completed_items": list[str],
    }


def test_the_run_config_needs_four_keys_and_takes_three_more() -> None:
    hints = typing.get_type_hints(ParallelRunConfig, include_extras=True)
    optional = {name for name, hint in hints.items() if typing.get_origin(hint) is typing.NotRequired}
    assert hints.keys() - optional == {"max_parallelism", "dry_run", "workflow_type", "pending_items"}
    assert {"graph", "inputs", "project_dir"} <= optional


def test_results_and_stats_have_the_promised_fields() -> None:
    result = {field.name for field in dataclasses.fields(WorkflowResult)}
    assert {"item_id", "success", "error", "error_type", "traceback", "duration_seconds"} <= result
    stats = ProgressStats(total=5, success_count=2, failed=1)
    assert (stats.total, stats.completed, stats.success_count, stats.failed) == (5, 3, 2, 1)


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("execute_parallel", ["self", "items", "worker_func", "item_id_func", "dry_run"]),
        ("run", ["self"]),
        ("shutdown", ["self", "timeout_seconds"]),
        ("request_stop", ["self", "reason"]),
        ("get_checkpoints", ["self"]),
        ("_handle_shutdown_signal", ["self", "signum", "frame"]),
    ],
)
def test_the_coordinators_methods_take_the_promised_parameters(method: str, parameters: list[str]) -> None:
    assert list(inspect.signature(getattr(ParallelCoordinator, method)).parameters) == parameters


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("acquire", ["self", "timeout"]),
        ("release", ["self", "key", "rate_limited", "backoff_seconds"]),
        ("reserve", ["self", "worker_id"]),
        ("report_rate_limit", ["self", "key_id", "retry_after_seconds"]),
        ("get_available_count", ["self"]),
        ("is_pool_exhausted", ["self"]),
        ("wait_for_availability", ["self", "timeout_seconds"]),
    ],
)
def test_the_credential_coordinator_speaks_both_vocabularies(method: str, parameters: list[str]) -> None:
    promised = getattr(credential_coordinator.CredentialCoordinator, method)
    assert list(inspect.signature(promised).parameters) == parameters


def test_the_sanitizer_has_its_second_name_and_the_path_of_a_database() -> None:
    assert input_sanitizer.sanitize_issue_number("42") == "42"
    assert list(inspect.signature(input_sanitizer.build_checkpoint_db_path).parameters)[:2] == [
        "workflow_type",
        "issue_number",
    ]
