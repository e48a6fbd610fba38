"""The loop: timers, descriptors, posts from elsewhere, and no polling."""

from __future__ import annotations

import gc
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from pipe_ends import Pipe

from agentos.engine.loop import READ, WRITE, Loop, Timer


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    # A test that forgets to stop its loop fails instead of hanging.
    made.after(30, lambda: pytest.fail("the loop was never stopped"))
    yield made
    made.close()


def test_timers_run_in_the_order_of_their_times_then_of_their_making(loop: Loop) -> None:
    seen: list[str] = []
    loop.after(0.02, loop.stop)
    loop.after(0.01, lambda: seen.append("later"))
    loop.after(0, lambda: seen.append("first"))
    loop.after(0, lambda: seen.append("second"))
    loop.run()
    assert seen == ["first", "second", "later"]


def test_a_cancelled_timer_does_not_run(loop: Loop) -> None:
    seen: list[str] = []
    loop.after(0, lambda: seen.append("cancelled")).cancel()
    loop.after(0.001, loop.stop)
    loop.run()
    assert seen == []


def test_cancelled_timers_are_forgotten_long_before_their_time_and_no_others(loop: Loop) -> None:
    seen: list[int] = []
    for number in range(10_000):
        loop.after(1800, lambda: seen.append(-1)).cancel()
        if number % 1000 == 0:
            loop.after(number / 1e6, lambda number=number: seen.append(number))  # type: ignore[misc]
    assert sum(isinstance(each, Timer) for each in gc.get_objects()) < 1000
    loop.after(0.01, loop.stop)
    loop.run()
    assert seen == list(range(0, 10_000, 1000))


def test_a_timer_never_runs_early() -> None:
    loop = Loop()
    began = time.monotonic()
    loop.after(0.05, loop.stop)
    loop.run()
    loop.close()
    assert time.monotonic() - began >= 0.05


def test_a_timer_may_set_the_next_one(loop: Loop) -> None:
    seen: list[int] = []

    def tick() -> None:
        seen.append(len(seen))
        loop.after(0.001, tick) if len(seen) < 3 else loop.stop()

    loop.after(0, tick)
    loop.run()
    assert seen == [0, 1, 2]


def test_the_clock_is_the_one_that_was_passed_in() -> None:
    loop = Loop(clock=lambda: 1_000.0)
    seen: list[float] = []
    loop.after(0.0, lambda: seen.append(loop.now()))
    loop.after(0.0, loop.stop)
    loop.run()
    loop.close()
    assert seen == [1_000.0]


def test_a_readable_descriptor_calls_its_watcher_until_it_is_unwatched(loop: Loop, pipe: Pipe) -> None:
    read, write = pipe.read, pipe.write
    seen: list[bytes] = []

    def take(events: int) -> None:
        assert events & READ
        seen.append(os.read(read, 1))
        if seen[-1] == b"b":
            loop.unwatch(read)
            loop.unwatch(read)
            loop.after(0, loop.stop)

    loop.watch(read, READ, take)
    os.write(write, b"abc")
    loop.run()
    assert seen == [b"a", b"b"]


def test_unwatching_what_nobody_watches_or_what_is_closed_does_nothing(loop: Loop, pipe: Pipe) -> None:
    heard: list[int] = []
    loop.watch(pipe.read, READ, lambda events: (heard.append(events), loop.stop()))  # type: ignore[func-returns-value]
    loop.unwatch(pipe.write)
    loop.unwatch(-1)
    os.write(pipe.write, b"x")
    loop.run()
    assert heard == [READ]  # The others are still watched.


def test_a_second_watch_replaces_the_first(loop: Loop, pipe: Pipe) -> None:
    write = pipe.write
    loop.watch(write, WRITE, lambda _events: pytest.fail("replaced"))
    loop.watch(write, WRITE, lambda _events: loop.stop())
    loop.run()


def test_the_end_of_a_pipe_wakes_its_reader(loop: Loop, pipe: Pipe) -> None:
    read, write = pipe.read, pipe.write
    pipe.close(write)
    ends: list[bytes] = []
    loop.watch(read, READ, lambda _events: (ends.append(os.read(read, 1)), loop.stop()))  # type: ignore[func-returns-value]
    loop.run()
    assert ends == [b""]


def test_a_regular_file_can_be_watched(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> None:
    with (tmp_path_factory.mktemp("loop") / "file").open("wb") as file:
        heard: list[int] = []
        loop.watch(file.fileno(), WRITE, lambda events: (heard.append(events), loop.stop()))  # type: ignore[func-returns-value]
        loop.run()
        loop.unwatch(file.fileno())
        assert heard == [WRITE]


def test_a_watcher_that_an_earlier_one_removed_is_not_called(loop: Loop) -> None:
    pipes = [os.pipe(), os.pipe()]
    called: list[int] = []

    def remove_the_other(mine: int, other: int) -> None:
        called.append(mine)
        loop.unwatch(other)
        loop.after(0, loop.stop)

    reads = [read for read, _ in pipes]
    for mine, other in (reads, reversed(reads)):
        loop.watch(mine, READ, lambda _events, mine=mine, other=other: remove_the_other(mine, other))  # type: ignore[misc]
    for _, write in pipes:
        os.write(write, b"x")
    loop.run()
    assert len(called) == 1
    for read, write in pipes:
        loop.unwatch(read)
        os.close(read)
        os.close(write)


def test_a_descriptor_number_taken_again_in_the_same_round_is_not_mistaken(loop: Loop) -> None:
    first, second = os.pipe(), os.pipe()
    fresh: list[int] = []
    called: list[str] = []

    def swap(_events: int) -> None:
        """Close the second pipe and open another, which the kernel gives the same numbers."""
        called.append("swap")
        os.read(first[0], 1)
        loop.unwatch(second[0])
        os.close(second[0])
        os.close(second[1])
        fresh.extend(os.pipe())
        assert fresh[0] == second[0]
        loop.watch(fresh[0], READ, lambda _events: called.append("new, though nothing came"))
        loop.after(0, loop.stop)

    loop.watch(first[0], READ, swap)
    loop.watch(second[0], READ, lambda _events: called.append("old"))
    for _, write in (first, second):
        os.write(write, b"x")
    loop.run()
    assert called == ["swap"]
    loop.unwatch(first[0])
    loop.unwatch(fresh[0])
    for descriptor in (*first, *fresh):
        os.close(descriptor)


def test_a_post_from_another_thread_wakes_the_loop(loop: Loop) -> None:
    seen: list[int | None] = []

    def note() -> None:
        seen.append(threading.get_ident())
        loop.stop()

    thread = threading.Thread(target=lambda: loop.post(note))
    loop.post(thread.start)
    loop.run()
    thread.join()
    assert seen == [threading.get_ident()]


def test_posts_run_in_order_and_one_made_by_a_post_waits_its_turn(loop: Loop) -> None:
    seen: list[str] = []

    def first() -> None:
        seen.append("first")
        loop.post(lambda: seen.append("made by first"))
        loop.post(loop.stop)

    loop.post(first)
    loop.post(lambda: seen.append("second"))
    loop.run()
    assert seen == ["first", "second", "made by first"]


def test_more_posts_than_the_pipe_has_room_for_are_all_heard(loop: Loop) -> None:
    seen = [0]
    for _ in range(70_000):
        loop.post(lambda: seen.__setitem__(0, seen[0] + 1))
    loop.post(loop.stop)
    loop.run()
    assert seen == [70_000]


def test_a_post_from_a_signal_handler_wakes_the_loop(loop: Loop) -> None:
    heard: list[int] = []

    def post(number: int, _frame: object) -> None:
        heard.append(number)
        loop.post(loop.stop)

    before = signal.signal(signal.SIGUSR1, post)
    try:
        timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        timer.start()
        loop.run()
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == [signal.SIGUSR1]


def test_a_post_after_the_end_writes_into_nobodys_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    loop = Loop()
    loop.close()
    # Files opened now get the numbers of the loop's closed descriptors.
    folder = tmp_path_factory.mktemp("late")
    files = [(folder / str(number)).open("wb+") for number in range(8)]
    loop.post(lambda: None)
    for file in files:
        file.close()
    assert [path.stat().st_size for path in folder.iterdir()] == [0] * 8


def test_an_idle_loop_uses_no_processor_time() -> None:
    loop = Loop()
    loop.after(0.5, loop.stop)
    before = resource.getrusage(resource.RUSAGE_THREAD)
    loop.run()
    after = resource.getrusage(resource.RUSAGE_THREAD)
    loop.close()
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.25  # Half of it, were it to spin.
    assert after.ru_nvcsw - before.ru_nvcsw < 10


def test_an_error_in_a_callback_rises_to_the_caller(loop: Loop) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    loop.post(fail)
    with pytest.raises(ZeroDivisionError):
        loop.run()
