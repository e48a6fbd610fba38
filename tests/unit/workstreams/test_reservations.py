"""Ports and names have one holder, on the whole machine, and come back."""

from __future__ import annotations

import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.git.worktrees import Repository
from agentos.paths import reservations_path
from agentos.sandbox.passed_variables import reserved_variables
from agentos.workflows.context import current
from agentos.workflows.implementation.project_tests import ProjectTests
from agentos.workflows.implementation.project_worktree import ProjectWorktree
from agentos.workstreams.reservations import Reservations


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other"
    path.mkdir()
    return path


def test_a_port_has_one_holder_and_stays_the_same_until_it_is_given_back(project: Path, other: Path) -> None:
    reservations, others = Reservations(project), Reservations(other)
    web = reservations.port("a", "WEB_PORT")
    assert reservations.port("a", "WEB_PORT") == web
    ports = {web.value, reservations.port("a", "API_PORT").value, reservations.port("b", "WEB_PORT").value}
    assert len(ports | {others.port("a", "WEB_PORT").value}) == 4
    assert [each.variable for each in reservations.held("a")] == ["API_PORT", "WEB_PORT"]
    assert reservations.release("a", ["WEB_PORT"]) == (web,)
    assert [each.variable for each in reservations.held("a")] == ["API_PORT"]
    assert [each.variable for each in reservations.release("a")] == ["API_PORT"]
    assert len(reservations.held()) == len(others.held()) == 1


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
            Reservations(project).port("a", "WEB_PORT", ports=range(port, port + 1))


def test_ports_asked_for_at_once_are_all_different(project: Path) -> None:
    def reserve(number: int) -> str:
        return Reservations(project).port(f"w{number}", "PORT").value

    with ThreadPoolExecutor(8) as executor:
        assert len(set(executor.map(reserve, range(40)))) == 40


def test_names_say_what_and_whose_they_are_and_are_unique_across_projects(project: Path, other: Path) -> None:
    names = [
        Reservations(where).name(slug, "TEST_DB").value
        for where, slug in ((project, "issue-1"), (project, "issue_1"), (other, "issue-1"), (project, "x" * 64))
    ]
    assert names[:3] == ["test_db_issue_1", "test_db_issue_1_2", "test_db_issue_1_3"]
    assert len(names[3]) == 63


def test_one_variable_is_a_port_or_a_name(project: Path) -> None:
    reservations = Reservations(project)
    reservations.port("a", "THING")
    with pytest.raises(UsageError, match="THING of a is a port already"):
        reservations.name("a", "THING")


@pytest.mark.parametrize("variable", ["", "1X", "A-B", "A B", "x\n", "PATH", "GIT_DIR", "agentos_home", "API_KEY"])
def test_what_would_change_other_programs_cannot_name_a_reservation(project: Path, variable: str) -> None:
    with pytest.raises(UsageError, match="cannot name a reservation"):
        Reservations(project).port("a", variable)


def test_workstreams_that_are_gone_lose_their_reservations_and_others_keep_them(project: Path, other: Path) -> None:
    reservations = Reservations(project)
    assert reservations.release_all_but(set) == ()
    kept, lost = reservations.port("a", "PORT"), reservations.port("b", "PORT")
    foreign = Reservations(other).port("b", "PORT")
    assert reservations.release_all_but(lambda: {"a"}) == (lost,)
    assert (reservations.held(), Reservations(other).held()) == ((kept,), (foreign,))


def test_a_deleted_project_gives_back_what_it_held(project: Path, other: Path) -> None:
    port = int(Reservations(other).port("a", "PORT").value)
    only = range(port, port + 1)
    with pytest.raises(UsageError, match="no port is left"):
        Reservations(project).port("a", "PORT", ports=only)
    shutil.rmtree(other)
    assert int(Reservations(project).port("a", "PORT", ports=only).value) == port


def test_a_worker_knows_which_variables_are_reservations(project: Path) -> None:
    reservations = Reservations(project)
    assert reservations.environment("a") == {}
    reservations.port("a", "WEB_PORT")
    reservations.name("a", "TEST_DB")
    environment = reservations.environment("a")
    assert environment["TEST_DB"] == "test_db_a"
    assert reserved_variables(environment | {"OTHER": "x"}) == ("TEST_DB", "WEB_PORT")
    assert reserved_variables({}) == ()


@pytest.mark.parametrize("damaged", ["[1]", "{", '[{"slug": "a"}]', '{"a": 1}'])
def test_unreadable_reservations_name_the_file(project: Path, damaged: str) -> None:
    reservations = Reservations(project)
    reservations.name("a", "DB")
    reservations_path().write_text(damaged)
    with pytest.raises(UsageError, match=r"leases\.json"):
        reservations.release("a")


def test_the_projects_tests_know_the_reservations_of_their_workstream(
    repository: Repository, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reservation = Reservations(project).port("a", "WEB_PORT")
    for name, value in Reservations(project).environment("a").items():
        monkeypatch.setenv(name, value)
    worktree = repository.create("a").worktree
    (worktree.path / "said.sh").write_text("#!/bin/sh\necho the port is $WEB_PORT\n")
    (worktree.path / "said.sh").chmod(0o755)
    monkeypatch.setenv("AGENTOS_IMPLEMENTATION__TEST", "./said.sh")
    monkeypatch.chdir(project)
    tests = ProjectTests(current(), ProjectWorktree(worktree, ""))
    assert f"the port is {reservation.value}" in tests.suite().output
