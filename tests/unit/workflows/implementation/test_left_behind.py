"""What a run leaves that decides about code."""

from __future__ import annotations

from pathlib import Path

from agentos.workflows.implementation.left_behind import stamps, written_between
from agentos.workflows.implementation.project_tests import is_test_path


def test_modules_and_changed_files_of_tests_are_told_and_new_data_is_not(tmp_path: Path) -> None:
    for name in ("shop.py", "old.py", "tests/expected.json", "data.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    before = stamps(tmp_path)
    for name in ("shop.py", "tests/expected.json", "data.json", "tests/new.json", "helper.py", ".cache/a.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("22")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/shop.pyc").write_text("")
    (tmp_path / "link.py").symlink_to("/nowhere")

    written = written_between(before, stamps(tmp_path), is_test_path)

    assert written == ("helper.py", "link.py", "shop.py", "tests/expected.json")
