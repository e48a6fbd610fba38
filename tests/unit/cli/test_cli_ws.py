"""Tables of workstreams, and what the prompt completes: pure."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentos.cli import ws_tables
from agentos.cli.repl import completions
from agentos.clock import stamp
from agentos.errors import ExitCode
from agentos.git.unsaved_work import UnsavedWork
from agentos.outcomes import NEEDS_REVISION
from agentos.text.table import table_lines
from agentos.workstreams.commands import Overview, Proposal
from agentos.workstreams.reservations import Reservation
from agentos.workstreams.run import WorkstreamResult
from agentos.workstreams.state import Active, Completed, Failed, Owner, Paused, Running, State, Workstream
from agentos.workstreams.wording import size_words

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OWNER = Owner(1, "1")


def overview(slug: str = "a", state: State | None = None, **values: object) -> Overview:
    workstream = Workstream(
        slug=slug,
        text="do \x1b[31mit\x1b[0m\nnow",
        branch=f"agentos/{slug}",
        path=Path("/somewhere") / slug,
        base="main",
        state=state or Active(),
        created_at=NOW,
        changed_at=NOW,
    )
    return Overview(workstream, **values)  # type: ignore[arg-type]


def test_the_list_is_aligned_cut_at_the_edge_and_free_of_control_characters() -> None:
    overviews = [overview("a", ahead=1, behind=2, size_bytes=1234567), overview("longer", Completed())]
    lines = ws_tables.list_lines(overviews, 1000)
    assert lines[1].split()[:7] == ["a", "active", "agentos/a", "1", "2", "1.2", "MB"]
    assert "do it now" in lines[1]
    assert "\x1b" not in "".join(lines)
    assert lines[0].index("STATE") == lines[2].index("completed")
    assert all(len(line) <= 30 for line in ws_tables.list_lines(overviews, 30))


def test_a_narrow_window_loses_what_matters_least_first() -> None:
    shown = [overview("a-long-name-of-a-workstream", Paused("n2"), ahead=1, behind=2, size_bytes=10)]

    def headings(columns: int) -> list[str]:
        lines = ws_tables.list_lines(shown, columns)
        assert len(lines[0]) <= columns
        assert lines[1].startswith("a-long-name-of-a-workstream")
        return lines[0].split()

    assert headings(150)[2] == "BRANCH"
    assert "BRANCH" not in headings(90)
    assert headings(60)[:3] == ["SLUG", "STATE", "AHEAD"]
    assert headings(36) == ["SLUG", "STATE"]
    assert ws_tables.list_lines(shown, 22)[1] == "a-long-name-of-a-workstream"


@pytest.mark.parametrize("columns", range(1, 200, 7))
def test_no_line_is_wider_than_the_window_but_a_slug_to_copy(columns: int) -> None:
    overviews = [overview("a", Running("r", OWNER), ahead=1, size_bytes=10**7), overview("b" * 60, Failed("why"))]
    rows = ws_tables.dashboard_rows(overviews, {"a": "n" * 50})
    lines = table_lines(rows, columns, expendable=ws_tables.DASHBOARD_EXPENDABLE)
    shown = [*lines, *ws_tables.list_lines(overviews, columns)]
    assert all(len(line) <= columns or line in ("SLUG", "a", "b" * 60) for line in shown)


@pytest.mark.parametrize(
    ("state", "word", "in_full", "details"),
    [
        (Active(), "active", "state: active", {}),
        (
            Running("r1", OWNER, pause_requested=True),
            "pausing",
            "running in run r1, pauses at the next node",
            {"run_id": "r1", "pause_requested": True},
        ),
        (Paused("n2"), "paused", "paused before n2", {"node": "n2"}),
        (Paused(), "paused", "state: paused", {"node": None}),
        (Failed("it\nbroke"), "failed", "failed: it broke", {"reason": "it\nbroke"}),
    ],
)
def test_every_state_has_its_words(state: State, word: str, in_full: str, details: dict[str, object]) -> None:
    shown = overview(state=state)
    assert ws_tables.list_lines([shown], 1000)[1].split()[1] == word
    assert any(in_full in line for line in ws_tables.status_lines(shown, [], []))
    document = ws_tables.as_json(shown)
    assert details.items() <= document.items()
    assert document["state"] in ("active", "running", "paused", "failed")


def test_status_tells_open_work_leases_and_history() -> None:
    unsaved = UnsavedWork(("notes.txt",), 2, None, "main")
    lease = Reservation("/p", "a", "WEB_PORT", "port", "20001")
    history = [
        {"time": stamp(NOW), "event": "created", "from": None, "to": "active", "detail": "do it"},
        {"time": "damaged", "event": "start", "from": "active", "to": "running", "detail": ""},
    ]
    lines = ws_tables.status_lines(overview(unsaved=unsaved, ahead=2, behind=0), history, [lease])
    text = "\n".join(lines)
    assert "open work: 1 file not committed (notes.txt) and 2 commits not merged into main" in text
    assert "holds: WEB_PORT=20001" in text
    assert "created: nothing -> active (do it)" in text
    assert "at an unknown time started: active -> running" in text


def test_the_dashboard_shows_where_running_and_paused_ones_are() -> None:
    unsaved = UnsavedWork(("x", "y"), 0, None, "main")
    rows = ws_tables.dashboard_rows(
        [overview("a", Running("r", OWNER), unsaved=unsaved), overview("b", Paused("n3")), overview("c")], {"a": "n2"}
    )
    assert [row[:3] for row in rows[1:]] == [("a", "running", "n2"), ("b", "paused", "n3"), ("c", "active", "")]
    assert [row[5] for row in rows] == ["CHANGES", "2", "", ""]


def test_results_name_status_time_and_reason() -> None:
    result = WorkstreamResult(
        slug="a",
        outcome=NEEDS_REVISION,
        exit_code=ExitCode.NEEDS_ATTENTION,
        started=NOW,
        ended=NOW,
        error="why",
        branch="b",
        head="c" * 40,
    )
    heading, row = ws_tables.result_lines([result], 1000)
    assert heading.split() == ["SLUG", "STATUS", "TIME", "BRANCH", "HEAD", "REASON"]
    assert row.split() == ["a", "needs", "revision", "0.0s", "b", "c" * 12, "why"]


def test_proposals_say_what_is_removed_and_what_is_kept() -> None:
    proposals = [Proposal("a", True, "merged"), Proposal("b", False, "no work in it yet")]
    assert ws_tables.proposal_lines(proposals, removed=None) == [
        "would remove a: merged",
        "keep b: no work in it yet",
    ]
    assert ws_tables.proposal_lines(proposals, removed={"a"})[0] == "removed a: merged"
    assert ws_tables.proposal_lines([], removed=set()) == ["No workstreams."]


@pytest.mark.parametrize(
    ("size", "words"),
    [(None, ""), (0, "0 B"), (999, "999 B"), (1500, "1.5 KB"), (123_456, "123 KB"), (2e15, "2000 TB")],
)
def test_sizes_in_words(size: int | None, words: str) -> None:
    assert size_words(size) == words


NAMES = {
    "slugs": ["feature-a", "feature-b", "issue-1"],
    "issues": ["7", "71"],
    "items": ["LLD-7"],
    "runs": ["last"],
    "keys": ["alpha"],
}


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        ([], "/w", ["/ws"]),
        ([], "qu", ["/quit"]),
        ([], "/rep", []),
        (["/ws"], "run", ["run", "run-all"]),
        (["ws", "run"], "", ["feature-a", "feature-b", "issue-1"]),
        (["/ws", "pause", "feature-a"], "feature", ["feature-b"]),
        (["/ws", "run"], "--max", ["--max-concurrent", "--max-rounds", "--max-wait"]),
        (["/ws", "list"], "", []),
        (["/ws", "lease"], "iss", ["issue-1"]),
        (["/ws", "release", "issue-1"], "--", ["--help", "--json", "--project"]),
        (["/runs"], "sh", ["show"]),
        (["/frobnicate"], "x", []),
        (["/lld"], "7", ["7", "71"]),
        (["/lld", "7"], "7", ["71"]),
        (["/show"], "", ["LLD-7"]),
        (["/runs", "follow"], "l", ["last"]),
        (["/keys", "rm"], "", ["alpha"]),
        (["/keys", "add"], "", []),
    ],
)
def test_the_prompt_completes_commands_verbs_options_and_names(
    before: list[str], text: str, expected: list[str]
) -> None:
    assert completions(before, text, lambda kind: NAMES[kind]) == expected
