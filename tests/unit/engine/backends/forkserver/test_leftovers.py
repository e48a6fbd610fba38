"""What loading a graph leaves behind that no descriptor tells of."""

from __future__ import annotations

import atexit
import logging
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from agentos.engine.backends.forkserver.leftovers import is_own, reseed_random_generators, watched_loading


def test_what_is_for_the_end_of_the_process_is_no_workers_to_do() -> None:
    with watched_loading() as loading:
        assert loading.not_to_share() == []
        with TemporaryDirectory():
            atexit.register(print)
            atexit.unregister(print)
            assert loading.not_to_share() == ["a temporary folder", "a function to call at exit"]

    register = atexit.register
    with watched_loading():
        assert atexit.register is not register
    assert atexit.register is register


def test_only_generators_without_a_chosen_seed_are_seeded_anew() -> None:
    with watched_loading() as loading:
        by_chance, chosen, chosen_later = Random(), Random(7), Random()
        chosen_later.seed(7)
    state = by_chance.getstate()

    reseed_random_generators(loading.drawn)

    assert by_chance.getstate() != state
    assert chosen.getstate() == chosen_later.getstate() == Random(7).getstate()


def test_a_projects_own_code_is_told_from_that_of_libraries() -> None:
    assert is_own(__file__)
    assert is_own("/usr/src/app/graph.py")
    assert not any(map(is_own, [logging.__file__, "<frozen importlib>", "/venv/lib/python3.11/site-packages/a.py"]))
    assert not is_own(str(Path(reseed_random_generators.__code__.co_filename)))


class Generator:
    """As numpy's, as far as it goes here."""

    def __init__(self, seed: int) -> None:
        self.bit_generator = SimpleNamespace(seed_seq=SimpleNamespace(entropy=seed))


@pytest.mark.parametrize(("seed", "told"), [(7, []), (1 << 100, ["a random generator"])])
def test_a_numpy_generator_that_nobody_has_seeded_is_not_shared(
    monkeypatch: pytest.MonkeyPatch, seed: int, told: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", SimpleNamespace(random=SimpleNamespace(Generator=Generator)))
    monkeypatch.setattr(sys.modules[__name__], "generator", Generator(seed), raising=False)

    with watched_loading() as loading:
        assert loading.not_to_share() == told
