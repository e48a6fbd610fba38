"""Nodes that do not want to stop, or leave things behind. `calm` in the sandbox makes every one of them behave."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import Any, TypedDict

from journal import note, sandbox_file
from langgraph.graph import END, START, StateGraph

_HOURS = 36_000


class State(TypedDict, total=False):
    does: str
    is_prepared: bool


def _sleep_for_hours() -> None:
    time.sleep(_HOURS)


def _hold_the_interpreter() -> None:
    re.fullmatch("(a+)+", "a" * 64 + "b")


def _read_from_nobody() -> None:
    path = sandbox_file(f"fifo-{os.getpid()}")
    os.mkfifo(path)
    with path.open() as never_opened:
        never_opened.read()


def _ignore_signals() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(_HOURS)


def _block_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    time.sleep(_HOURS)


def _swallow_interrupts() -> None:
    while True:
        try:
            time.sleep(_HOURS)
        except BaseException:
            note("swallowed")


def _start_child(**how: Any) -> None:
    """A child that holds our stdout and ignores what it can."""
    code = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(36000)"
    child = subprocess.Popen([sys.executable, "-S", "-c", code], **how)
    note(f"child {child.pid}")


def _leave_child() -> None:
    _start_child()
    time.sleep(_HOURS)


def _leave_daemon() -> None:
    """A grandchild in its own session, without our environment, whose parent is gone."""
    if os.fork() == 0:
        os.setsid()
        _start_child(env={})
        os._exit(0)
    os.wait()
    time.sleep(_HOURS)


def _work_in_threads() -> None:
    for _ in range(3):
        threading.Thread(target=_sleep_for_hours).start()
    time.sleep(_HOURS)


def _leak_child() -> None:
    """Ends well, but for a child that keeps stdout open."""
    _start_child()


def _leak_daemon() -> None:
    _start_child(start_new_session=True, env={})


def _pass_time() -> None:
    """Works until it may end, a little at a time."""
    while not sandbox_file("calm").exists():
        time.sleep(0.01)


def _tidy_up() -> None:
    """Leaves when asked, after a last deed that a killed one does not get to."""
    try:
        time.sleep(_HOURS)
    finally:
        note("tidied up")


DEEDS = {
    "sleeps": _sleep_for_hours,
    "holds-interpreter": _hold_the_interpreter,
    "reads-fifo": _read_from_nobody,
    "ignores-signals": _ignore_signals,
    "blocks-signals": _block_signals,
    "swallows-interrupts": _swallow_interrupts,
    "leaves-child": _leave_child,
    "leaves-daemon": _leave_daemon,
    "works-in-threads": _work_in_threads,
    "leaks-child": _leak_child,
    "leaks-daemon": _leak_daemon,
    "passes-time": _pass_time,
    "tidies-up": _tidy_up,
}


def prepare(_state: State) -> State:
    note(f"{os.environ['AGENTOS_ITEM_ID']} prepare")
    return {"is_prepared": True}


def act(state: State) -> State:
    item, deed = os.environ["AGENTOS_ITEM_ID"], state.get("does", "")
    note(f"{item} act {os.getpid()}")
    if deed and not sandbox_file("calm").exists():
        print(f"{item} {deed}", flush=True)
        DEEDS[deed]()
    note(f"{item} acted")
    return {}


graph = StateGraph(State)
graph.add_node("prepare", prepare)
graph.add_node("act", act)
graph.add_edge(START, "prepare")
graph.add_edge("prepare", "act")
graph.add_edge("act", END)
