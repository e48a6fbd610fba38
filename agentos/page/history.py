"""Runs of the past side by side: how many succeeded, what they cost, which items fail now and then. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median, quantiles
from typing import Any

from agentos.dashboard.payload import outcome_kind, project_name
from agentos.page.home import EndedRun, run_row
from agentos.records.summary import ItemSummary
from agentos.reporters.wording import outcome_words
from agentos.text.words import dollars, duration, one_line


def chosen(ended: Iterable[EndedRun], *, project_dir: str = "", workflow: str = "") -> list[EndedRun]:
    return [
        each for each in ended if project_dir in ("", each.run.project_dir) and workflow in ("", each.run.workflow)
    ]


def history(
    all_ended: Sequence[EndedRun], ended: Sequence[EndedRun], nodes: Mapping[tuple[str, str], Sequence[float]]
) -> dict[str, Any]:
    """`ended` are those that were chosen; `nodes` durations by workflow and node."""
    projects = {each.run.project_dir: project_name(each.run.project_dir) for each in all_ended}
    return {
        "runs": [history_row(each) for each in ended],
        "flaky": flaky(ended),
        "nodes": node_rows(nodes),
        "workflows": sorted({one_line(each.run.workflow, longest=60) for each in all_ended}),
        "projects": [{"project": name, "project_dir": folder} for folder, name in sorted(projects.items())],
    }


def history_row(each: EndedRun) -> dict[str, Any]:
    summary, run = each.summary, each.run
    good = sum(number for outcome, number in run.counts.items() if outcome.is_done or outcome.is_as_asked)
    tried = sum(1 for item in summary.items if item.attempts)
    row = run_row(run, summary)
    return {
        **{
            name: row[name]
            for name in ("run", "workflow", "project", "started", "total", "exit_code", "words", "kind")
        },
        "good": good,
        "tried": tried,
        "success": round(good / tried, 4) if tried else None,
        "cost_usd": row["cost_usd"],
        "wall_seconds": summary.wall_seconds,
        "item_seconds": summary.item_seconds,
        "speed_up": row["speed_up"],
        "tokens": sum(item.input_tokens + item.output_tokens for item in summary.items),
    }


def flaky(ended: Sequence[EndedRun]) -> list[dict[str, Any]]:
    """Items that failed in some runs and ended well in others, or needed more than one attempt; the worst first."""
    ends: dict[tuple[str, str, str], list[ItemSummary]] = defaultdict(list)
    prefix: dict[str, str] = {}
    for each in ended:
        prefix[each.run.workflow] = each.summary.label_prefix
        for item in each.summary.items:
            if item.attempts:
                ends[each.run.project_dir, each.run.workflow, item.id].append(item)
    rows: list[dict[str, Any]] = []
    for (project_dir, workflow, item_id), items in ends.items():
        failed = sum(item.outcome.is_failure for item in items)
        retries = sum(max(0, item.attempts - 1) for item in items)
        if (0 < failed < len(items)) or retries:
            rows.append(
                {
                    "item": item_id,
                    "label": one_line(f"{prefix[workflow]}{item_id}", longest=140),
                    "workflow": one_line(workflow, longest=60),
                    "project": one_line(project_name(project_dir), longest=80),
                    "runs": len(items),
                    "failed": failed,
                    "retries": retries,
                    "words": _flaky_words(failed, len(items), retries),
                }
            )
    return sorted(rows, key=lambda row: (-row["failed"], -row["retries"], row["label"]))[:200]


def _flaky_words(failed: int, runs: int, retries: int) -> str:
    parts = [f"failed in {failed} of {runs} runs"] if failed else []
    parts += [f"{retries} further attempt{'' if retries == 1 else 's'}"] if retries else []
    return ", ".join(parts)


def node_rows(nodes: Mapping[tuple[str, str], Sequence[float]]) -> list[dict[str, Any]]:
    return [
        {
            "workflow": one_line(workflow, longest=60),
            "node": one_line(node, longest=80),
            "count": len(seconds),
            "median": round(median(seconds), 3),
            "p90": round(quantiles(seconds, n=10, method="inclusive")[-1] if len(seconds) > 1 else seconds[0], 3),
            "longest": round(max(seconds), 3),
        }
        for (workflow, node), seconds in nodes.items()
        if seconds
    ]


def compare(a: EndedRun, b: EndedRun) -> dict[str, Any]:
    """Two runs and their items, side by side; what changed first."""
    rows = (history_row(a), history_row(b))
    items = ({item.id: item for item in each.summary.items} for each in (a, b))
    first, second = items
    ids = list(dict.fromkeys([*first, *second]))
    prefix = b.summary.label_prefix
    pairs = [
        {
            "id": item_id,
            "label": one_line(f"{prefix}{item_id}", longest=140),
            "a": _end(first.get(item_id)),
            "b": _end(second.get(item_id)),
            "is_changed": _outcome_of(first.get(item_id)) != _outcome_of(second.get(item_id)),
        }
        for item_id in ids
    ]
    return {
        "a": rows[0],
        "b": rows[1],
        "facts": _facts(*rows),
        "items": sorted(pairs, key=lambda pair: not pair["is_changed"]),
    }


def _outcome_of(item: ItemSummary | None) -> str:
    return "" if item is None else item.outcome.name


def _end(item: ItemSummary | None) -> dict[str, Any] | None:
    if item is None:
        return None
    return {
        "outcome": one_line(item.outcome.name, longest=60),
        "words": outcome_words(item.outcome),
        "kind": outcome_kind(item.outcome),
        "seconds": item.seconds,
        "cost_usd": item.cost_usd,
    }


def _facts(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Where less is better, less is good."""
    return [
        _fact("Ended well", a["good"], b["good"], str, more_is_better=True),
        _fact("Wall time", a["wall_seconds"], b["wall_seconds"], duration),
        _fact("Work", a["item_seconds"], b["item_seconds"], duration),
        _fact("Speed-up", a["speed_up"] or 0.0, b["speed_up"] or 0.0, _times, more_is_better=True),
        _fact("Cost", a["cost_usd"], b["cost_usd"], dollars),
        _fact("Tokens", a["tokens"], b["tokens"], lambda number: f"{number:,}"),
    ]


def _times(number: float) -> str:
    return f"{number:.1f} times" if number else "unknown"


def _fact(name: str, a: Any, b: Any, shown: Any, *, more_is_better: bool = False) -> dict[str, Any]:
    if a == b:
        return {"name": name, "a": shown(a), "b": shown(b), "words": "the same", "kind": "dim"}
    is_more = b > a
    return {
        "name": name,
        "a": shown(a),
        "b": shown(b),
        "words": f"{shown(abs(b - a))} {'more' if is_more else 'less'}",
        "kind": "good" if is_more == more_is_better else "warn",
    }
