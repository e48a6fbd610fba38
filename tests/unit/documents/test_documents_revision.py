"""Revision by patch: named sections change, nothing else does, nothing is lost."""

from __future__ import annotations

import pytest
from document_samples import Style, lld
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.documents.markdown import parse
from agentos.documents.revision import (
    AmbiguousSection,
    RevisionError,
    SectionLost,
    UnknownSection,
    apply_patch,
    find_section,
    is_same_text,
    lost_sections,
)

TEXT = (
    "intro\n\n# T\n\n## 1. Alpha\n\none\n\n### 1.1 Beta\n\ntwo\n\n"
    "## 2. Gamma\n\nthree\n\n### Beta\n\nfour\n\nDelta\n-----\nfive"
)


@pytest.mark.parametrize(
    "name", ["2. Gamma", "2", "## 2. Gamma", "Gamma", "gamma", "Section 2", "**Gamma**", "T > Gamma"]
)
def test_sections_are_found_by_heading_number_slug_or_path(name: str) -> None:
    assert find_section(parse(TEXT), name).heading == "2. Gamma"


def test_the_new_text_replaces_the_section_and_nothing_else() -> None:
    revision = apply_patch(TEXT, {"Gamma": "3\nnew\n"})
    assert revision.text == TEXT.replace("three", "3\nnew")
    assert revision.changed == ("2. Gamma",)


def test_the_heading_may_be_repeated_at_any_level() -> None:
    assert apply_patch(TEXT, {"1.1": "## 1.1 Beta\n\nnew"}).text == TEXT.replace("two", "new")
    assert apply_patch(TEXT, {"Delta": "Delta\n=====\nnew"}).text == TEXT.replace("five", "new")


def test_subsections_stay_unless_the_new_text_brings_them() -> None:
    assert apply_patch(TEXT, {"1": "1"}).text == TEXT.replace("one", "1")
    whole = apply_patch(TEXT, {"1": "1\n\n### 1.1 Beta\n\n2\n\n### 1.2 New\n\n3"}).text
    assert [section.title for section in parse(whole).sections] == [
        "T",
        "Alpha",
        "Beta",
        "New",
        "Gamma",
        "Beta",
        "Delta",
    ]
    with pytest.raises(SectionLost, match="Beta"):
        apply_patch(TEXT, {"1": "1\n\n### 1.2 New\n\n3"})


def test_several_sections_change_at_once() -> None:
    revision = apply_patch(TEXT, {"Delta": "5", "1": "1", "1.1": "2"})
    assert revision.text == TEXT.replace("one", "1").replace("two", "2").replace("five", "5")
    assert revision.changed == ("1. Alpha", "1.1 Beta", "Delta")
    with pytest.raises(RevisionError, match="overlap"):
        apply_patch(TEXT, {"1": "1\n\n### 1.1 Beta\n\n2", "1.1": "2"})


def test_unknown_and_ambiguous_sections_are_refused_with_a_hint() -> None:
    with pytest.raises(UnknownSection, match=r"did you mean '2\. Gamma'"):
        apply_patch(TEXT, {"Gama": "x"})
    with pytest.raises(UnknownSection, match="no sections"):
        apply_patch("plain", {"A": "x"})
    with pytest.raises(AmbiguousSection, match="Gamma > Beta"):
        apply_patch(TEXT, {"beta": "x"})
    assert apply_patch(TEXT, {"Gamma > Beta": "4"}).text == TEXT.replace("four", "4")


@pytest.mark.parametrize(
    "new", ["", "  \n", "## 2. Gamma\n", "```\nopen", "<!-- open", "x\n\n# Top\n\ny", "x\n\n## Sibling\n"]
)
def test_text_that_would_swallow_or_empty_sections_is_refused(new: str) -> None:
    with pytest.raises(RevisionError):
        apply_patch(TEXT, {"Gamma": new})


def test_an_unchanged_draft_is_noticed() -> None:
    assert apply_patch(TEXT, {"Gamma": " three \n"}).changed == ()
    assert apply_patch(TEXT, {}).changed == ()
    assert is_same_text(TEXT, TEXT.replace("\n\n", "\r\n\r\n") + "\n")
    assert not is_same_text(TEXT, TEXT + "!")


def test_the_newline_style_is_kept() -> None:
    text = lld(Style(newline="\r\n"))
    revised = apply_patch(text, {"Risks & Mitigations": "One.\nTwo."}).text
    assert "One.\r\nTwo.\r\n" in revised
    assert "\n" not in revised.replace("\r\n", "")


@settings(deadline=None, max_examples=80)
@given(st.text(min_size=1, max_size=80), st.sampled_from(["3", "Alternatives Considered", "11"]))
def test_any_new_text_is_applied_or_refused_and_never_loses_a_section(new: str, name: str) -> None:
    text = lld()
    try:
        revision = apply_patch(text, {name: new})
    except RevisionError:
        return
    before, after = parse(text), parse(revision.text)
    assert lost_sections(before, after) == ()
    start = find_section(before, name)
    assert revision.text.startswith(text[: start.start])
    assert revision.text.endswith(text[start.tree_end :])


def lost(before: str, after: str) -> tuple[str, ...]:
    return lost_sections(parse(before), parse(after))


def test_what_counts_as_lost() -> None:
    assert lost("# T\n## 1. A\nx\n## 2. B\ny\n", "# T\n## 2. A\nx\n") == ("2. B",)
    assert lost("# T\n## A\nx\n", "# T\n## A\n") == ("A",)
    assert lost("# T\n## A\nx\n## A\ny\n", "# T\n## A\nx\n") == ("A",)
    assert lost("# Old title\n## A\nx\n", "# Quite another\n## A\nx\n") == ()
    assert lost("# T\n## Files Changed\nx\n", "# T\n## Files to Modify\nx\n") == ()
    assert lost("# T\n## Data model\nx\n", "# T\n## Data models\nx\n") == ()
    assert lost("# T\n### Open Questions\nx\n### {Reviewer} says\ny\n", "# T\n") == ()
