"""What to type once a run is over: the command that does what an act would have done while it was under way."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from agentos.hints import Hint, from_here
from agentos.reporters.resume_line import OPTION_OF_ACT, with_option
from agentos.reporters.summary import summary_of

_CONTINUE: Final = frozenset({"resume", "retry", "parallel", "budget"})


def command_instead(run_dir: Path, act: str, value: float | None = None) -> str:
    """Empty where nothing is left to continue, and for acts that only a run under way can take."""
    if act == "status":
        return Hint.SHOW_RUN.line(run=run_dir.name)
    summary = summary_of(run_dir, with_items=False)
    if act not in _CONTINUE or not summary.resume_command:
        return ""
    command = summary.resume_command
    if act in OPTION_OF_ACT and value is not None:
        command = with_option(command, OPTION_OF_ACT[act], value)
    return from_here(command, summary.folder)
