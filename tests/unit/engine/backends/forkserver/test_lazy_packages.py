"""Packages that are loaded when somebody looks into them."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from agentos.engine.backends.forkserver.lazy_packages import put_off


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `heavy` that is put off; a file `ran` beside it has a line for each time that it ran."""
    folder = tmp_path / "heavy"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from pathlib import Path\n"
        "with (Path(__file__).parents[1] / 'ran').open('a') as ran:\n"
        "    ran.write('once\\n')\n"
        "__version__ = '1.2'\n"
        "from .light import LIGHT\n"
        "from .late import LATE\n"
    )
    (folder / "light.py").write_text("LIGHT = 'light'\n")
    (folder / "late.py").write_text("from heavy import LIGHT\nLATE = LIGHT + ' late'\n")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    put_off({"heavy", "not_installed_at_all"})
    yield folder
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.partition(".")[0] == "heavy"]:
        del sys.modules[name]


def _runs(package: Path) -> int:
    ran = package.parent / "ran"
    return len(ran.read_text().splitlines()) if ran.exists() else 0


def test_a_module_of_it_is_imported_without_the_rest(package: Path) -> None:
    assert importlib.import_module("heavy.light").LIGHT == "light"
    assert "heavy.late" not in sys.modules
    assert _runs(package) == 0


def test_it_runs_once_when_somebody_asks_for_what_is_in_it(package: Path) -> None:
    heavy = importlib.import_module("heavy")
    assert _runs(package) == 0
    assert heavy.__version__ == "1.2"
    assert heavy.LATE == "light late"
    assert importlib.import_module("heavy").LIGHT == "light"
    with pytest.raises(AttributeError, match="heavy"):
        _ = heavy.nothing_of_that_name
    assert _runs(package) == 1


def test_a_name_that_it_does_not_have_is_no_attribute(package: Path) -> None:
    with pytest.raises(AttributeError, match="'heavy' has no attribute 'nothing'"):
        _ = importlib.import_module("heavy").nothing
    with pytest.raises(ImportError, match="nothing"):
        exec("from heavy import nothing")


def test_looking_at_the_module_itself_does_not_run_it(package: Path) -> None:
    heavy = importlib.import_module("heavy")
    assert isinstance(heavy.__loader__, SourceFileLoader)
    assert heavy.__spec__ is not None
    assert heavy.__spec__.loader is heavy.__loader__
    assert heavy.__file__ == str(package / "__init__.py")
    assert not hasattr(heavy, "__wrapped__")
    assert _runs(package) == 0


def test_threads_that_ask_at_the_same_time_all_get_it(package: Path) -> None:
    heavy = importlib.import_module("heavy")
    together, found = threading.Barrier(8), list[str]()

    def ask() -> None:
        together.wait()
        found.append(heavy.LATE)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["light late"] * 8
    assert _runs(package) == 1


def test_its_failure_is_told_to_everybody_who_asks(package: Path) -> None:
    (package / "late.py").write_text("raise RuntimeError('broken')\n")
    heavy = importlib.import_module("heavy")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broken"):
            _ = heavy.LATE


def test_what_is_not_installed_stays_so(package: Path) -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("not_installed_at_all")
