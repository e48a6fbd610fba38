"""Ports and names have one holder, on the whole machine, and come back."""

from __future__ import annotations

import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.git.worktrees import Repository
from agentos.sandbox.passed_on import leased_variables
from agentos.workflows.context import current
from agentos.workflows.implementation.project_tests import ProjectTests
from agentos.workflows.implementation.project_worktree import ProjectWorktree
from agentos.workstreams.leases import WorkstreamLeases


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other"
    path.mkdir()
    return path


def test_a_port_has_one_holder_and_stays_the_same_until_it_is_given_back(project: Path, other: Path) -> None:
    leases, others = WorkstreamLeases(project), WorkstreamLeases(other)
    web = leases.port("a", "WEB_PORT")
    assert leases.port("a", "WEB_PORT") == web
    ports = {web.value, leases.port("a", "API_PORT").value, leases.port("b", "WEB_PORT").value}
    assert len(ports | {others.port("a", "WEB_PORT").value}) == 4
    assert [lease.variable for lease in leases.held("a")] == ["API_PORT", "WEB_PORT"]
    assert leases.release("a", ["WEB_PORT"]) == (web,)
    assert [lease.variable for lease in leases.held("a")] == ["API_PORT"]
    assert [lease.variable for lease in leases.release("a")] == ["API_PORT"]
    assert len(leases.held()) == len(others.held()) == 1


@pytest.mark.parametrize(
    ("family", "address"),
    [
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET, "0.0.0.0"),
        (socket.AF_INET, "127.0.0.2"),
        (socket.AF_INET6, "::1"),
    ],
)
def test_a_port_somebody_listens_on_is_not_given(project: Path, family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family) as busy:
        try:
            busy.bind((address, 0))
        except OSError:
            pytest.skip(f"this machine has no {address}")
        busy.listen()
        port = busy.getsockname()[1]
        with pytest.raises(UsageError, match="no port is left for WEB_PORT of a"):
            WorkstreamLeases(project).port("a", "WEB_PORT", ports=range(port, port + 1))


def test_ports_asked_for_at_once_are_all_different(project: Path) -> None:
    def lease(number: int) -> str:
        return WorkstreamLeases(project).port(f"w{number}", "PORT").value

    with ThreadPoolExecutor(8) as executor:
        assert len(set(executor.map(lease, range(40)))) == 40


def test_names_say_what_and_whose_they_are_and_are_unique_across_projects(project: Path, other: Path) -> None:
    names = [
        WorkstreamLeases(where).name(slug, "TEST_DB").value
        for where, slug in ((project, "issue-1"), (project, "issue_1"), (other, "issue-1"), (project, "x" * 64))
    ]
    assert names[:3] == ["test_db_issue_1", "test_db_issue_1_2", "test_db_issue_1_3"]
    assert len(names[3]) == 63


def test_one_variable_is_a_port_or_a_name(project: Path) -> None:
    leases = WorkstreamLeases(project)
    leases.port("a", "THING")
    with pytest.raises(UsageError, match="THING of a is a port already"):
        leases.name("a", "THING")


@pytest.mark.parametrize("variable", ["", "1X", "A-B", "A B", "x\n", "PATH", "GIT_DIR", "agentos_home", "API_KEY"])
def test_what_would_change_other_programs_cannot_name_a_lease(project: Path, variable: str) -> None:
    with pytest.raises(UsageError, match="cannot name a lease"):
        WorkstreamLeases(project).port("a", variable)


def test_workstreams_that_are_no_more_lose_their_leases_and_others_keep_them(project: Path, other: Path) -> None:
    leases = WorkstreamLeases(project)
    assert leases.release_all_but(set) == ()
    kept, lost = leases.port("a", "PORT"), leases.port("b", "PORT")
    foreign = WorkstreamLeases(other).port("b", "PORT")
    assert leases.release_all_but(lambda: {"a"}) == (lost,)
    assert (leases.held(), WorkstreamLeases(other).held()) == ((kept,), (foreign,))


def test_a_deleted_project_gives_back_what_it_held(project: Path, other: Path) -> None:
    port = int(WorkstreamLeases(other).port("a", "PORT").value)
    only = range(port, port + 1)
    with pytest.raises(UsageError, match="no port is left"):
        WorkstreamLeases(project).port("a", "PORT", ports=only)
    shutil.rmtree(other)
    assert int(WorkstreamLeases(project).port("a", "PORT", ports=only).value) == port


def test_a_worker_knows_which_variables_are_leases(project: Path) -> None:
    leases = WorkstreamLeases(project)
    assert leases.environment("a") == {}
    leases.port("a", "WEB_PORT")
    leases.name("a", "TEST_DB")
    environment = leases.environment("a")
    assert environment["TEST_DB"] == "test_db_a"
    assert leased_variables(environment | {"OTHER": "x"}) == ("TEST_DB", "WEB_PORT")
    assert leased_variables({}) == ()


@pytest.mark.parametrize("damaged", ["[1]", "{", '[{"slug": "a"}]', '{"a": 1}'])
def test_unreadable_leases_name_the_file(project: Path, damaged: str) -> None:
    leases = WorkstreamLeases(project)
    leases.name("a", "DB")
    leases._path.write_text(damaged)
    with pytest.raises(UsageError, match=r"leases\.json"):
        leases.release("a")


def test_the_projects_tests_know_the_leases_of_their_workstream(
    repository: Repository, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = WorkstreamLeases(project).port("a", "WEB_PORT")
    for name, value in WorkstreamLeases(project).environment("a").items():
        monkeypatch.setenv(name, value)
    worktree = repository.create("a").worktree
    (worktree.path / "said.sh").write_text("#!/bin/sh\necho the port is $WEB_PORT\n")
    (worktree.path / "said.sh").chmod(0o755)
    monkeypatch.setenv("AGENTOS_IMPLEMENTATION__TEST", "./said.sh")
    monkeypatch.chdir(project)
    tests = ProjectTests(current(), ProjectWorktree(worktree, ""))
    assert f"the port is {lease.value}" in tests.suite().output
