"""`docs/reference/files.md` names every file that AgentOS keeps."""

from __future__ import annotations

import inspect
from contextlib import closing
from pathlib import Path

import pytest

from agentos import paths
from agentos.engine.checkpoints import store_for
from agentos.engine.checkpoints.protocol import ItemRef

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
NO_FILES = {"home_dir", "project_key", "find_project_dir"}
ARGUMENTS = {"workflow": "{type}", "label": "{label}", "item_id": "{item}"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def builders() -> list[str]:
    found = inspect.getmembers(paths, inspect.isfunction)
    return [name for name, function in found if function.__module__ == paths.__name__ and name not in NO_FILES]


@pytest.mark.parametrize("name", builders())
def test_each_place_under_home_is_described(name: str, tmp_path: Path, home: Path) -> None:
    build = getattr(paths, name)
    needed = [p.name for p in inspect.signature(build).parameters.values() if p.default is p.empty]
    place = build(*(ARGUMENTS.get(parameter, tmp_path) for parameter in needed)).relative_to(home)
    # A lock is named after what it guards; its folder is enough.
    shown = str(place.parent if place.suffix == ".lock" else place).replace(paths.project_key(tmp_path), "{project}")
    assert f"`{shown}" in PAGE


def test_each_file_of_a_checkpoint_is_described(tmp_path: Path) -> None:
    store, ref = store_for(tmp_path), ItemRef("{type}", "{item}")
    address = store.address(ref)
    with closing(store.open(ref)) as checkpoint:
        checkpoint.begin("abc")
        made = [path.name for path in Path(address).parent.iterdir()]
    assert len(made) > 1
    for name in made:
        suffix = name.removeprefix(Path(address).name)
        assert (f"`….db{suffix}`" if suffix else f"/{name}`") in PAGE
