"""Answers on disk: the model `recorded` replays them, and record mode saves those of a live model.

One JSON file per call: `{directory}/{workflow}/{item}/{node}.{round}.json`.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentos.errors import UsageError
from agentos.files import write_whole
from agentos.llm import settings
from agentos.llm.broker_choice import masked
from agentos.llm.cancellation import Cancellation
from agentos.llm.context import CallPlace
from agentos.llm.conversation import ToolCall
from agentos.llm.errors import RecordingMissingError
from agentos.llm.types import Completion, Request
from agentos.providers.evidence import Usage

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def recording_path(directory: Path, place: CallPlace) -> Path:
    """Where the answer of a call is kept."""
    return directory / _safe(place.workflow) / _safe(place.item) / f"{_safe(place.node)}.{place.round}.json"


def replay(request: Request, place: CallPlace, cancellation: Cancellation) -> Completion:
    """The saved answer of this call, after the latency configured for models without a network."""
    cancellation.wait(settings.offline_latency_seconds())
    directory = settings.recorded_dir()
    if directory is None:
        raise UsageError("Model 'recorded' has no recordings: set AGENTOS_RECORDED_DIR to a directory of them.")
    path = recording_path(directory, place)
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        return _read(saved, request)
    except FileNotFoundError:
        raise RecordingMissingError(
            f"No recorded answer for call {place.round} of {place.node} ({place.workflow} {place.item}): "
            f"expected {path}. Record it with --record {directory}."
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is not a recording ({error!r}): record it again.") from None


def save(directory: Path, place: CallPlace, request: Request, completion: Completion) -> None:
    """Keep an answer for later replay. Whole or not at all: readers never see half a file, nor a key."""
    record = {
        "model": completion.model,
        "text": completion.text,
        "structured": completion.structured,
        "usage": asdict(completion.usage),
        "tool_calls": [asdict(call) for call in completion.tool_calls],
        "is_truncated": completion.is_truncated,
        "request": {"system": request.system, "messages": [each.to_document() for each in request.messages]},
    }
    text = masked(json.dumps(record, indent=2, ensure_ascii=False))
    write_whole(recording_path(directory, place), f"{text}\n")


def _read(saved: dict[str, Any], request: Request) -> Completion:
    usage = saved["usage"]
    return Completion(
        text=str(saved["text"]),
        structured=saved.get("structured"),
        # Replaying spends nothing, whatever the recording cost.
        usage=Usage(input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"], cost_usd=0.0),
        model=str(request.model),
        tool_calls=tuple(ToolCall(**call) for call in saved.get("tool_calls", ())),
        is_truncated=bool(saved.get("is_truncated", False)),
    )


def _safe(part: str) -> str:
    """A name that stays inside its directory on every file system."""
    cleaned = _UNSAFE.sub("-", part).strip(".-")
    return cleaned or "unnamed"
