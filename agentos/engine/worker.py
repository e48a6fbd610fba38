"""The worker: one process, one item. Runs the graph, reports each step, stops when told or when nobody listens."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NoReturn

from agentos import outputs
from agentos.engine.checkpoints import store_at
from agentos.engine.checkpoints.opening import open_item
from agentos.engine.checkpoints.protocol import CheckpointUnwritable, ItemCheckpoint, ItemRef
from agentos.engine.documents import ItemDocuments
from agentos.engine.limits import MEMORY_LIMIT_VARIABLE, memory_limit
from agentos.engine.messages import (
    CustomData,
    DocumentNamed,
    DocumentWriter,
    DownMessage,
    Heartbeat,
    ItemDone,
    ItemFailed,
    ItemOpened,
    ItemStopped,
    NodeReady,
    Proceed,
    StartItem,
    StopItem,
    UpMessage,
    decode_down,
    encode,
)
from agentos.engine.plain_json import KIND, json_text, to_plain
from agentos.engine.plan import ITEM_VARIABLE
from agentos.engine.removed_variables import hint
from agentos.engine.worker_extension import WorkerExtension
from agentos.environment import environment, set_variables
from agentos.errors import AgentosError, CallCancelledError, CannotContinueError, ExitCode, UndecidedError
from agentos.keys.lease_client import LeaseClient
from agentos.keys.leases import LeaseGranted, LeaseRefused
from agentos.keys.redaction import MarkRedactor, Masking
from agentos.outcomes import AWAITING_REVIEW, COMPLETED, Cause
from agentos.processes import host
from agentos.processes.zombies import ZombieCollector
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
_MAX_TRACEBACK_CHARACTERS = 20_000


class Channel:
    """The worker's end of its socket. A thread listens, so that a busy node can still be told to stop."""

    def __init__(
        self, connection: socket.socket, start: StartItem, early: list[bytes], on_stop: Callable[[], None]
    ) -> None:
        self._socket = connection
        self._start = start
        self._on_stop = on_stop
        self._lines = LineBuffer()
        self._send_lock = threading.Lock()
        self._may_proceed = threading.Semaphore(0)
        self._one_question = threading.Lock()
        self._document_writers: SimpleQueue[DocumentWriter] = SimpleQueue()
        self.is_stopping = False
        self.broker = LeaseClient(self.send)
        self._main_thread = threading.main_thread().ident
        self._pid = os.getpid()
        for line in early:
            self._take(decode_down(line))
        threading.Thread(target=self._listen, name="agentos-channel", daemon=True).start()

    @property
    def is_forked(self) -> bool:
        """Whether this is no worker but a child that a node has forked: it must not speak for the item."""
        return os.getpid() != self._pid

    def send(self, message: UpMessage) -> None:
        if self.is_forked:
            _end_forked_child(None)
        data = encode(message)
        with self._send_lock:
            self._socket.sendall(data)

    def ask_to_start(self, node: str, finished: list[tuple[str, float]]) -> None:
        """Announce a node and wait until it may run. Output written so far is on its way before the announcement."""
        host.flush_output()
        self.send(NodeReady(node=node, finished=finished))
        self._may_proceed.acquire()
        if self.is_stopping:
            raise KeyboardInterrupt

    def writer_of(self, path: str) -> str:
        """The item of this run that writes a document: this one, unless another was first."""
        if self.is_forked:
            return self._start.item_id  # It cannot ask; its worker does when the item ends.
        with self._one_question:
            self.send(DocumentNamed(path=path))
            # An answer to somebody who was interrupted while waiting may come first.
            while (answer := self._document_writers.get()).path != path:
                pass
            return answer.item_id

    def _listen(self) -> None:
        beat = self._start.heartbeat_seconds
        zombies = ZombieCollector()
        self._socket.settimeout(None)
        while True:
            try:
                data = self._receive(beat)
            except OSError:
                data = b""
            if data is None:
                with suppress(OSError):
                    self.send(Heartbeat())
                zombies.collect()
                continue
            if not data:
                _end_group()
            for line in self._lines.feed(data):
                self._take(decode_down(line))

    def _receive(self, seconds: float) -> bytes | None:
        """None when there was nothing for that long. A timeout on the socket would apply to sends as well."""
        import select  # noqa: PLC0415  Here to keep `select.poll` out of platforms without it.

        ready, _, _ = select.select([self._socket], [], [], seconds)
        return self._socket.recv(1 << 16) if ready else None

    def _take(self, received: DownMessage) -> None:
        match received:
            case Proceed():
                self._may_proceed.release()
            case StopItem():
                self._stop()
            case LeaseGranted() | LeaseRefused():
                self.broker.deliver(received)
            case DocumentWriter():
                self._document_writers.put(received)
            case StartItem():
                raise ValueError("an item was started already")

    def _stop(self) -> None:
        """Interrupt the main thread as Ctrl+C would: `finally` blocks run, children are ended, sleeps end."""
        self.is_stopping = True
        self._may_proceed.release()
        if self._main_thread is not None:
            signal.pthread_kill(self._main_thread, signal.SIGINT)
        # Calls in other threads know nothing of the signal.
        self.broker.stop()
        self._on_stop()
        threading.Thread(target=self._end_after_grace, daemon=True).start()

    def _end_after_grace(self) -> None:
        time.sleep(self._start.stop_grace_seconds)
        _end_group()


def _end_group() -> None:
    """This process and everything in its group, now."""
    os.killpg(0, signal.SIGKILL)


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


def _end_forked_child(error: BaseException | None) -> NoReturn:
    """A child that came out of its node, as `sys.exit` does, ends as a program of its own would."""
    exit_status = 0
    if isinstance(error, SystemExit):
        exit_status = error.code & 0xFF if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        sys.stderr.write(_safe_traceback(error))
        exit_status = 1
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
        store, ref = store_at(start.checkpoint_address), ItemRef(start.workflow, start.item_id)
        opened = open_item(store, ref, start.input, fresh=start.fresh)
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
            _end_forked_child(error)
        finished = execution.collect_finished() if execution else []
        _fold(checkpoint)
        # GeneratorExit, SystemExit and the like are a node's doing too: the item fails, by name.
        if channel.is_stopping and any(isinstance(e, KeyboardInterrupt | CallCancelledError) for e in _chain(error)):
            return ItemStopped()
        return _failed(error, finished, redactor)
    finally:
        outputs.set_keeper(None)


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
        on_token=_print_token if options.get("tokens") else None,
    )


def _print_token(text: str) -> None:
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
    fault = next((e for e in _chain(error) if isinstance(e, CheckpointUnwritable)), None)
    shown = fault or error
    return ItemFailed(
        error_type=type(shown).__name__,
        message=redactor.redact_text(_safe_text(shown))[:_MAX_MESSAGE_CHARACTERS]
        + hint(_safe_text(error), environment()),
        traceback=_shortened(redactor.redact_text(_safe_traceback(error))),
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


def _chain(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    # By identity: how an error compares is a user's code.
    while error is not None and not any(error is known for known in chain):
        chain.append(error)
        if isinstance(error, BaseExceptionGroup):
            chain += error.exceptions
        error = error.__context__ if error.__cause__ is None else error.__cause__
    return chain


def _safe_text(error: BaseException) -> str:
    """An exception's text, even when its own __str__ fails. `KeyError('x')` says only 'x': those get their name."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException:
        return f"{name} (its text cannot be shown)"
    is_telling = any(character.isalpha() for character in text) and not isinstance(error, LookupError | SystemExit)
    return text if is_telling else f"{name}: {text}".removesuffix(": ")


def _shortened(text: str) -> str:
    """Both ends of a long traceback: a huge message must not push out the lines that say where it came from."""
    if len(text) <= _MAX_TRACEBACK_CHARACTERS:
        return text
    half = _MAX_TRACEBACK_CHARACTERS // 2
    return f"{text[:half]}\n[...]\n{text[-half:]}"


def _safe_traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:
        return "".join(traceback.format_tb(error.__traceback__))
