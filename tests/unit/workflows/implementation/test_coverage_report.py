"""Coverage files of test commands: real ones, and hostile ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentos.sandbox.sandbox import Sandbox
from agentos.workflows.implementation.coverage_report import CoverageReportError, parse_coverage
from agentos.workflows.implementation.judging import judge_green
from agentos.workflows.implementation.suite_report import FileCoverage
from agentos.workflows.implementation.suite_runner import run_command


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "agentos-home"))
    path = tmp_path / "project"
    (path / "src/shop").mkdir(parents=True)
    (path / "src/shop/cart.js").write_text("one\ntwo\nthree\n")
    return path


def cobertura(*classes: str, sources: str = "", start: str = "") -> bytes:
    packages = f"<packages><package><classes>{''.join(classes)}</classes></package></packages>"
    return f"{start}<coverage><sources>{sources}</sources>{packages}</coverage>".encode()


def a_class(filename: str, *lines: tuple[int, int]) -> str:
    rows = "".join(f'<line number="{number}" hits="{hits}"/>' for number, hits in lines)
    return f'<class filename="{filename}"><methods><method/></methods><lines>{rows}</lines></class>'


@pytest.mark.parametrize(
    ("filename", "sources"),
    [
        ("src/shop/cart.js", ""),
        ("shop/cart.js", "<source>src</source>"),
        ("cart.js", "<source>/nowhere</source><source>{project}/src/shop</source>"),
        ("{project}/src/shop/cart.js", "<source>/nowhere</source>"),
        ("src\\shop\\cart.js", ""),
    ],
)
def test_a_file_is_found_however_the_report_names_it(project: Path, filename: str, sources: str) -> None:
    data = cobertura(
        a_class(filename.format(project=project), (1, 4), (2, 0)), sources=sources.format(project=project)
    )

    assert parse_coverage(data, project) == {"src/shop/cart.js": FileCoverage(2, (2,))}


def test_files_beside_the_project_are_left_out(project: Path) -> None:
    (project.parent / "other.js").write_text("x\n")
    names = ("../other.js", str(project.parent / "other.js"), "/etc/passwd", "", "src/shop", "no/such.js", "x" * 5000)

    assert parse_coverage(cobertura(*(a_class(name, (1, 1)) for name in names)), project) == {}


def test_a_line_counts_as_run_when_any_part_of_the_report_says_so(project: Path) -> None:
    classes = a_class("src/shop/cart.js", (1, 1), (2, 0)), a_class("src/shop/cart.js", (2, 3), (3, 0))
    assert parse_coverage(cobertura(*classes), project) == {"src/shop/cart.js": FileCoverage(3, (3,))}

    lcov = "TN:\nSF:src/shop/cart.js\nDA:1,1\nDA:2,0,abc\nLF:2\nend_of_record\n"
    lcov += "SF:src/shop/cart.js\nDA:2,1\nDA:3,0\nend_of_record\n"
    assert parse_coverage(lcov.encode(), project) == {"src/shop/cart.js": FileCoverage(3, (3,))}


def test_a_document_type_that_is_only_an_address_is_not_looked_at(project: Path) -> None:
    address = 'coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd"'
    data = cobertura(a_class("src/shop/cart.js", (1, 1)), start=f"\ufeff<?xml version='1.0'?><!DOCTYPE {address}>")

    assert parse_coverage(data, project)["src/shop/cart.js"].percent == 100


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'<!DOCTYPE coverage [<!ENTITY a "aa">]><coverage>&a;</coverage>', "document type"),
        (b'<!DOCTYPE coverage SYSTEM "x" [<!ENTITY b SYSTEM "file:///etc/passwd">]><coverage/>', "document type"),
        (b'<!DOCTYPE coverage SYSTEM "x"><coverage>&unknown;</coverage>', "not well-formed"),
        (b"<coverage>", "not well-formed"),
        (b"<report/>", "starts with <report>"),
        (b"<coverage><project/></coverage>", "not Cobertura"),
        (b"hello", "neither Cobertura XML nor lcov"),
        (b"", "neither Cobertura XML nor lcov"),
        (b"SF:a.js\nDA:x,1\nend_of_record\n", "a line 'x' that ran '1' times"),
        (cobertura('<class filename="a"><lines><line number="1"/></lines></class>'), "ran 'None' times"),
        (b"<" + b"x" * (32 * 1024 * 1024), "at most"),
    ],
)
def test_hostile_or_broken_files_are_refused(project: Path, data: bytes, words: str) -> None:
    with pytest.raises(CoverageReportError, match=words):
        parse_coverage(data, project)


def test_a_command_says_why_it_has_no_coverage(project: Path) -> None:
    sandbox = Sandbox(project)
    (project / "old.info").write_text("SF:src/shop/cart.js\nDA:1,1\nend_of_record\n")

    def problem(line: str, pattern: str | None) -> str:
        report = run_command(sandbox, line, coverage_glob=pattern)
        (words,) = judge_green(report, changed_files=["src/shop/cart.js"], coverage_target=90).unverified
        return words

    assert "set [implementation] coverage" in problem("true", None)
    assert problem("true", "*.info") == "coverage, since the command wrote no *.info"
    assert "new.info cannot be read: it is neither" in problem("echo hi > new.info", "*.info")
    assert "link.info is not a plain file" in problem("ln -s old.info link.info", "*.info")


def test_a_changed_file_the_report_leaves_out_is_not_verified_and_other_kinds_do_not_count(project: Path) -> None:
    line = r"printf 'SF:src/shop/cart.js\nDA:1,1\nDA:2,0\nend_of_record\n' > lcov.info"
    report = run_command(Sandbox(project), line, coverage_glob="lcov.info")
    changed = ["src/shop/cart.js", "src/shop/new.js", "style.css", "README.md"]

    verdict = judge_green(report, changed_files=changed, coverage_target=90)

    assert verdict.shortfalls == {"src/shop/cart.js": 50.0}
    assert verdict.unverified == ("coverage of src/shop/new.js, since the report has nothing on it",)


@pytest.mark.parametrize(("kind", "name"), [("xml", "coverage.xml"), ("lcov", "lcov.info")])
def test_what_coverage_itself_writes_is_read(project: Path, kind: str, name: str) -> None:
    (project / "tool.py").write_text("import sys\n\nif len(sys.argv) > 5:\n    print('never')\n")
    python = f"{sys.executable} -m coverage"
    line = f"{python} run --data-file=$TMPDIR/data tool.py && {python} {kind} --data-file=$TMPDIR/data -o {name}"

    report = run_command(Sandbox(project), line, coverage_glob=name)

    assert report.coverage == {"tool.py": FileCoverage(3, (4,))}, report.output
