"""The worker: one process, one item. Runs the graph, reports each step and how the item ended."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentos import outputs
from agentos.engine.channel import Channel, end_forked_child
from agentos.engine.checkpoints import store_at
from agentos.engine.checkpoints.opening import open_item
from agentos.engine.checkpoints.protocol import CheckpointStore, CheckpointUnwritable, ItemCheckpoint, ItemRef
from agentos.engine.documents import ItemDocuments
from agentos.engine.error_texts import chain, safe_text, safe_traceback, shortened
from agentos.engine.limits import MEMORY_LIMIT_VARIABLE, memory_limit
from agentos.engine.messages import (
    CustomData,
    ItemDone,
    ItemFailed,
    ItemOpened,
    ItemStopped,
    StartItem,
    UpMessage,
    decode_down,
)
from agentos.engine.plain_json import KIND, json_text, to_plain
from agentos.engine.plan import ITEM_VARIABLE
from agentos.engine.removed_variables import hint
from agentos.engine.worker_extension import WorkerExtension
from agentos.environment import environment, set_variables
from agentos.errors import AgentosError, CallCancelledError, CannotContinueError, ExitCode, UndecidedError
from agentos.keys.redaction import MarkRedactor, Masking
from agentos.outcomes import AWAITING_REVIEW, COMPLETED, Cause
from agentos.processes import host
from agentos.wire import LineBuffer

if TYPE_CHECKING:
    from agentos.engine.graph import Execution, RunOptions
    from agentos.engine.graph_loading import LoadedGraph

_NOT_INTERACTIVE = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "PIP_NO_INPUT": "1",
    "DEBIAN_FRONTEND": "noninteractive",
}
_MAX_MESSAGE_CHARACTERS = 2_000
_MOST_RESULT_CHARACTERS = 64 << 20


def run_worker(control: socket.socket, load: Callable[[], LoadedGraph], extend: type[WorkerExtension]) -> None:
    """Serve one item over `control` and exit. Never returns."""
    exit_status = 1
    try:
        start, early = _receive_start(control)
        _prepare_process(start)
        extension = extend(workflow=start.workflow, item_id=start.item_id)
        channel = Channel(control, start, early, extension.stop)
        channel.send(_serve(start, channel, load, extension))
        exit_status = 0
    except (ConnectionError, EOFError):
        pass  # The coordinator is gone; so are we.
    except KeyboardInterrupt:
        exit_status = 130
    _leave(exit_status)


def _leave(exit_status: int) -> None:
    """Not sys.exit: a node's leftover thread must not keep the process."""
    with suppress(BaseException):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        atexit._run_exitfuncs()
        host.flush_output()
    os._exit(exit_status)


def _receive_start(control: socket.socket) -> tuple[StartItem, list[bytes]]:
    buffer = LineBuffer()
    while True:
        data = control.recv(1 << 16)
        if not data:
            raise EOFError
        lines = buffer.feed(data)
        if lines:
            start = decode_down(lines[0])
            if not isinstance(start, StartItem):
                raise ValueError(f"expected StartItem, got {type(start).__name__}")
            return start, lines[1:]


def _prepare_process(start: StartItem) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream in ("stdout", "stderr"):
        descriptor = 1 if stream == "stdout" else 2
        # Lines leave when they are complete, and no text can make a print fail.
        text = open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, stream, text)
        setattr(sys, f"__{stream}__", text)
    own = {"AGENTOS_WORKFLOW_DB": start.checkpoint_address, ITEM_VARIABLE: start.item_id}
    set_variables({**_NOT_INTERACTIVE, **start.environment, **own})
    os.chdir(start.work_dir)
    limit = memory_limit(environment().get(MEMORY_LIMIT_VARIABLE, ""))
    if limit is not None:
        host.limit_memory(limit)


def _serve(
    start: StartItem, channel: Channel, load: Callable[[], LoadedGraph], extension: WorkerExtension
) -> UpMessage:
    """Run the item and say how it ended. Whatever a node raises ends here, as text."""
    execution: Execution | None = None
    checkpoint: ItemCheckpoint | None = None
    redactor = MarkRedactor(start.marks)
    try:
        graph = load()
        store, ref = _store(start), ItemRef(start.workflow, start.item_id)
        opened = open_item(store, ref, start.input, start.options, fresh=start.fresh)
        checkpoint = opened.checkpoint
        standing = checkpoint.standing
        channel.send(ItemOpened(resumed_after=standing.resumes_after, pid=os.getpid(), notice=opened.notice))
        checkpoint.redactor = redactor
        documents = ItemDocuments(start.item_id, checkpoint, channel.writer_of)
        outputs.set_keeper(documents.keep)
        notes = Notes(extension, checkpoint)
        extension.begin(channel.broker, redactor.redact_text, notes.kept)
        from agentos.engine.graph import Continuation, Execution  # noqa: PLC0415  Loaded by `load`.

        execution = Execution(graph, checkpoint, _run_options(start, channel, graph))
        running = execution

        def announce(node: str) -> None:
            notes.keep()
            channel.ask_to_start(node, running.collect_finished())
            extension.node_starts(node)

        person = Continuation.of(standing)
        if standing.questions is not None and person is None:
            parked = _still_parked(execution, start)
            _fold(checkpoint)
            return parked
        execution.run(opened.initial_state, announce, person)
        return _done(execution, checkpoint, start, lambda: documents.stage(start.checkpoint_address))
    except BaseException as error:
        if channel.is_forked:
            end_forked_child(error)
        finished = execution.collect_finished() if execution else []
        _fold(checkpoint)
        # GeneratorExit, SystemExit and the like are a node's doing too: the item fails, by name.
        if channel.is_stopping and any(isinstance(e, KeyboardInterrupt | CallCancelledError) for e in chain(error)):
            return ItemStopped()
        return _failed(error, finished, redactor)
    finally:
        outputs.set_keeper(None)


def _store(start: StartItem) -> CheckpointStore:
    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    return store_at(start.checkpoint_address, start.access, on_wait=say)


def _fold(checkpoint: ItemCheckpoint | None) -> None:
    """All state of an item that stays goes into one file. After a success it would tidy up what is to be removed."""
    if checkpoint is not None:
        with suppress(Exception):  # A full disk: its log stays, and is as good.
            checkpoint.close()


class Notes:
    """What the extension wants to know again after a resume."""

    def __init__(self, extension: WorkerExtension, checkpoint: ItemCheckpoint) -> None:
        self._extension = extension
        self._checkpoint = checkpoint
        self.kept = checkpoint.get("extension") or ""

    def keep(self) -> None:
        notes = self._extension.notes()
        if notes != self.kept:
            self._checkpoint.put("extension", notes)
            self.kept = notes


def _run_options(start: StartItem, channel: Channel, graph: LoadedGraph) -> RunOptions:
    """`config`, `context`: as LangGraph has them. `async`: await it anyway. `tokens`: print what models stream.
    `store`: where a store is for a graph that has none. `result`: hand out what the graph came to.
    """
    from agentos.engine.graph import RunOptions  # noqa: PLC0415  Loaded by now.
    from agentos.engine.shared_store import SharedStore  # noqa: PLC0415

    options = start.options
    return RunOptions(
        config=options.get("config") or {},
        context=options.get("context"),
        is_async=bool(options.get("async")),
        store=SharedStore(Path(options["store"]), graph.store_index) if options.get("store") else None,
        on_custom=lambda node, data: channel.send(CustomData(node=node, data=to_plain(data))),
        on_notice=lambda text: _print(f"{text}\n"),
        on_token=_print if options.get("tokens") else None,
    )


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _still_parked(execution: Execution, start: StartItem) -> ItemDone:
    """Nobody has answered yet."""
    if start.options.get("result"):
        execution.look()
    return ItemDone(
        outcome=AWAITING_REVIEW.name,
        reason="",
        finished=[],
        outputs=[],
        is_parked=True,
        **_result(execution, start),
    )


def _result(execution: Execution, start: StartItem) -> dict[str, Any]:
    """What the graph came to, for its last message."""
    if not start.options.get("result"):
        return {}
    asked = zip_longest(execution.interrupt_ids, execution.questions) if execution.is_parked else ()
    interrupts = [{"id": each, "value": value} for each, value in asked]
    models = execution.usage.document()
    state = json_text(execution.output)
    if len(state) > _MOST_RESULT_CHARACTERS:
        state = json_text({KIND: type(execution.output).__name__, "error": f"{len(state):,} characters: too long"})
    return {
        "state": state,
        "interrupts": json_text(interrupts) if interrupts else "",
        "models": json_text(models) if models else "",
    }


def _done(
    execution: Execution, checkpoint: ItemCheckpoint, start: StartItem, stage: Callable[[], list[str]]
) -> UpMessage:
    from agentos.engine.graph import state_value  # noqa: PLC0415  Loaded by now.

    finished = execution.collect_finished()
    if execution.is_parked:
        checkpoint.park(to_plain(execution.questions), execution.interrupt_ids)
        _fold(checkpoint)
        return ItemDone(
            outcome=AWAITING_REVIEW.name,
            reason="",
            finished=finished,
            outputs=[],
            is_parked=True,
            **_result(execution, start),
        )
    outcome = state_value(execution.final_state, "outcome")
    reason = state_value(execution.final_state, "reason") or ""
    return ItemDone(
        outcome=str(getattr(outcome, "value", outcome)) if outcome else COMPLETED.name,
        reason=checkpoint.redactor.redact_text(str(reason))[:_MAX_MESSAGE_CHARACTERS],
        finished=finished,
        outputs=stage(),
        **_result(execution, start),
    )


def _failed(error: BaseException, finished: list[tuple[str, float]], redactor: Masking) -> ItemFailed:
    """Keys are masked before texts are cut: half a key is no match."""
    fault = next((e for e in chain(error) if isinstance(e, CheckpointUnwritable)), None)
    shown = fault or error
    return ItemFailed(
        error_type=type(shown).__name__,
        message=redactor.redact_text(safe_text(shown))[:_MAX_MESSAGE_CHARACTERS]
        + hint(safe_text(error), environment()),
        traceback=shortened(redactor.redact_text(safe_traceback(error))),
        finished=finished,
        is_run_fault=fault is not None,
        cause=_cause(error).value,
    )


def _cause(error: BaseException) -> Cause:
    match error:
        case CannotContinueError():
            return Cause.CANNOT_CONTINUE
        case UndecidedError():
            return Cause.UNDECIDED
        case AgentosError(exit_code=ExitCode.NO_USABLE_KEY):
            return Cause.NO_USABLE_KEY
        case _:
            return Cause.OTHER
