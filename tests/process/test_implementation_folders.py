"""`agentos implement` and its kin in a project that is a folder of its repository."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from designs import Designs, create

FOLDER = "services/api"


@pytest.fixture
def designs(tmp_path: Path) -> Iterator[Designs]:
    """The sample project in a folder of a repository that has another project, and settings of pytest at its top."""
    made = Designs(tmp_path)
    try:
        top = made.project
        made.git("rm", "-r", "--quiet", "--cached", ".")
        (top / "services/other").mkdir(parents=True)
        (top / "services/other/agentos.toml").write_text("")
        (top / "services/other/shared.py").write_text("SHARED = 1\n")
        folder = top / FOLDER
        folder.mkdir()
        for name in ("tally", "tests", ".gitignore"):
            (top / name).rename(folder / name)
        (top / "pyproject.toml").write_text((top / "pyproject.toml").read_text().replace('testpaths = ["tests"]', ""))
        (folder / "agentos.toml").write_text("")
        made.git("add", ".")
        made.git("commit", "--quiet", "--amend", "-m", "The repository")
        made.project = folder
        yield made
    finally:
        made.close()


def changed(designs: Designs, branch: str) -> list[str]:
    return designs.git("diff", "--name-only", "main", branch).splitlines()


@pytest.mark.slow
def test_a_project_in_a_folder_gets_its_code_tests_and_reports_in_that_folder(designs: Designs) -> None:
    designs.add(1, 6)

    finished = designs.implement("--all", "--parallel", "2")

    assert finished.code == 0, finished.stdout + finished.stderr
    assert designs.outcomes() == dict.fromkeys("16", "implemented")
    assert changed(designs, "agentos/services--api--1") == [
        f"{FOLDER}/docs/lld/done/LLD-1.md",
        f"{FOLDER}/docs/reports/1/implementation-report.md",
        f"{FOLDER}/docs/reports/1/test-report.md",
        f"{FOLDER}/tally/stats.py",
        f"{FOLDER}/tests/test_issue_1.py",
    ]
    report = designs.file_on("services--api--1", f"{FOLDER}/docs/reports/1/implementation-report.md")
    assert "| `tally/stats.py` | Add | changed |" in report
    assert f"`agentos/services--api--1` from `main` ({designs.git('rev-parse', 'main')[:12]}); paths are in" in report
    tests = designs.file_on("services--api--1", f"{FOLDER}/docs/reports/1/test-report.md")
    assert "`tests/test_issue_1.py::test_010_mean`: passed" in tests
    assert "`tally/stats.py`: 100 %" in tests
    assert "The project's own suite: 1 passed" in tests
    assert designs.git("rev-parse", "agentos/services--api--6^") == designs.git(
        "rev-parse", "agentos/services--api--1"
    )
    assert "IMPL-1  agentos/services--api--1  merges cleanly" in finished.stdout
    assert designs.git("status", "--short") == "?? docs/"
    again = designs.implement("--all")
    assert "1 (implemented on agentos/services--api--1)" in again.stdout


@pytest.mark.needs_namespaces
@pytest.mark.slow
def test_neither_an_answer_nor_the_code_under_test_reaches_the_rest_of_the_repository(designs: Designs) -> None:
    designs.design(
        1, "A thing", [("tally/thing.py", "Add"), ("../other/shared.py", "Modify")], ["thing() writes beside itself"]
    )
    code = (
        "from pathlib import Path\n\n\ndef thing():\n"
        "    Path('.git').mkdir(exist_ok=True)\n"
        "    try:\n        Path('../other/shared.py').write_text('SHARED = 2')\n    except OSError:\n        pass\n"
        "    return Path('../other/shared.py').is_file()"
    )
    test = (
        "from tally.thing import thing\n\n\ndef test_010_thing():\n    assert thing()\n    assert not thing.__doc__\n"
    )
    outside = '<replace path="../other/shared.py" reason="listed">\nSHARED = 3\n</replace>\n'
    designs.record(1, "N1_test_plan", {"verdict": "approve", "summary": "", "findings": [], "answers": []})
    designs.record(1, "N2_scaffold_tests", create("tests/test_thing.py", test).replace('">', '" reason="tests">', 1))
    designs.record(1, "N4_implement", create("tally/thing.py", code) + outside, create("tally/thing.py", code))

    finished = designs.implement("1", env={"AGENTOS_IMPLEMENTATION__COVERAGE_TARGET": "50"})

    assert designs.outcomes() == {"1": "implemented"}, finished.stdout
    branch = "services--api--1"
    assert all(path.startswith(f"{FOLDER}/") for path in changed(designs, f"agentos/{branch}"))
    assert designs.file_on(branch, "services/other/shared.py") == "SHARED = 1"
    report = designs.file_on(branch, f"{FOLDER}/docs/reports/1/implementation-report.md")
    assert "'../other/shared.py': a path has no empty part, no " in report
    assert not (designs.project / ".git").exists()


@pytest.mark.slow
def test_two_projects_of_a_repository_have_an_item_of_the_same_number_each(designs: Designs) -> None:
    designs.add(1)
    first = designs.implement("1")
    other = designs.project.parent / "other"
    designs.project, api = other, designs.project
    (other / "tests").mkdir()
    (other / "tally").mkdir()
    designs.add(1)
    second = designs.implement("1")

    assert (first.code, second.code) == (0, 0), second.stdout
    assert f"{FOLDER}/tally/stats.py" in changed(designs, "agentos/services--api--1")
    assert "services/other/tally/stats.py" in changed(designs, "agentos/services--other--1")
    assert api.is_dir()


@pytest.mark.slow
def test_a_workstream_and_a_pipeline_in_a_folder_work_in_that_folder(designs: Designs) -> None:
    offline = ("--drafter", "offline", "--reviewer", "offline")
    (designs.project / "agentos.toml").write_text('[workstreams]\ncopy = ["local.log"]\n')
    (designs.project / "local.log").write_text("mine\n")
    assert designs.command("ws", "new", "counting", "count(text) returns the number of words").code == 0
    issue = designs.project / "docs/issues/003-shout.md"
    issue.parent.mkdir(parents=True)
    issue.write_text("# Shout\n\n## Requirements\n\n1. `shout(text)` returns the text in upper case.\n")

    (copied,) = designs.home.glob(f"worktrees/*/counting/{FOLDER}/local.log")
    assert copied.read_text() == "mine\n"

    stream = designs.start_command("ws", "run", "counting", *offline).wait()
    pipe = designs.start_command("pipeline", "--all", *offline).wait()

    assert (stream.code, pipe.code) == (0, 0), stream.stdout + pipe.stdout + pipe.stderr
    for branch in ("agentos/counting", "agentos/services--api--3"):
        paths = changed(designs, branch)
        assert paths, branch
        assert all(path.startswith(f"{FOLDER}/") for path in paths), paths


def test_a_folder_that_is_a_link_on_the_branch_is_refused(designs: Designs) -> None:
    top = designs.project.parents[1]
    designs.git("rm", "-r", "--quiet", "--cached", ".")
    (top / "services/other/link").symlink_to("/tmp")
    blob = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"], input=b"/tmp", cwd=top, capture_output=True, check=True
    ).stdout.decode()
    designs.git("update-index", "--add", "--cacheinfo", f"120000,{blob.strip()},{FOLDER}")
    designs.git("commit", "--quiet", "-m", "A link")
    designs.add(1)

    finished = designs.implement("1")

    assert finished.code == 1
    assert "services/api is reached through a link on agentos/services--api--1" in finished.stdout
