"""Every fault that the server plays, by name."""

from __future__ import annotations

from agentos.testing.misbehaviour import garbage
from agentos.testing.provider_formats import Provider
from agentos.testing.provider_server import Step

_REFUSALS = {
    "an invalid key": "invalid_key",
    "an overload": "overloaded",
    "no money left": "no_credit",
    "a limit of zero": "zero_limit",
    "an unknown model": "no_model",
    "a bad request": "bad_request",
    "a server error": "server_error",
}


def faults(provider: Provider) -> dict[str, Step]:
    """What can go wrong with a call to this provider, each as the step that plays it once."""
    return {
        "a limit of the minute": Step(kind="rate_limit"),
        "a spent day": Step(kind="daily_limit"),
        **{name: Step(kind="fail", fail=kind) for name, kind in _REFUSALS.items()},
        "no answer": Step(kind="hang"),
        "a lost connection": Step(kind="reset"),
        "an answer cut off": Step(kind="cut"),
        "an answer that unpacks without end": Step(kind="bomb", status=200),
        "an error that unpacks without end": Step(kind="bomb"),
        **{case.name: Step(kind="garbage", garbage=case.name) for case in garbage(provider)},
    }
