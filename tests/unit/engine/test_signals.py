"""Stop signals around steps that must be undone together."""

from __future__ import annotations

import os
import signal

import pytest

from agentos.engine.signals import signals_handled, stops_deferred


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_inside_the_block_arrives_right_after_it(number: signal.Signals) -> None:
    heard: list[str] = []
    with signals_handled(lambda _number: heard.append("stop")):
        with stops_deferred():
            os.kill(os.getpid(), number)
            heard.append("made")
        heard.append("after")
    assert heard == ["made", "stop", "after"]
