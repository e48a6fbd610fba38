"""Errors as texts: whatever a node raises can be told, even where its own words fail."""

from __future__ import annotations

import traceback

_MAX_TRACEBACK_CHARACTERS = 20_000


def chain(error: BaseException | None) -> list[BaseException]:
    """The error, what it came from, and what the errors of a group are."""
    links: list[BaseException] = []
    # By identity: how an error compares is a user's code.
    while error is not None and not any(error is known for known in links):
        links.append(error)
        if isinstance(error, BaseExceptionGroup):
            links += error.exceptions
        error = error.__context__ if error.__cause__ is None else error.__cause__
    return links


def safe_text(error: BaseException) -> str:
    """An exception's text, even when its own __str__ fails. `KeyError('x')` says only 'x': those get their name."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException:
        return f"{name} (its text cannot be shown)"
    is_telling = any(character.isalpha() for character in text) and not isinstance(error, LookupError | SystemExit)
    return text if is_telling else f"{name}: {text}".removesuffix(": ")


def shortened(text: str) -> str:
    """Both ends of a long traceback: a huge message must not push out the lines that say where it came from."""
    if len(text) <= _MAX_TRACEBACK_CHARACTERS:
        return text
    half = _MAX_TRACEBACK_CHARACTERS // 2
    return f"{text[:half]}\n[...]\n{text[-half:]}"


def safe_traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:
        return "".join(traceback.format_tb(error.__traceback__))
