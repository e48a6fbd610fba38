"""How a run went: gathered from its events, kept as `summary.json`, told in a few lines at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import datetime
from pathlib import Path

from agentos.errors import ExitCode
from agentos.events import BudgetNoticed, ControlTaken, ItemEnded, ItemStarted, RunEnded, RunStarted, Stamped
from agentos.files import write_whole
from agentos.hints import Hint, from_here
from agentos.outcomes import AS_ASKED, AWAITING_REVIEW, FAILED, PAUSED, Cause, Outcome
from agentos.preflight import PreflightDone
from agentos.records.folders import SUMMARY_NAME, read_summary
from agentos.records.runs import read_audit
from agentos.records.summary import ItemSummary, RunSummary
from agentos.reporters.logs import log_name
from agentos.reporters.resume_line import OPTION_OF_ACT, resume_line, with_option
from agentos.reporters.wording import COORDINATOR, Alarm, LabelOf, counts_in_words, failure_words, labels_with
from agentos.text.output_prefixer import prefix_of
from agentos.text.words import counted, dollars, duration, listed, one_line

LEAST_SPEED_UP = 1.05
"""What is worth telling: below, `1.0 times as fast` says nothing."""
LEAST_WAIT_SECONDS = 1.0
_NOT_AT_ONCE = (Cause.UNDECIDED, Cause.CANNOT_CONTINUE, Cause.HELD, Cause.NO_USABLE_KEY)
"""What the same command would only end in again."""


class Summary:
    """Follows the events of a run and sums them up, at any time."""

    def __init__(self) -> None:
        self._start: RunStarted | None = None
        self._end: RunEnded | None = None
        self._run_id = ""
        self._started = ""
        self._latest = ""
        self._items: dict[str, ItemSummary] = {}
        self._nodes: dict[str, str] = {}
        self._has_timed_out = False
        self._needed_usd: float | None = None
        self._is_days_budget_reached = False
        self._models: tuple[str, ...] = ()
        self._steered: dict[str, float] = {}
        """What somebody changed under way, by act."""

    def add(self, stamped: Stamped) -> None:
        self._latest = stamped.time
        match stamped.event:
            case RunStarted():
                self._start, self._run_id, self._started = stamped.event, stamped.run_id, stamped.time
            case PreflightDone(models=models):
                self._models = models
            case BudgetNoticed(needed_usd=float(needed), day=day):
                self._needed_usd, self._is_days_budget_reached = needed, bool(day)
            case ItemStarted(item_id=item_id, cluster_node=str(node)) if node:
                self._nodes[item_id] = node
            case ItemEnded(item_id=item_id, cause=cause):
                self._has_timed_out |= cause is Cause.TIMED_OUT
                self._items[item_id] = _item_summary(stamped.event, self._nodes.pop(item_id, ""))
            case ControlTaken(act=act, value=value) if act in OPTION_OF_ACT and value is not None:
                self._steered[act] = value
            case ControlTaken(reopened=reopened):
                for item_id in reopened:
                    self._items.pop(item_id, None)
            case RunEnded():
                self._end = stamped.event

    def result(self) -> RunSummary:
        """The sum so far. Until the run has ended, `ended` is empty and `left` has every item without an outcome."""
        end = self._end or self._end_so_far()
        start = self._start
        # In the order of the plan: which of two items ends first is chance.
        place = {item_id: number for number, item_id in enumerate(start.items)} if start else {}
        return RunSummary(
            run=self._run_id,
            workflow=start.workflow if start else "",
            project_dir=start.project_dir if start else "",
            label_prefix=start.label_prefix if start else "",
            resume_command=self._command(start, end, self._to_continue(start)) if start else "",
            folder=start.folder if start else "",
            start_over_command=self._command(start, end, self._to_start_over(start), is_fresh=True) if start else "",
            models=self._models,
            started=self._started,
            ended=self._latest if self._end else "",
            total=len(start.items) if start else 0,
            wall_seconds=round(end.wall_seconds, 3),
            item_seconds=round(end.item_seconds, 3),
            working_seconds=None if end.working_seconds is None else round(end.working_seconds, 3),
            speed_up=speed_up_of(end),
            counts=end.counts,
            exit_code=end.exit_code if self._end else None,
            left=tuple(end.left),
            items=tuple(sorted(self._items.values(), key=lambda item: place.get(item.id, len(place)))),
        )

    def _to_continue(self, start: RunStarted) -> list[str]:
        """What the same command continues: not what somebody has to let go on, or has in another run."""
        closed = {
            item.id
            for item in self._items.values()
            if not item.outcome.is_unfinished
            or item.outcome in (PAUSED, AS_ASKED)
            or item.cause in (Cause.HELD, Cause.CANNOT_CONTINUE)
        }
        return [item_id for item_id in start.items if item_id not in closed]

    def _to_start_over(self, start: RunStarted) -> list[str]:
        return [i for i in start.items if i in self._items and self._items[i].cause is Cause.CANNOT_CONTINUE]

    def _command(self, start: RunStarted, end: RunEnded, items: list[str], *, is_fresh: bool = False) -> str:
        if not items:
            return ""
        # Items that are done are skipped by the same command; others that must not run again are not named.
        others = {item.id for item in self._items.values() if item.outcome.is_unfinished} - set(items)
        command = resume_line(
            start.resume_command,
            items,
            self._steered.get("budget", start.budget_usd),
            is_all=not (others or is_fresh),
            is_fresh=is_fresh,
            needed_usd=self._needed_for(end),
            has_timed_out=self._has_timed_out,
        )
        parallel = self._steered.get("parallel")
        return command if parallel is None else with_option(command, OPTION_OF_ACT["parallel"], parallel)

    def _needed_for(self, end: RunEnded) -> float | None:
        """What the run's own budget would have had to be; None if it was not the one that ended the run."""
        if end.exit_code != ExitCode.BUDGET_REACHED or self._is_days_budget_reached:
            return None
        # Records of earlier versions do not say what was needed.
        return self._needed_usd or 0.0

    def _end_so_far(self) -> RunEnded:
        planned = self._start.items if self._start else ()
        ended = {item.id: item.outcome for item in self._items.values() if not item.outcome.is_left}
        return RunEnded(
            counts=Counter(ended.values()),
            left=tuple(item_id for item_id in planned if item_id not in ended),
            wall_seconds=_seconds_between(self._started, self._latest),
            item_seconds=sum(item.seconds for item in self._items.values()),
            exit_code=0,
        )


def summary_of(run_dir: Path, *, with_items: bool = True) -> RunSummary:
    """What was written when the run ended or, where nothing was, what its record comes to so far."""
    written = read_summary(run_dir, with_items=with_items)
    if written is not None:
        return written
    summary = Summary()
    for stamped in read_audit(run_dir):
        summary.add(stamped)
    return summary.result()


def speed_up_of(end: RunEnded) -> float:
    """Waiting is no work, and of work that is not finished nobody knows how long it takes one by one."""
    if end.working_seconds is None or end.left or end.wall_seconds <= 0:
        return 0.0
    return round(end.working_seconds / end.wall_seconds, 2)


def _item_summary(event: ItemEnded, cluster_node: str) -> ItemSummary:
    return ItemSummary(
        id=event.item_id,
        outcome=event.outcome,
        cause=event.cause,
        reason=one_line(event.reason or event.error_type),
        seconds=round(event.seconds, 3),
        attempts=event.attempts,
        log=log_name(event.item_id),
        input_tokens=event.input_tokens,
        output_tokens=event.output_tokens,
        cost_usd=event.cost_usd,
        cluster_node=one_line(cluster_node),
    )


def _seconds_between(start: str, end: str) -> float:
    try:
        return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def shown_counts(summary: RunSummary) -> Counter[Outcome]:
    """How many items ended how, those that are left too."""
    return Counter(summary.counts) + Counter(item.outcome for item in summary.items if item.outcome.is_left)


def summary_lines(summary: RunSummary, run_dir: Path | None = None) -> list[str]:
    """What people read at the end: counts, failures, time, tokens, what is left, how to resume, the logs."""
    label_of = labels_with(summary.label_prefix)
    failed = [item for item in summary.items if item.outcome == FAILED]
    run_texts = [
        *_time_texts(summary),
        *_usage_texts(summary),
        *_waiting_texts(summary, label_of),
        *_held_texts(summary, label_of),
        *_left_texts(summary, label_of),
        *_command_texts(summary, label_of),
        *([f"Logs: {run_dir}"] if run_dir else []),
    ]
    return [
        f"{COORDINATOR} {counts_in_words(shown_counts(summary), [label_of(item.id) for item in failed])}",
        *(line for item in failed for line in _failure_lines(item, label_of(item.id), run_dir)),
        *(f"{COORDINATOR} {text}" for text in run_texts),
    ]


def _failure_lines(item: ItemSummary, label: str, run_dir: Path | None) -> list[str]:
    prefix = prefix_of(label)
    log = [f"{prefix} log: {run_dir / item.log}"] if run_dir and item.log else []
    return [Alarm(f"{prefix} {failure_words(item.reason)}"), *log]


def _time_texts(summary: RunSummary) -> list[str]:
    wall = f"{duration(summary.wall_seconds)} in all"
    if summary.working_seconds is None or sum(item.seconds > 0 for item in summary.items) < 2:
        return [wall]
    waited = summary.item_seconds - summary.working_seconds
    waits = f" and {duration(waited)} of waiting" if waited >= LEAST_WAIT_SECONDS else ""
    times = f"{wall}, {duration(summary.working_seconds)} of work{waits}"
    # In a run of seconds the start weighs more than what was won: a factor below one would only puzzle.
    if summary.speed_up < LEAST_SPEED_UP:
        return [times]
    return [f"{times}: {summary.speed_up:.1f} times as fast as one by one"]


def _usage_texts(summary: RunSummary) -> list[str]:
    tokens_in = sum(item.input_tokens for item in summary.items)
    tokens_out = sum(item.output_tokens for item in summary.items)
    cost = sum(item.cost_usd for item in summary.items)
    parts = [f"{tokens_in:,} tokens in, {tokens_out:,} out"] if tokens_in or tokens_out else []
    if cost:
        parts.append(dollars(cost))
    return [", ".join(parts)] if parts else []


def _waiting_texts(summary: RunSummary, label_of: LabelOf) -> list[str]:
    """Who waits for a person, and how to answer."""
    parked = [label_of(item.id) for item in summary.items if item.outcome == AWAITING_REVIEW]
    labels = sorted(parked, key=lambda label: (len(label), label))
    if not labels:
        return []
    waits = "waits" if len(labels) == 1 else "wait"
    answer = Hint.LOOK_AT_REVIEW.line(label=labels[0])
    return [
        f"{counted(len(labels), 'item')} {waits} for review: {listed(labels)}",
        f"See what it asks and how to answer: {answer}",
    ]


def _held_texts(summary: RunSummary, label_of: LabelOf) -> list[str]:
    labels = [label_of(item.id) for item in summary.items if item.cause is Cause.HELD]
    words = f"{counted(len(labels), 'item')} left to the run that has {_them(labels)}: {listed(labels)}"
    return [words] if labels else []


def _left_texts(summary: RunSummary, label_of: LabelOf) -> list[str]:
    labels = [label_of(item_id) for item_id in summary.left]
    return [f"{counted(len(labels), 'item')} left: {listed(labels)}"] if labels else []


def _command_texts(summary: RunSummary, label_of: LabelOf) -> list[str]:
    texts = []
    if summary.start_over_command:
        labels = [label_of(item.id) for item in summary.items if item.cause is Cause.CANNOT_CONTINUE]
        start_over = from_here(summary.start_over_command, summary.folder)
        texts.append(f"{listed(labels)} cannot continue. To start {_them(labels)} over: {start_over}")
    if summary.resume_command:
        lead = "Resume" if _is_resumed_at_once(summary) else "Then resume"
        texts.append(f"{lead} with: {from_here(summary.resume_command, summary.folder)}")
    return texts


def _them(labels: Collection[str]) -> str:
    return "it" if len(labels) == 1 else "them"


def _is_resumed_at_once(summary: RunSummary) -> bool:
    """Whether the same command has something to do before anybody answers, adds a key, or another run has ended.

    Failed items keep their checkpoint, so it continues them too, and what waited for them.
    """
    if summary.left or any(item.outcome == FAILED and item.cause not in _NOT_AT_ONCE for item in summary.items):
        return True
    is_waiting = any(item.outcome == AWAITING_REVIEW or item.cause in _NOT_AT_ONCE for item in summary.items)
    return not is_waiting


class SummaryReporter:
    """Writes `summary.json` when the run ends: whole or not at all."""

    name = "writing the summary"

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / SUMMARY_NAME
        self._summary = Summary()

    def handle(self, stamped: Stamped) -> None:
        """Raises OSError if the summary cannot be written."""
        self._summary.add(stamped)
        if isinstance(stamped.event, RunEnded):
            write_whole(self._path, self._summary.result().to_json())

    def close(self) -> None:
        """Nothing is held open."""
