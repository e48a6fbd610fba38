"""Acts of a person on the page: the same as those of `agentos ctl`, over the run's own socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from agentos.engine.control import RunOver, ask
from agentos.engine.steering import ACTS, ITEM_ACTS, NUMBER_ACTS, ActRefused
from agentos.page.refused import Refused
from agentos.records.runs import is_live
from agentos.reporters.run_over import command_instead
from agentos.text.words import one_line

_PATIENCE_SECONDS: Final = 5.0


def take_act(run_dir: Path, said: dict[str, Any]) -> dict[str, Any]:
    """Blocking. Raises Refused with why, and with what would do it where this cannot."""
    request = _request(said)
    if not is_live(run_dir):
        raise _over(run_dir, request)
    try:
        status = ask(run_dir, request, is_live=is_live, patience_seconds=_PATIENCE_SECONDS)
    except RunOver:
        raise _over(run_dir, request) from None
    except ActRefused as refusal:
        raise Refused(409, one_line(str(refusal))) from None
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or error
        raise Refused(409, f"The run cannot be reached: {one_line(str(words))}.") from None
    return {"ok": True, "status": status}


def _request(said: dict[str, Any]) -> dict[str, Any]:
    act, item, value, reason = (said.get(name) for name in ("act", "item", "value", "reason"))
    if not isinstance(act, str) or act not in ACTS or act == "status":
        raise Refused(400, "There is no such act.")
    if act in ITEM_ACTS and not item:
        raise Refused(400, f"{act} needs an item.")
    if act in NUMBER_ACTS and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise Refused(400, f"{act} needs a number.")
    if not all(text is None or isinstance(text, str) for text in (item, reason)):
        raise Refused(400, "An item and a reason must be strings.")
    return {
        "act": act,
        "via": "page",
        **({"item": item} if item else {}),
        **({"value": value} if act in NUMBER_ACTS else {}),
        "reason": reason or "",
    }


def _over(run_dir: Path, request: dict[str, Any]) -> Refused:
    act = request["act"]
    command = command_instead(run_dir, act, request.get("value"))
    hint = "Its items continue with:" if command else ""
    return Refused(410, f"The run is over; there is nothing to {act}.", hint, command)
