"""The emitter: stamps once, hands on, drops reporters that fail, fails the run with a vital one."""

from __future__ import annotations

import errno
from datetime import UTC, datetime

import pytest

from agentos.engine.emitter import Emitter
from agentos.events import NodeStarted, RunFaulted, Stamped, Warned

NOON = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=UTC)


class Recorder:
    """Keeps what it hears; fails at a given sequence number."""

    name = "the recorder"

    def __init__(self, fails_at: int = 0, error: Exception | None = None, closing: Exception | None = None) -> None:
        self.heard: list[Stamped] = []
        self.is_closed = False
        self._fails_at = fails_at
        self._error = error
        self._closing = closing

    def handle(self, stamped: Stamped) -> None:
        if self._error is not None and stamped.sequence >= self._fails_at:
            raise self._error
        self.heard.append(stamped)

    def settle(self) -> None:
        if self._closing is not None:
            raise self._closing

    def close(self) -> None:
        self.is_closed = True
        if self._closing is not None:
            raise self._closing

    @property
    def sequences(self) -> list[int]:
        return [stamped.sequence for stamped in self.heard]


def emitter(*reporters: Recorder, vital: tuple[Recorder, ...] = ()) -> tuple[Emitter, list[str]]:
    faults: list[str] = []
    return Emitter("run-1", reporters, vital=vital, on_vital_failure=faults.append, clock=lambda: NOON), faults


def test_an_event_is_stamped_once_with_number_time_and_run() -> None:
    one, other, audit = Recorder(), Recorder(), Recorder()
    made, _ = emitter(one, other, vital=(audit,))
    event = NodeStarted(item_id="a", node="n")
    made.emit(event)
    made.emit(event)
    assert one.heard == [
        Stamped(1, "2026-05-04T12:00:00.123Z", "run-1", event),
        Stamped(2, "2026-05-04T12:00:00.123Z", "run-1", event),
    ]
    assert one.heard[0] is other.heard[0] is audit.heard[0]


def test_the_audit_hears_an_event_before_anybody_shows_it() -> None:
    order: list[str] = []

    class Named(Recorder):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def handle(self, stamped: Stamped) -> None:
            order.append(self.name)

    made, _ = emitter(Named("console"), vital=(Named("audit"),))
    made.emit(Warned(text="x"))
    assert order == ["audit", "console"]


def test_a_reporter_that_fails_is_dropped_with_a_warning_and_the_others_go_on() -> None:
    bad, good, audit = Recorder(2, ValueError("broken")), Recorder(), Recorder()
    made, faults = emitter(bad, good, vital=(audit,))
    for text in ("one", "two", "three"):
        made.emit(Warned(text=text))
    texts = ["one", "two", "the recorder stopped: broken", "three"]
    for listener in (good, audit):
        assert [s.event.text for s in listener.heard if isinstance(s.event, Warned)] == texts
        assert listener.sequences == [1, 2, 3, 4]
    assert bad.sequences == [1]
    assert faults == []


def test_reporters_that_fail_together_are_each_named() -> None:
    good = Recorder()
    made, _ = emitter(Recorder(1, ValueError("one")), Recorder(1, KeyError("two")), good)
    made.emit(Warned(text="x"))
    made.emit(Warned(text="y"))
    assert [s.event for s in good.heard] == [
        Warned(text="x"),
        Warned(text="the recorder stopped: one"),
        Warned(text="the recorder stopped: 'two'"),
        Warned(text="y"),
    ]


def test_an_audit_that_cannot_be_written_faults_the_run_once_and_the_console_still_hears() -> None:
    audit, console = Recorder(2, OSError(errno.ENOSPC, "No space left on device")), Recorder()
    made, faults = emitter(console, vital=(audit,))
    for text in ("one", "two", "three"):
        made.emit(Warned(text=text))
    assert faults == ["cannot write the recorder: No space left on device"]
    assert console.sequences == [1, 2, 3]


def test_what_follows_from_a_failure_is_heard_after_the_event_it_happened_at() -> None:
    console = Recorder()
    audit = Recorder(1, OSError("gone"))
    made = Emitter(
        "r",
        [console],
        vital=[audit],
        on_vital_failure=lambda reason: made.emit(RunFaulted(reason=reason)),
        clock=lambda: NOON,
    )
    made.emit(Warned(text="x"))
    assert [s.event for s in console.heard] == [
        Warned(text="x"),
        RunFaulted(reason="cannot write the recorder: gone"),
    ]
    assert console.sequences == [1, 2]


def test_a_bug_in_the_audit_keeps_its_traceback() -> None:
    made, _ = emitter(vital=(Recorder(1, TypeError("bug")),))
    with pytest.raises(TypeError, match="bug"):
        made.emit(Warned(text="x"))


def test_closing_closes_everybody_even_when_one_cannot() -> None:
    reporters = [Recorder(closing=OSError("disk full")), Recorder()]
    audit = Recorder(closing=OSError("disk full"))
    made, _ = emitter(*reporters, vital=(audit,))
    made.close()
    assert all(each.is_closed for each in (*reporters, audit))


def test_without_a_clock_the_time_is_now_in_utc() -> None:
    recorder = Recorder()
    Emitter("r", [recorder], vital=[], on_vital_failure=pytest.fail).emit(Warned(text="x"))
    stamped = datetime.fromisoformat(recorder.heard[0].time)
    assert abs((datetime.now(UTC) - stamped).total_seconds()) < 60


def test_what_a_vital_reporter_cannot_put_in_its_place_before_the_end_is_a_fault() -> None:
    made, faults = emitter(vital=(Recorder(closing=OSError(errno.ENOSPC, "No space left on device")), Recorder()))
    made.settle()
    assert faults == ["cannot write the recorder: No space left on device"]
