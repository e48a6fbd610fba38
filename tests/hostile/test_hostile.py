"""Every attack in `answers/` and `probes/`, on every strength of sandbox that this machine has."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from attacks import Attack, load
from harness import eventually
from world import World

from agentos.sandbox.isolation import Isolation
from agentos.sandbox.sandbox import Sandbox, is_available, strongest_isolation

STRENGTHS = [isolation for isolation in Isolation if isolation is not Isolation.NONE and is_available(isolation)]
STRONGEST_FIRST = [
    pytest.param(isolation, marks=pytest.mark.slow if place else (), id=isolation.value)
    for place, isolation in enumerate(STRENGTHS)
]
"""Every run of the tests tries the strongest; the long one tries all."""
ANSWERS = load("answers")
PROBES = load("probes")
_AROUND_A_PROBE = """
try:
    got = attempt()
except OSError as error:
    print("contained:", error)
else:
    print("escaped:" if got else "contained: in vain")
"""


@pytest.fixture(scope="module", params=STRONGEST_FIRST)
def strength(request: pytest.FixtureRequest) -> Isolation:
    isolation: Isolation = request.param
    return isolation


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A machine for all probes: none of them may leave a trace, so the next one finds it as it was."""
    made = World(tmp_path_factory.mktemp("probed"))
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(
    "probe",
    [pytest.param(each, marks=() if each.quick else pytest.mark.slow, id=each.name) for each in PROBES],
)
def test_hostile_code_is_contained(
    probe: Attack, strength: Isolation, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not probe.runs_on(strength.value):
        pytest.skip(f"says nothing about {strength.value}")
    for name in ("HOME", "AGENTOS_HOME", "DEPLOY_TOKEN"):
        monkeypatch.setenv(name, world.environment[name])
    worktree = world.root / "worktrees" / probe.name
    worktree.mkdir(parents=True, exist_ok=True)
    git_link = worktree / ".git"
    git_link.write_text(f"gitdir: {world.project}/.git/worktrees/{probe.name}\n")
    before = git_link.read_text()
    code = textwrap.dedent(world.filled(probe.code)) + _AROUND_A_PROBE

    result = Sandbox(worktree, strength).run([sys.executable, "-c", code], timeout_seconds=60)

    wanted = "escaped:" if strength.value in probe.expect.escapes else "contained:"
    assert f"\n{result.output}".rpartition("\n" + wanted)[1], result.output
    assert git_link.read_text() == before
    if probe.expect.leaves_nothing:
        wait_for_no_process(world.filled(probe.expect.leaves_nothing))
    world.assert_untouched()


def wait_for_no_process(word: str) -> None:
    """Until no process on the machine has this word in its command line."""

    def left() -> list[str]:
        return [line for line in command_lines() if word in line.split("\0")]

    eventually(lambda: not left(), f"no process with {word}")


def command_lines() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_text(errors="replace")


def own_world(root: Path, attacks: list[Attack], strength: Isolation) -> None:
    """Run attacks in a machine of their own and see what each came to."""
    world = World(root)
    try:
        for attack in attacks:
            if attack.needs_own_project:
                world.commit_project(attack)
        for number, attack in enumerate(attacks, start=1):
            world.add_attack(number, attack)
        finished = world.attack(*range(1, len(attacks) + 1), strength=strength.value)
        problems = [
            f"{attack.name} ({attack.what}): {problem}\n{told}\n"
            for number, attack in enumerate(attacks, start=1)
            for told in [world.told(number, finished)]
            for problem in problems_with(attack, world.outcomes().get(str(number)), told)
        ]
        assert not problems, "\n".join(problems)
        world.assert_untouched()
    finally:
        world.close()


def problems_with(attack: Attack, outcome: str | None, told: str) -> Iterator[str]:
    """What is not as the attack's file says it must be."""
    if outcome not in attack.expect.outcome:
        yield f"the outcome is {outcome}, not one of {attack.expect.outcome}"
    yield from (f"nobody said {text!r}" for text in attack.expect.says if text not in told)
    yield from (f"somebody said {text!r}" for text in attack.expect.never_says if text in told)


@pytest.mark.timeout(1800)
def test_hostile_answers_come_to_what_they_should(tmp_path: Path) -> None:
    own_world(tmp_path, [each for each in ANSWERS if each.quick], strongest_isolation())


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_hostile_answers_come_to_what_they_should_on_every_strength(strength: Isolation, tmp_path: Path) -> None:
    together = [each for each in ANSWERS if not each.needs_own_project and each.runs_on(strength.value)]
    own_world(tmp_path, together, strength)


@pytest.mark.slow
@pytest.mark.parametrize("attack", [each for each in ANSWERS if each.needs_own_project], ids=lambda each: each.name)
def test_a_hostile_project_comes_to_what_it_should(attack: Attack, strength: Isolation, tmp_path: Path) -> None:
    if not attack.runs_on(strength.value):
        pytest.skip(f"says nothing about {strength.value}")
    own_world(tmp_path, [attack], strength)
