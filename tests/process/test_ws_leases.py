"""Ports and names of workstreams, through the installed command."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from workshop import Workshop, workshop

from agentos.workstreams.reservations import Reservations


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    with workshop(tmp_path, monkeypatch) as made:
        yield made


def held(shop: Workshop) -> dict[str, dict[str, str]]:
    """Variable to value, by slug, as any command would see it now."""
    shop.states()
    found: dict[str, dict[str, str]] = {}
    for each in Reservations(shop.project).held():
        found.setdefault(each.slug, {})[each.variable] = each.value
    return found


def declare(shop: Workshop, text: str) -> None:
    (shop.project / "agentos.toml").write_text(f"[workstreams]\n{text}\n")


def test_ports_and_names_are_taken_listed_and_given_back(shop: Workshop) -> None:
    shop.make(a="x", b="x")
    assert "No reservations" in shop.ws("lease").stderr
    taken = shop.ws("lease", "a", "--port", "WEB_PORT", "--name", "TEST_DB")
    assert taken.code == 0
    port = held(shop)["a"]["WEB_PORT"]
    assert taken.lines == ["TEST_DB=test_db_a", f"WEB_PORT={port}"]
    assert shop.ws("lease", "a", "b", "--port").code == 0
    everything = held(shop)
    ports = [everything["a"]["PORT"], everything["b"]["PORT"], port]
    assert len(set(ports)) == 3
    table = [line.split() for line in shop.ws("lease").lines]
    assert table[:2] == [["SLUG", "VARIABLE", "KIND", "VALUE"], ["a", "PORT", "port", ports[0]]]
    assert f"holds: PORT={ports[0]}, TEST_DB=test_db_a, WEB_PORT={port}" in shop.ws("status", "a").stdout
    assert json.loads(shop.ws("status", "a", "--json").stdout)[0]["leases"]["WEB_PORT"] == int(port)
    given_back = shop.ws("release", "a", "WEB_PORT")
    assert given_back.lines == [f"a: WEB_PORT {port} released"]
    assert json.loads(shop.ws("lease", "a", "--json").stdout) == [
        {"slug": "a", "variable": "PORT", "kind": "port", "value": int(ports[0])},
        {"slug": "a", "variable": "TEST_DB", "kind": "name", "value": "test_db_a"},
    ]
    assert len(json.loads(shop.ws("release", "*", "--json").stdout)) == 3
    assert shop.ws("release", "a").lines == ["Nothing was reserved."]


def test_mistakes_are_told_and_take_nothing(shop: Workshop) -> None:
    shop.make(a="x", done="x")
    shop.ws("complete", "done")
    words_of = {
        "lease --port X": "name the workstream",
        "lease nope --port": "no workstream 'nope'",
        "lease a --port OK_PORT --port not-a-name": "'not-a-name' cannot name a reservation",
        "lease a --name PATH": "PATH cannot name a reservation",
        "lease done --port": "done cannot hold ports or names: it is completed",
        "release": "the following arguments are required: SLUG",
        "release a WEB": "a does not hold WEB: it holds nothing",
    }
    refused = shop.converse(*(f"/ws {arguments}" for arguments in words_of))
    assert refused.code == 2
    for words in words_of.values():
        assert words in refused.stderr
    assert held(shop) == {}


def test_processes_that_race_for_ports_get_different_ones(shop: Workshop) -> None:
    shop.make(**{f"w{number}": "x" for number in range(5)})
    commands = [
        shop.start_command("ws", "lease", f"w{number}", "--port", variable)
        for number in range(5)
        for variable in ("WEB_PORT", "API_PORT")
    ]
    finished = [command.wait() for command in commands]
    assert [each.code for each in finished] == [0] * 10, [each.stderr for each in finished if each.code]
    ports = [port for ports in held(shop).values() for port in ports.values()]
    assert len(ports) == len(set(ports)) == 10


def test_a_port_that_is_in_use_is_passed_over(shop: Workshop) -> None:
    shop.make(a="x")
    shop.ws("lease", "a", "--port")
    first = held(shop)["a"]["PORT"]
    shop.ws("release", "a")
    with socket.create_server(("127.0.0.1", int(first))):
        shop.ws("lease", "a", "--port")
        assert held(shop)["a"]["PORT"] != first


def test_declared_ones_come_with_the_workstream_and_reach_its_runs(shop: Workshop) -> None:
    shop.make(before="n1: environment WEB_PORT\nn2: environment TEST_DB")
    declare(shop, 'ports = ["WEB_PORT"]\nnames = ["TEST_DB"]')
    made = shop.ws("new", "a", "n1: environment WEB_PORT\nn2: environment TEST_DB\nn3: wait go")
    assert made.code == 0
    port = held(shop)["a"]["WEB_PORT"]
    assert made.lines[1:] == [f"a: WEB_PORT={port}", "a: TEST_DB=test_db_a"]
    run = shop.start_run("a", "before")
    shop.wait_for_note("a n3 start")
    assert f"WEB_PORT={port}" in shop.notes()
    assert "TEST_DB=test_db_a" in shop.notes()
    shop.release("go")
    assert run.wait().code == 0
    assert "TEST_DB=test_db_before" in shop.notes()
    assert held(shop) == {}


def test_a_declaration_that_makes_no_sense_is_told_before_anything_is_made(shop: Workshop) -> None:
    declare(shop, 'ports = ["web port"]')
    refused = shop.ws("new", "a", "x")
    assert refused.code == 2
    assert (
        "workstreams.ports: each entry must be the name of an environment variable, like WEB_PORT, got 'web port'"
        in (refused.stderr)
    )
    declare(shop, "")
    assert shop.states() == {}


def test_reservations_end_with_their_workstream_however_it_ends(shop: Workshop) -> None:
    declare(shop, 'ports = ["PORT"]')
    shop.make(removed="x", completed="x", deleted="x", gone="x", stays="x")
    assert len(held(shop)) == 5
    assert shop.ws("rm", "removed").code == 0
    assert shop.ws("complete", "completed").code == 0
    shutil.rmtree(shop.worktree("deleted"))
    shop.git("worktree", "remove", "--force", str(shop.worktree("gone")))
    shop.git("branch", "-D", "agentos/gone")
    assert set(held(shop)) == {"stays"}
    assert shop.run_graph("deleted").code == 0
