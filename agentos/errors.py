"""Errors a user can act on: one line of text and an exit code. Anything else is a bug and keeps its traceback."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit status means. Documented in docs/reference/exit-codes.md."""

    OK = 0
    ITEM_FAILED = 1
    USAGE = 2
    NEEDS_ATTENTION = 3
    NO_USABLE_KEY = 4
    BUDGET_REACHED = 5
    QUOTA_GONE = 75
    INTERRUPTED = 130


class AgentosError(Exception):
    """An expected error. `str(error)` is one line: what, where, how to fix."""

    exit_code: ExitCode = ExitCode.ITEM_FAILED


class UsageError(AgentosError):
    """The command, a file or a setting is not usable as given; nothing was started."""

    exit_code = ExitCode.USAGE


class InvalidIdentifier(UsageError, ValueError):
    """An id that cannot safely become part of a file name."""


class NoUsableKeyError(AgentosError):
    """No key of the pool can serve a model that is needed, and waiting would not help."""

    exit_code = ExitCode.NO_USABLE_KEY


class NoOtherKeyError(AgentosError):
    """A request that some accounts refuse can be tried with no other one now."""


class BudgetReachedError(AgentosError):
    """The next call's estimate does not fit the budget that is left."""

    exit_code = ExitCode.BUDGET_REACHED


class QuotaGoneError(AgentosError):
    """Every usable key is limited for longer than the user is willing to wait."""

    exit_code = ExitCode.QUOTA_GONE


class CannotContinueError(AgentosError):
    """What an earlier run left of an item cannot be continued as things are: the same command would fail again."""


class UndecidedError(AgentosError):
    """Nothing is done until a person has decided, and the message says where: the same command would fail again."""


class CallCancelledError(AgentosError):
    """The model call was given up because its caller is stopping."""

    exit_code = ExitCode.INTERRUPTED

    def __init__(self) -> None:
        super().__init__("The model call was cancelled because its caller is stopping.")
