"""Results on disk: complete after any kill, in order when asked, and nobody else's file is touched."""

from __future__ import annotations

import errno
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.events import ItemEnded, ResultProduced, Stamped
from agentos.outcomes import AWAITING_REVIEW, COMPLETED, FAILED, INTERRUPTED, Outcome
from agentos.records.results import read_results
from agentos.reporters.results import ResultsReporter


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTOS_HOME", str(tmp_path / "home"))
    return tmp_path


def run_dir(home: Path, name: str) -> Path:
    path = home / "home/logs/parallel" / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def reporter(home: Path, name: str, order: str = "abc", *, ordered: bool = False) -> ResultsReporter:
    return ResultsReporter(run_dir(home, name), home / "out.jsonl", order, is_ordered=ordered)


def end(to: ResultsReporter, item: str, outcome: Outcome = COMPLETED, state: str = "1", reason: str = "") -> None:
    if outcome in (COMPLETED, AWAITING_REVIEW):
        produced = ResultProduced(item_id=item, outcome=outcome, seconds=1.0, attempts=1, state=state)
        to.handle(Stamped(1, "now", "run", produced))
    ended = ItemEnded(item_id=item, outcome=outcome, seconds=1.0, reason=reason, error_type="E" if reason else "")
    to.handle(Stamped(1, "now", "run", ended))


def lines(home: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (home / "out.jsonl").read_text().splitlines()]


def ids(home: Path) -> list[object]:
    return [line["id"] for line in lines(home)]


def test_a_line_says_how_the_item_ended(home: Path) -> None:
    results = reporter(home, "r1")
    results.begin(["a", "b", "c"], {})
    end(results, "a", state='{"said": "ü"}')
    end(results, "b", FAILED, state="null", reason="sour")
    end(results, "c", AWAITING_REVIEW)
    results.settle()
    results.close()

    first, second, third = lines(home)
    assert first["state"] == {"said": "ü"}
    assert list(first) == ["id", "outcome", "state", "error", "usage", "seconds", "attempts"]
    assert (second["outcome"], second["error"]) == ("failed", {"type": "E", "message": "sour"})
    assert (third["outcome"], third["error"]) == ("awaiting_review", None)
    assert [line["id"] for line in read_results(run_dir(home, "r1"))] == ["a", "b", "c"]


def test_after_a_kill_a_resumed_run_completes_the_file(home: Path) -> None:
    killed = reporter(home, "r1")
    killed.begin(["a", "b", "c"], {})
    end(killed, "b")
    end(killed, "a", FAILED)
    with (home / "out.jsonl").open("a") as file:
        file.write('{"id": "c", "outc')

    resumed = reporter(home, "r2", ordered=True)
    resumed.begin(["a", "b", "c"], {"b": "r1"})
    assert ids(home) == ["b"]
    end(resumed, "c", INTERRUPTED)
    end(resumed, "a", state="2")
    end(resumed, "c", state="3")
    resumed.settle()
    resumed.close()

    assert [(line["id"], line["state"]) for line in lines(home)] == [("a", 2), ("b", 1), ("c", 3)]
    assert len(list(read_results(run_dir(home, "r2")))) == 3


def test_a_line_that_never_reached_the_file_is_found_in_the_run_that_made_it(home: Path) -> None:
    first = reporter(home, "r1")
    first.begin(["a"], {})
    end(first, "a")
    (home / "out.jsonl").unlink()

    reporter(home, "r2").begin(["a", "b"], {"a": "r1"})

    assert ids(home) == ["a"]


def test_a_result_is_kept_before_its_end_is_told(home: Path) -> None:
    killed = reporter(home, "r1")
    killed.begin(["a"], {})
    produced = ResultProduced(item_id="a", outcome=COMPLETED, seconds=1.0, attempts=1, state="7")
    killed.handle(Stamped(1, "now", "run", produced))

    reporter(home, "r2").begin(["a"], {"a": "r1"})

    assert [line["state"] for line in lines(home)] == [7]


def test_lines_wait_for_those_before_them_and_none_is_lost(home: Path) -> None:
    written: list[bytes] = []

    class Out:
        def write(self, data: bytes, /) -> None:
            written.append(data)

    def seen() -> Sequence[str]:
        return [json.loads(line)["id"] for line in written]

    results = ResultsReporter(run_dir(home, "r1"), Out(), "abcd", is_ordered=True)
    results.begin(["a", "b", "c", "d"], {})
    end(results, "b")
    assert seen() == []
    end(results, "a")
    assert seen() == ["a", "b"]
    end(results, "d")
    results.settle()
    results.close()
    assert seen() == ["a", "b", "d"]


def test_items_of_other_runs_keep_their_lines_and_other_files_are_refused(home: Path) -> None:
    first = reporter(home, "r1")
    first.begin(["a", "c"], {})
    end(first, "c")
    end(first, "a")
    first.settle()
    first.close()
    second = reporter(home, "r2", ordered=True)
    second.begin(["b"], {})
    end(second, "b")
    second.settle()
    second.close()
    assert ids(home) == ["a", "b", "c"]

    (home / "out.jsonl").write_text('{"my": "data"}\n')
    with pytest.raises(UsageError, match="has something other"):
        reporter(home, "r3").begin(["a"], {})
    assert (home / "out.jsonl").read_text() == '{"my": "data"}\n'


def test_a_file_that_is_replaced_meanwhile_has_all_lines_again(home: Path) -> None:
    results = reporter(home, "r1", ordered=True)
    results.begin(["a", "b", "c"], {})
    end(results, "a")
    (home / "out.jsonl").rename(home / "taken.jsonl")
    end(results, "b")
    (home / "out.jsonl").write_text('{"id": "z", "outcome": "completed"}\n')
    results.settle()
    results.close()

    assert ids(home) == ["z", "a", "b"]


def test_a_file_that_became_something_else_is_left_alone_and_told(home: Path) -> None:
    results = reporter(home, "r1")
    results.begin(["a", "b"], {})
    end(results, "a")
    (home / "out.jsonl").unlink()
    (home / "out.jsonl").write_text("notes of mine")

    with pytest.raises(OSError, match="something else in it"):
        end(results, "b")
    assert (home / "out.jsonl").read_text() == "notes of mine"


@pytest.mark.parametrize("document", ["notes of mine", '{"name": "my app"}', '{"id": "app", "version": 1}'])
def test_a_document_without_a_last_newline_is_not_taken_for_results(home: Path, document: str) -> None:
    (home / "out.jsonl").write_text(document)

    with pytest.raises(UsageError, match="something other than results"):
        reporter(home, "r1").begin(["a"], {})
    assert (home / "out.jsonl").read_text() == document


def test_a_document_that_is_too_deep_to_read_is_not_taken_for_results(home: Path) -> None:
    (home / "out.jsonl").write_text("[" * 100_000 + "\n")

    with pytest.raises(UsageError, match="something other than results"):
        reporter(home, "r1").begin(["a"], {})


@pytest.mark.parametrize("torn", ['{"i', '{"id": "b", "outcome": "comp', "\0\0\0\0"])
def test_a_line_that_was_cut_is_taken_for_one(home: Path, torn: str) -> None:
    (home / "out.jsonl").write_text('{"id": "z", "outcome": "completed"}\n' + torn)

    reporter(home, "r1").begin(["a"], {})

    assert ids(home) == ["z"]


def test_lines_of_runs_that_are_gone_are_kept_whole_in_the_new_ones_folder(home: Path) -> None:
    first = reporter(home, "r1")
    first.begin(["a", "b", "c"], {})
    end(first, "a", FAILED, reason="sour")
    end(first, "b", state='"long enough to be elsewhere"')
    first.settle()
    first.close()

    second = reporter(home, "r3")
    second.begin(["a", "b", "c"], {"b": "pruned"})

    assert [(line["id"], line["state"]) for line in read_results(run_dir(home, "r3"))] == [
        ("b", "long enough to be elsewhere")
    ]


def test_a_disk_that_is_full_when_lines_are_put_in_order_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = reporter(home, "r1", ordered=True)
    results.begin(["a", "b"], {})
    end(results, "b")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("agentos.reporters.results.write_whole", full)
    with pytest.raises(OSError, match="No space left"):
        results.settle()
    results.close()
