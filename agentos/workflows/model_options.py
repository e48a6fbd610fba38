"""The models that a suggested command has to name, because the settings do not: as options, each after a space."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from agentos.records.runs import read_audit
from agentos.reporters.last_run import last_run
from agentos.settings import Models, load_settings

_ROLES = ("drafter", "reviewer")


def of_maker(project_dir: Path, workflow: str, item_id: str) -> str:
    """The models that were named when a run last worked on the document; empty when none did, or none were."""
    made_in = last_run(project_dir, (workflow, "pipeline"), item_id)
    return "" if made_in is None else _options(project_dir, _named(_command_of(made_in.run_dir)))


def of_run(project_dir: Path, models: Models) -> str:
    """The models of the run that suggests the command."""
    return _options(project_dir, {role: getattr(models, role) for role in _ROLES})


def _options(project_dir: Path, chosen: Mapping[str, str]) -> str:
    own = load_settings(project_dir).models
    return "".join(f" --{role} {shlex.quote(model)}" for role, model in chosen.items() if model != getattr(own, role))


def _command_of(run_dir: Path) -> str:
    started = next(iter(read_audit(run_dir, kinds=("run_started",))), None)
    return str(getattr(started.event, "resume_command", "")) if started else ""


def _named(command: str) -> dict[str, str]:
    """The models that a command line names, by their role."""
    try:
        words = shlex.split(command)
    except ValueError:
        return {}
    pairs = list(pairwise(words))
    return {role: value for role in _ROLES for name, value in pairs if name == f"--{role}"}
