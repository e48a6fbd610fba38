"""How items end, put on disk and on record. Files come first: a record says only what is true."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from agentos.engine.checkpoints.protocol import FenceRefused
from agentos.engine.done_notes import Done
from agentos.engine.item_end import FinalMessage, ItemEnd, decide_end, surprise
from agentos.engine.item_run import ItemRun
from agentos.engine.item_store import ItemStore
from agentos.engine.messages import ItemDone, ItemFailed
from agentos.engine.plan import Item
from agentos.engine.run_settings import RunSettings
from agentos.engine.schedule import Ending
from agentos.engine.tally import Tally
from agentos.errors import ExitCode
from agentos.events import (
    Event,
    ItemEnded,
    ItemRetried,
    Listener,
    ResultProduced,
    RunEnded,
    RunStarted,
    Warned,
)
from agentos.keys.redaction import Redactor
from agentos.outcomes import FAILED, INTERRUPTED, SKIPPED, Cause, Outcome, outcome_named


class Results:
    """The ends of one run's items, and what they make of the run."""

    def __init__(
        self,
        settings: RunSettings,
        items: Sequence[Item],
        store: ItemStore,
        emit: Listener,
        redactor: Redactor,
        *,
        fault: Callable[[str], None],
        retire: Callable[[str, str], bool],
    ) -> None:
        """`fault` is told when the run cannot go on as it is; `retire` is that of the backend."""
        self._settings = settings
        self._items = tuple(item.id for item in items)
        self._titles = tuple(redactor.redact_text(item.title) for item in items)
        self._store = store
        self._emit = emit
        self._redactor = redactor
        self._fault = fault
        self._retire = retire
        self._tally = Tally(self._items)

    def begin(self, held: Mapping[str, str], done: Mapping[str, Done], announcements: Sequence[Event]) -> None:
        """`held` are items that another run has (and which), `done` those that a stopped run has done already."""
        settings = self._settings
        self._emit(
            RunStarted(
                workflow=settings.workflow,
                project_dir=str(settings.project_dir),
                items=self._items,
                parallel=settings.parallel,
                pid=os.getpid(),
                label_prefix=settings.label_prefix,
                resume_command=settings.resume_command,
                folder=settings.folder,
                budget_usd=settings.budget_usd,
                python=settings.python,
                titles=self._titles if any(self._titles) else (),
            )
        )
        for event in announcements:
            self._emit(event)
        for item_id, holder in held.items():
            self._record_skip(item_id, Cause.HELD, f"held by {holder}")
        for item_id, note in done.items():
            self._record(
                ItemEnded(
                    item_id=item_id,
                    outcome=note.outcome,
                    cause=Cause.EARLIER_RUN,
                    reason=f"in run {note.run_id} already",
                    seconds=0.0,
                    attempts=0,
                )
            )
            self._store.give_back(item_id)

    def skipped(self, item_id: str, dependency: str) -> None:
        outcome = self._tally.outcome_of(dependency)
        self._record_skip(item_id, Cause.DEPENDENCY, f"dependency {dependency} {outcome.as_clause()}")
        self._store.give_back(item_id)

    def skipped_by(self, item_id: str, reason: str) -> None:
        """A person does not want an item that does not run."""
        self._record_skip(item_id, Cause.PERSON, reason)
        self._store.give_back(item_id)

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """Items that ended so, up to now."""
        return self._tally.counts

    def outcome_of(self, item_id: str) -> Outcome | None:
        """How it ended; None as long as it has not."""
        return self._tally.outcome_of(item_id) if self._tally.has_ended(item_id) else None

    def reopened(self, item_ids: Sequence[str]) -> str | None:
        """A person wants another attempt of these. The one that another run has by now: then nothing has changed."""
        taken: list[str] = []
        for item_id in item_ids:
            if not self._store.take_back(item_id):
                for mine in taken:
                    self._store.give_back(mine)
                return item_id
            taken.append(item_id)
        for item_id in taken:
            self._tally.reopened(item_id)
        return None

    def worker_gone(self, run: ItemRun, exit_code: int | None, *, may_retry: bool = False) -> Ending:
        """Decide how the attempt ended, and carry it out."""
        is_lost_with_its_machine = self._is_lost_with_its_machine(run)
        end = decide_end(
            None if is_lost_with_its_machine else self._final_message(run),
            None if is_lost_with_its_machine else exit_code,
            given_up=run.given_up,
            held=run.held,
            skipped_because=run.skipped_because,
            is_stopping=run.is_stopping,
            may_retry=may_retry,
        )
        seconds = round(run.watch.seconds, 6)
        if end.has_succeeded:
            end = self._store.publish(run.item.id, end)
        if not end.has_succeeded:
            self._store.drop_unfinished_documents(run.item.id)
        if end.is_run_fault:
            self._fault(end.reason)
        self._tally.attempt(seconds, run.watch.working_seconds)
        if end.outcome is not None:
            self._end(run, end, end.outcome, seconds)
        else:
            self._emit(ItemRetried(item_id=run.item.id, attempt=run.attempt, reason=end.reason))
        return end.ending

    def surprised(self, run: ItemRun, error: Exception) -> Ending:
        """The engine failed over this item. It ends as failed, unless its end is on record already."""
        why = surprise(error)
        if self._tally.has_ended(run.item.id):
            self._emit(Warned(text=f"{run.item.id}: {why.reason}"))
            return Ending.DONE if self._tally.outcome_of(run.item.id).is_done else Ending.NOT_DONE
        end = decide_end(None, 1, given_up=why)
        self._end(run, end, FAILED, round(run.watch.seconds, 6))
        return Ending.NOT_DONE

    def given_up(self, run: ItemRun) -> None:
        """Its worker was too slow to end: the backend has ended it since."""
        self._end(run, ItemEnd(ending=Ending.INTERRUPTED), INTERRUPTED, 0.0)

    def finish(self, stopped_with: ExitCode | None, wall_seconds: float) -> ExitCode:
        exit_code = self._tally.exit_code(stopped_with)
        self._emit(
            RunEnded(
                counts=self._tally.counts,
                left=self._tally.left,
                wall_seconds=round(wall_seconds, 3),
                item_seconds=round(self._tally.item_seconds, 3),
                working_seconds=round(self._tally.working_seconds, 3),
                exit_code=int(exit_code),
            )
        )
        # Last, and not after a fault: what has ended is not repeated before the run's end is on record.
        if self._tally.is_through and stopped_with is None:
            self._store.forget_done(self._items, self._settings.run_id, batch=self._settings.batch)
        return exit_code

    def _is_lost_with_its_machine(self, run: ItemRun) -> bool:
        """Its checkpoint can be written from here and not from there: it resumes on another one."""
        message = run.final_message
        if not (run.other_machine and isinstance(message, ItemFailed) and message.is_run_fault):
            return False
        return self._store.can_keep(run.item.id) and self._retire(run.other_machine, message.message)

    def _final_message(self, run: ItemRun) -> FinalMessage | None:
        """A checkpoint that one worker cannot write where others can is that item's fault, not the run's."""
        message = run.final_message
        if run.other_machine or not (isinstance(message, ItemFailed) and message.is_run_fault):
            return message
        return replace(message, is_run_fault=False) if self._store.can_keep(run.item.id) else message

    def _end(self, run: ItemRun, end: ItemEnd, outcome: Outcome, seconds: float) -> None:
        """What is on disk comes first: after a kill in between the next run does not report the same end again."""
        if not outcome.is_failure:
            self._hand_out_result(run, outcome, seconds)
        is_noted = end.has_succeeded and self._note_done(run.item, outcome, end.outputs)
        self._record(
            ItemEnded(
                item_id=run.item.id,
                outcome=outcome,
                cause=end.cause,
                seconds=seconds,
                reason=end.reason,
                error_type=end.error_type,
                traceback=end.traceback,
                attempts=run.attempt,
                input_tokens=run.usage.input_tokens,
                output_tokens=run.usage.output_tokens,
                cost_usd=round(run.usage.cost_usd, 6),
            )
        )
        if is_noted:
            self._remove_checkpoint(run.item.id)
        self._store.give_back(run.item.id)

    def _hand_out_result(self, run: ItemRun, outcome: Outcome, seconds: float) -> None:
        message = run.final_message
        if isinstance(message, ItemDone) and message.state:
            mask = self._redactor.redact_text
            self._emit(
                ResultProduced(
                    item_id=run.item.id,
                    outcome=outcome_named(mask(outcome.name)),
                    seconds=seconds,
                    attempts=run.attempt,
                    state=mask(message.state),
                    interrupts=mask(message.interrupts),
                    models=message.models,
                    input_tokens=run.usage.input_tokens,
                    output_tokens=run.usage.output_tokens,
                    cost_usd=round(run.usage.cost_usd, 6),
                )
            )

    def _note_done(self, item: Item, outcome: Outcome, documents: Sequence[str]) -> bool:
        shown = outcome_named(self._redactor.redact_text(outcome.name))
        paths = [self._redactor.redact_text(path) for path in documents]
        try:
            self._store.note_done(item, shown, self._settings.run_id, paths)
        except FenceRefused as error:
            self._emit(Warned(text=f"{item.id}: {error}"))
            return False
        except OSError as error:
            self._fault(f"cannot note that {item.id} is done: {error.strerror or error}")
            return False
        return True

    def _remove_checkpoint(self, item_id: str) -> None:
        """It has served its purpose. One that cannot be removed is in nobody's way: the item is noted as done."""
        try:
            self._store.remove_checkpoint(item_id)
        except FenceRefused:
            pass  # It is somebody else's by now.
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            self._emit(Warned(text=f"{item_id}: cannot remove its checkpoint{where}: {error.strerror}"))

    def _record_skip(self, item_id: str, cause: Cause, reason: str) -> None:
        self._record(ItemEnded(item_id=item_id, outcome=SKIPPED, cause=cause, reason=reason, seconds=0.0, attempts=0))

    def _record(self, event: ItemEnded) -> None:
        event = replace(
            event,
            outcome=outcome_named(self._redactor.redact_text(event.outcome.name)),
            error_type=self._redactor.redact_text(event.error_type),
            reason=self._redactor.redact_text(event.reason, is_cut=True),
            traceback=self._redactor.redact_text(event.traceback),
        )
        self._tally.ended(event)
        self._emit(event)
