"""A model's answer becomes file operations only if all of them are allowed, and nothing leaves the worktree."""

from __future__ import annotations

import contextlib
import os
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.workflows.implementation.apply import AppliedChange, apply_operations, read_confined
from agentos.workflows.implementation.file_operations import (
    PROTECTED,
    CreateFile,
    DeleteFile,
    Deviation,
    Edit,
    EditFile,
    FileOperation,
    FileOperationsError,
    Policy,
    ReplaceFile,
    deviations,
    parse_operations,
    path_problem,
    stated_decisions,
)

ANSWER = """\
Here is the change.

<create path="src/new.py">
def f():
    return "<edit>"

</create>
<replace path="src/old.py">
</replace>
<edit path="src/big.py" reason="the caller changed">
<<<<<<< SEARCH
a = 1
=======
a = 2
b = 3
>>>>>>> REPLACE

<<<<<<< SEARCH
gone
=======
>>>>>>> REPLACE
</edit>
<delete path="src/gone.py" reason="merged"/>
Done.
"""


def problems_of(answer: str, policy: Policy | None = None) -> list[str]:
    with pytest.raises(FileOperationsError) as caught:
        parse_operations(answer, policy)
    assert all(problem.words() in caught.value.for_model() for problem in caught.value.mistakes)
    assert "\n" not in str(caught.value)
    return [problem.words() for problem in caught.value.mistakes]


def create(path: str, content: str = "x", reason: str = "") -> str:
    return f'<create path="{path}" reason="{reason}">\n{content}\n</create>\n'


def test_all_four_operations_are_read() -> None:
    assert parse_operations(ANSWER) == (
        CreateFile("src/new.py", 'def f():\n    return "<edit>"\n\n'),
        ReplaceFile("src/old.py", ""),
        EditFile("src/big.py", (Edit("a = 1\n", "a = 2\nb = 3\n"), Edit("gone\n", "")), "the caller changed"),
        DeleteFile("src/gone.py", "merged"),
    )


def test_windows_line_ends_of_an_answer_are_read_alike() -> None:
    assert parse_operations(ANSWER.replace("\n", "\r\n")) == parse_operations(ANSWER)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("I could not do it.", "the answer: has no <create>"),
        (
            '<create path="a.py">\nx = 1',
            "line 1: <create> is never closed by a line </create>: the answer was cut off",
        ),
        ("<create>\nx\n</create>", 'line 1: a tag has path="..."'),
        ('<create path="a" mode="777">\nx\n</create>', 'line 1: a tag has path="..."'),
        ('<create path="a" path="b">\nx\n</create>', 'line 1: a tag has path="..."'),
        ("text\n<create path='a.py'>\nx\n", "line 2: \"<create path='a.py'>\" is not a tag of the format"),
        ('<delete path="a"></delete>', "is not a tag of the format"),
        ('<edit path="a">\n</edit>', "line 1: this <edit> has no SEARCH/REPLACE part"),
        ('<edit path="a">\nx = 1\n</edit>', "line 2: a line '<<<<<<< SEARCH' is expected here, not 'x = 1'"),
        ('<edit path="a">\n<<<<<<< SEARCH\nx\n</edit>', "has no line '======='"),
        ('<edit path="a">\n<<<<<<< SEARCH\nx\n=======\ny\n</edit>', "has no line '>>>>>>> REPLACE'"),
        ('<edit path="a">\n<<<<<<< SEARCH\n=======\ny\n>>>>>>> REPLACE\n</edit>', "a: has an empty SEARCH part"),
        ('<create path="a.py">\n```python\nx = 1\n```\n</create>', "wrapped in a code fence"),
        (create("a.py") + create("A.py"), "A.py: is named twice"),
        (create("a") + create("a/b"), "a/b: is a file and a directory"),
        (create("a.py", "x\0"), "a.py: has a NUL character"),
        (create("a.py", "\ud800"), "a.py: has characters that are not valid Unicode"),
    ],
)
def test_problem_of_an_answer_is_said_precisely(answer: str, words: str) -> None:
    assert any(words in problem for problem in problems_of(answer)), problems_of(answer)


def test_every_problem_is_said_at_once() -> None:
    assert len(problems_of(create("/etc/passwd") + create("../x") + create("ok.py") + "<edit>\n</edit>")) == 3


def test_sizes_and_counts_are_bounded() -> None:
    small = Policy(max_operations=1, max_file_bytes=10, max_total_bytes=15, max_answer_characters=1000)
    words = problems_of(create("a", "x" * 11) + create("b", "x" * 9), small)
    assert [problem.split(",")[0] for problem in words] == [
        "the answer: has 2 files",
        "a: has 12 bytes",
        "the answer: writes 22 bytes",
    ]
    assert "change less at a time" in problems_of("x" * 1001, small)[0]


@pytest.mark.parametrize(
    "path",
    [
        "", "/etc/passwd", "~/x", "../x", "a/../../x", "a/./b", "a//b", "a/", "a\\b", "C:/x", "a\x00b", "a\nb",
        "a/b ", "a./b", ".git/hooks/pre-commit", "a/.GIT/config", ".git", "git~1/config", ".g\u200cit/config",
        "\uff0egit/config", "x" * 500, ".github/workflows/ci.yml", ".GitHub/Workflows/deep/ci.yml",
        ".gitlab-ci.yml", "Jenkinsfile", ".husky/pre-commit", ".pre-commit-config.yaml", ".gitmodules",
        "sub/.gitattributes", ".env", "app/.env.production", ".envrc", "key.pem", "deploy/id_rsa",
        ".vscode/tasks.json", "agentos.toml", "vendor/lib/x.c", "Vendor/Lib", "tests/test_a.py",
    ],
)  # fmt: skip
def test_path_that_is_out_of_bounds_is_refused(path: str) -> None:
    policy = Policy(submodules=("vendor/lib",), frozen=("tests/test_a.py",))
    assert path_problem(path, policy) is not None


@pytest.mark.parametrize(
    "path",
    [
        "a.py",
        "src/deep/er/a-b_c.py",
        ".env.example",
        "coverage_tools.py",
        "vendor/library.c",
        "docs/é.md",
        "gitx",
        "..a",
    ],
)
def test_ordinary_path_is_allowed(path: str) -> None:
    assert path_problem(path, Policy(submodules=("vendor/lib",))) is None


PROTECTED_PATHS = [
    ".claude/settings.json", "sub/.codex/config.toml", ".gemini/x", ".cursor/rules", ".mcp.json", "AGENTS.md",
    "docs/CLAUDE.md", ".gitea/workflows/ci.yml", ".forgejo/workflows/ci.yml", ".woodpecker.yaml",
    ".devcontainer/devcontainer.json", "lefthook.yml", ".mise.toml", "tox.ini", "noxfile.py", "setup.py", "setup.cfg",
    "conftest.py", "tests/deep/conftest.py", "pytest.ini", ".gitignore", "pkg/.gitignore", "sitecustomize.py",
    "src/usercustomize.py", "pytest.py", "coverage.py", "_pytest/runner.py", "evil.pth",
    "x-1.dist-info/entry_points.txt",
    "docs/lld/active/LLD-2.md", "docs/reports/1/test-report.md", "CONFTEST.PY",
]  # fmt: skip


@pytest.mark.parametrize("path", PROTECTED_PATHS)
def test_what_judges_code_or_runs_by_itself_is_changed_only_if_an_approved_design_names_it(path: str) -> None:
    protected = (*PROTECTED, "docs/lld/active/*", "docs/reports/*")
    assert "only an approved design" in str(path_problem(path, Policy(protected=protected)))
    assert "only an approved design" in str(path_problem(path, Policy(protected=protected, granted=(f"{path}/",))))
    assert path_problem(path, Policy(protected=protected, granted=(path,))) is None


@pytest.mark.parametrize("path", [".env", "agentos.toml", "deploy/key.pem", ".agentos/x"])
def test_secrets_and_our_own_settings_are_not_changed_whatever_a_design_names(path: str) -> None:
    assert "not for a model" in str(path_problem(path, Policy(granted=(path,))))


def test_file_outside_the_table_needs_a_reason_and_is_reported() -> None:
    policy = Policy(listed=("src/a.py", "tests/"))
    answer = create("src/a.py") + create("tests/deep/test_a.py") + create("src/b.py", reason="a.py needs it")
    operations = parse_operations(answer, policy)
    assert deviations(operations, policy) == (Deviation("src/b.py", "a.py needs it"),)
    assert "not in the LLD's table" in problems_of(create("src/b.py"), policy)[0]
    assert deviations(operations, Policy()) == ()


@settings(deadline=None, max_examples=150)
@given(st.text(alphabet=string.ascii_letters + "./\\~ \0\u202e-:", max_size=20))
def test_allowed_path_always_stays_below_the_root(path: str) -> None:
    if path_problem(path) is None:
        normal = os.path.normpath(f"/root/dir/{path}")
        assert normal == f"/root/dir/{path}"


@settings(deadline=None, max_examples=80)
@given(st.text(max_size=200))
def test_any_answer_is_parsed_or_refused_with_a_typed_error(answer: str) -> None:
    with contextlib.suppress(FileOperationsError):
        assert parse_operations(answer)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "worktree"
    path.mkdir()
    (path / "old.py").write_text("a = 1\nb = 2\nc = 3\n")
    (path / "run.sh").write_text("#!/bin/sh\n")
    (path / "run.sh").chmod(0o755)
    return path


def refusal(root: Path, *operations: FileOperation) -> str:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(FileOperationsError) as caught:
        apply_operations(root, operations)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    return "; ".join(problem.words() for problem in caught.value.mistakes)


def test_operations_are_carried_out(root: Path) -> None:
    (root / "gone.py").write_text("x")
    applied = apply_operations(
        root,
        [
            CreateFile("pkg/deep/new.py", "é = 1\n"),
            EditFile("old.py", (Edit("b = 2\n", "b = 20\n"), Edit("c = 3\n", ""))),
            ReplaceFile("run.sh", "#!/bin/sh\necho\n"),
            DeleteFile("gone.py"),
        ],
    )
    assert applied == (
        AppliedChange("pkg/deep/new.py", "created"),
        AppliedChange("old.py", "edited"),
        AppliedChange("run.sh", "replaced"),
        AppliedChange("gone.py", "deleted"),
    )
    assert (root / "pkg/deep/new.py").read_text(encoding="utf-8") == "é = 1\n"
    assert (root / "old.py").read_text() == "a = 1\nb = 20\n"
    assert (root / "run.sh").stat().st_mode & 0o777 == 0o755
    assert not (root / "gone.py").exists()
    assert sorted(path.name for path in root.iterdir()) == ["old.py", "pkg", "run.sh"]


def test_nothing_is_written_unless_all_can_be(root: Path) -> None:
    words = refusal(root, CreateFile("fine.py", "x"), CreateFile("old.py", "x"), DeleteFile("absent.py"))
    assert "old.py: exists already" in words
    assert "absent.py: does not exist" in words


def test_search_that_is_missing_or_ambiguous_is_explained(root: Path) -> None:
    (root / "twice.py").write_text("x\nx\n")
    assert "SEARCH part 1 is in the file 2 times" in refusal(root, EditFile("twice.py", (Edit("x\n", "y\n"),)))
    words = refusal(root, EditFile("old.py", (Edit("a = 1\n", "a = 2\n"), Edit("b  = 2\n", ""))))
    assert "SEARCH part 2 is not in the file: the nearest to its first line is line 2, 'b = 2'" in words
    assert "copy it exactly" in refusal(root, EditFile("old.py", (Edit("something else entirely\n", ""),)))


def test_edit_keeps_dos_line_ends_and_a_missing_last_one(root: Path) -> None:
    (root / "dos.txt").write_bytes(b"a\r\nb\r\nlast")
    apply_operations(root, [EditFile("dos.txt", (Edit("a\n", "x\ny\n"), Edit("last\n", "end\n")))])
    assert (root / "dos.txt").read_bytes() == b"x\r\ny\r\nb\r\nend"


def test_links_are_never_followed(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (root / "dir").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    (root / "dangling").symlink_to(outside / "new")
    os.link(outside / "secret", root / "hard")
    os.mkfifo(root / "pipe")
    for operation in (
        CreateFile("dir/x", "x"),
        ReplaceFile("dir/secret", "x"),
        DeleteFile("dir/secret"),
        ReplaceFile("file", "x"),
        EditFile("file", (Edit("secret\n", "x\n"),)),
        CreateFile("dangling", "x"),
        CreateFile("old.py/below", "x"),
    ):
        with pytest.raises(FileOperationsError, match="link"):
            apply_operations(root, [operation])
    with pytest.raises(FileOperationsError, match="device"):
        apply_operations(root, [ReplaceFile("pipe", "x")])
    apply_operations(root, [ReplaceFile("hard", "changed")])
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]
    assert (outside / "secret").read_text() == "secret"
    assert (root / "hard").read_text() == "changed"


def test_repository_inside_is_left_alone(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub" / ".git").write_text("gitdir: elsewhere")
    assert "a repository of its own" in refusal(root, CreateFile("sub/x.py", "x"))


def test_paths_are_checked_again_when_applied(root: Path) -> None:
    assert "git's own directory" in refusal(root, CreateFile(".git/hooks/x", "x"))
    assert "`..`" in refusal(root, CreateFile("../x", "x"))


def test_binary_and_oversized_files_are_not_edited(root: Path) -> None:
    (root / "image.png").write_bytes(b"\x89PNG\xff")
    assert "not UTF-8" in refusal(root, EditFile("image.png", (Edit("x\n", "y\n"),)))
    with (root / "huge.txt").open("wb") as stream:
        stream.truncate(9 * 1024 * 1024)
    with pytest.raises(FileOperationsError, match="larger than"):
        apply_operations(root, [ReplaceFile("huge.txt", "x")])


def test_only_plain_files_below_the_root_that_hold_no_secrets_are_shown(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("outside")
    (root / "link").symlink_to(tmp_path)
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    (root / ".env").write_text("KEY=1")
    os.mkfifo(root / "pipe")

    assert read_confined(root, "old.py") == b"a = 1\nb = 2\nc = 3\n"
    hidden = (
        "../secret.txt",
        str(tmp_path / "secret.txt"),
        "link/secret.txt",
        "link.txt",
        ".env",
        "pipe",
        "none",
        "",
    )
    assert [read_confined(root, path) for path in hidden] == [None] * len(hidden)


def test_decisions_are_read_between_the_blocks_few_and_short() -> None:
    answer = (
        "Decision: Ties go to the\tfirst.\n- **Decision:** No cache.\nI decided much else.\n"
        '<create path="a.md">\nDecision: not one of mine\n</create>\nDecision:\n' + f"decision: {'x' * 900}\n" * 20
    )

    first, second, *others = stated_decisions(answer)

    assert (first, second) == ("Ties go to the first.", "No cache.")
    assert (len(others), {len(text) for text in others}) == (8, {300})
