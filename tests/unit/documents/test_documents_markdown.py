"""The Markdown reader: what it sees, and that nothing is lost or hidden."""

from __future__ import annotations

import pytest
from document_samples import rendered
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.documents.blocks import fields, list_items, read_field, split_row, tables
from agentos.documents.inline import code_texts, mask_code, plain, shown, words
from agentos.documents.lines import LineKind
from agentos.documents.markdown import parse, slug, title_key

PIECES = st.sampled_from(
    ["# A\n", "## 2.1 Files\n", "text\n", "---\n", "===\n", "```\n", "````py\n", "~~~\n", "<!--", "-->", "\n", "\r\n",
     "\r", "| a | b |\n", "|---|:-:|\n", "- [x] done\n", "1. one\n", "  * two\n", "`", "``", "\\|", "\\", "|", "> ",
     "key: value\n", "\ufeff", "\0", "\u2028", "\x0b", "\ud800", "    code\n", "\t", "**Status:** ", "Issue: #1\n",
     "{x}", "R1: ", "TODO\n"]
)  # fmt: skip
MARKDOWN = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=40).map("".join))


@settings(deadline=None, max_examples=400)
@given(MARKDOWN)
def test_any_text_is_rendered_exactly_as_it_was_read(text: str) -> None:
    document = parse(text)
    assert rendered(document) == text
    assert "".join(line.text + line.ending for line in document.lines) == text
    assert all(text[line.start : line.end] == line.text + line.ending for line in document.lines)


@settings(deadline=None, max_examples=200)
@given(MARKDOWN)
def test_sections_nest_within_each_other(text: str) -> None:
    document = parse(text)
    for section in document.sections:
        assert section.start < section.end <= section.tree_end
        for inner in document.tree(section)[1:]:
            assert inner.level > section.level
            assert inner.tree_end <= section.tree_end
            assert section in list(document.ancestors(inner))


@pytest.mark.parametrize(
    "text",
    ["`" * 300_000, "<!---->" * 50_000, "<!--" * 100_000, "[" * 300_000, "`a|" * 100_000, "- " * 150_000,
     "a|b\n" * 32_000, "|a|\n" * 32_000, "a\n---\n" * 25_000, "#" * 300_000, "[](a " * 75_000, "*" * 300_000,
     "> " * 150_000 + "```", "\\" * 300_000 + "`"],
    ids=lambda text: text[:8],
)  # fmt: skip
def test_hostile_text_is_read_in_one_pass(text: str) -> None:
    # A second or two; what is quadratic in the text takes longer than a test may.
    document = parse(text)
    tables(document.lines)
    list_items(document.lines)
    fields(document.lines)

    assert "".join(line.text + line.ending for line in document.lines) == text


@pytest.mark.parametrize(
    "fenced",
    [
        "```\n# no\n```",
        "~~~\n# no\n```\n# no\n~~~",
        "````md\n```\n# no\n```\n# no\n````",
        "  ```\n# no\n  ```",
        "- ```sh\n# no\n  ```",
        "1. step\n\n    ```sh\n# no\n    ```",
        "> ```\n> # no\n> ```",
        "> ```\n> # no",
        "<!--\n# no\n-->",
        "<!-- a --> <!--\n# no\n```\n-->",
    ],
)
def test_headings_in_code_and_comments_are_no_sections(fenced: str) -> None:
    titles = [section.title for section in parse(f"# Yes\n\n{fenced}\n\n## After\n").sections]
    assert titles == ["Yes", "After"]


def test_what_only_looks_like_a_fence_or_comment_hides_nothing() -> None:
    text = "```not a `fence`\n# One\nUse `<!--` here\n# Two\na <!-- that never ends\n# Three\n"
    assert [section.title for section in parse(text).sections] == ["One", "Two", "Three"]


def test_unclosed_fences_and_comments_are_reported_with_their_line() -> None:
    assert parse("# A\n```\n# B\n").unclosed_fence_line == 2
    assert parse("# A\n\n<!-- b\n# B\n").unclosed_comment_line == 3
    assert parse("# A\n```\n```\n<!-- -->\n").unclosed_fence_line is None


def test_setext_headings_are_one_line_paragraphs() -> None:
    text = "Title\n=====\n\nPart\n---\n\ntwo lines\nof text\n---\n\n- item\n---\n"
    sections = parse(text).sections
    assert [(section.title, section.level, section.line) for section in sections] == [("Title", 1, 1), ("Part", 2, 4)]


@pytest.mark.parametrize(
    ("heading", "number", "title"),
    [
        ("2.1 Files Changed", "2.1", "Files Changed"),
        ("2.1. Files Changed", "2.1", "Files Changed"),
        ("3) Requirements", "3", "Requirements"),
        ("Section 4: **Risks**", "4", "Risks"),
        ("57 - Feature: X", "57", "Feature: X"),
        ("Files `a.py`", None, "Files a.py"),
        ("2024", "2024", "2024"),
    ],
)
def test_numbers_are_told_from_titles(heading: str, number: str | None, title: str) -> None:
    section = parse(f"## {heading} ##\n").sections[0]
    assert (section.number, section.title) == (number, title)


def test_front_matter_gives_values_and_lists() -> None:
    document = parse(
        "---\nID: 42\ntitle: 'A: b'  \nlabels: [one, \"two\"]\ndepends_on:\n  - 7\n  - 8 # later\n---\n# T\n"
    )
    assert document.front_matter == {
        "id": "42", "title": "A: b", "labels": ("one", "two"), "depends_on": ("7", "8"),
    }  # fmt: skip
    assert document.preamble_lines() == []


@pytest.mark.parametrize(
    "text", ["---\n\n# T\n---\n", "---\n# T\ntext\n---\n", "---\nkey: value\n", "# T\n---\na: b\n---\n"]
)
def test_rulers_are_not_front_matter(text: str) -> None:
    assert parse(text).front_matter == {}


def table_of(text: str) -> list[list[str]]:
    (table,) = tables(parse(text).lines)
    return [list(table.header), *[list(row.cells) for row in table.rows]]


@pytest.mark.parametrize(
    "text",
    [
        "| A | B |\n|---|---|\n| 1 | 2 |",
        "A | B\n--- | ---\n1 | 2",
        "|A|B|\n|:-:|--:|\n|1|2|",
        "  |  A  |\tB |  \n  |----|----|\n  | 1 | 2 |",
        "| A | B |\n| 1 | 2 |",
        "| A | B |\n|---|---|\n<!-- hidden | row -->\n| 1 | 2 |",
    ],
)
def test_tables_of_many_shapes_read_the_same(text: str) -> None:
    assert table_of(text) == [["A", "B"], ["1", "2"]]


def test_pipes_that_are_escaped_or_in_code_do_not_separate() -> None:
    assert split_row(r"| a \| b | `c | d` | e |") == [r"a | b", "`c | d`", "e"]
    assert table_of("| A | B |\n|---|---|\n| `x` | y | z |")[1] == ["`x`", "y | z"]
    assert table_of("| A | B |\n|---|---|\n| `x | y` |")[1] == ["`x", "y`"]
    assert table_of("| A | B |\n|---|---|\n| only |")[1] == ["only", ""]


def test_a_row_of_dashes_below_the_delimiter_is_a_row() -> None:
    assert table_of("| A | B |\n|---|---|\n| - | - |") == [["A", "B"], ["-", "-"]]


def test_pipes_in_prose_are_no_table() -> None:
    assert tables(parse("a | b\nc | d\n\n| alone |\n\n```\n| A |\n|---|\n```\n").lines) == []


def test_list_items_have_numbers_boxes_depth_and_continuations() -> None:
    items = list_items(
        parse("- [x] done\n  and more\n  - [ ] nested\n3. three\n\nprose\n* * *\n+ [] empty box\n").lines
    )
    assert [(item.indent, item.number, item.checked, item.text) for item in items] == [
        (0, None, True, "done and more"),
        (2, None, False, "nested"),
        (0, 3, None, "three"),
        (0, None, False, "empty box"),
    ]


@pytest.mark.parametrize(
    "line",
    ["Issue: #5", "**Issue:** #5", "**Issue**: #5", "* **Issue:** #5", "- Issue: #5", "| Issue | #5 |", "_Issue:_ #5",
     "  -  **Issue**:#5", "| **Issue** | `#5` |"],
)  # fmt: skip
def test_fields_are_read_however_they_are_decorated(line: str) -> None:
    field = read_field(line)
    assert field is not None
    assert (field.label, field.value) == ("issue", "#5")


def test_code_spans_follow_backtick_counts_and_escapes() -> None:
    assert code_texts("`a` ``b`c`` ` unclosed") == ["a", "b`c"]
    assert code_texts("\\`a `b`") == ["b"]
    assert mask_code("x `y` z") == "x     z"
    assert plain("**Bold** [link](http://x) `a*b` \\*star\\*  end") == "Bold link a*b *star* end"
    assert words("Don't *Stop* re-try v1.2!") == ["don't", "stop", "re-try", "v1.2"]


def test_shown_text_cannot_steer_a_terminal() -> None:
    assert shown("a\x1b[31mb\u202ec\nd\x07\x9b\ud800") == "a[31mbc d"


def test_headings_are_compared_by_their_words() -> None:
    assert title_key("2.1 **Files** Changed:") == title_key("4) files changed") == "files changed"
    assert slug("2.1 Files Changed") == "files-changed"


def test_the_kinds_of_lines() -> None:
    kinds = [line.kind for line in parse("# H\n\ntext\n```\ncode\n```\n<!-- c -->\nT\n===\n").lines]
    assert kinds == [
        LineKind.HEADING, LineKind.BLANK, LineKind.TEXT, LineKind.CODE, LineKind.CODE, LineKind.CODE,
        LineKind.COMMENT, LineKind.HEADING, LineKind.UNDERLINE,
    ]  # fmt: skip
