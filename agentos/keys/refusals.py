"""Why a call gets no key although it would wait: one line each, with what helps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from agentos.clock import local_second
from agentos.errors import BudgetReachedError, NoOtherKeyError, NoUsableKeyError, QuotaGoneError, UsageError
from agentos.hints import Hint
from agentos.keys.budget import Funds
from agentos.keys.leases import Ask
from agentos.text.words import budget_reached, day_budget_reached


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call may wait for a limit to end."""

    seconds: float
    words: str
    """As the user knows it: `--max-wait 20s`."""


def no_key(ask: Ask, names: tuple[str, ...], words: tuple[str, ...] = ()) -> NoUsableKeyError:
    """`names` are the provider's keys, none of which can serve; `words` what it said of money."""
    model = f"{ask.provider}:{ask.model}"
    if not names:
        return NoUsableKeyError(
            f"No key for {model}. Add one: `{Hint.ADD_KEY.line(provider=ask.provider)}`, or choose another model."
        )
    said = "".join(f' {ask.provider} says: "{each}".' for each in words)
    settled = f" Once that is settled: `{Hint.RESET_KEY.line(name=names[0])}`." if words and len(names) == 1 else ""
    return NoUsableKeyError(
        f"No usable key for {model}: {', '.join(names)} rejected or without quota.{said} "
        f"See `{Hint.CHECK_KEYS.line()}`.{settled}"
    )


def no_other_key(ask: Ask) -> NoOtherKeyError:
    return NoOtherKeyError(f"No other key for {ask.provider}:{ask.model} can be tried now.")


def no_money(ask: Ask, funds: Funds) -> BudgetReachedError:
    if funds.problem:
        return BudgetReachedError(f"The day's budget cannot be kept, so no call is made: {funds.problem}.")
    estimated_usd = ask.estimated_cost_usd or 0.0
    if funds.day:
        return BudgetReachedError(day_budget_reached(funds.spent_usd, funds.cap_usd, estimated_usd, funds.day))
    return BudgetReachedError(budget_reached(funds.spent_usd, funds.cap_usd, estimated_usd))


def no_price(ask: Ask) -> UsageError:
    return UsageError(price_missing(f"{ask.provider}:{ask.model}"))


def price_missing(model: str) -> str:
    """Why a budget does not go with this model, and what makes it do so."""
    return (
        f"{model} has no price, so a budget cannot be kept. Say what it costs, in dollars per million tokens in "
        f'and out: --unpriced 2/12, or below [prices] in agentos.toml: models = ["{model} 2/12"].'
    )


def no_such_model(provider: str, model: str) -> str:
    """Why a run ends whose items all need this model."""
    return (
        f"{provider} has no model {provider}:{model}, which every item needs: the run ends here, and unfinished "
        "items stay pending. Correct the model's name, and run the command again."
    )


def no_patience(ask: Ask, now: float, until: float, patience: Patience) -> QuotaGoneError:
    opens = local_second(datetime.fromtimestamp(until, UTC))
    return QuotaGoneError(
        f"All keys of {ask.provider} are limited until {opens}: the next key opens in "
        f"{until - now:.0f} s, longer than {patience.words}. Run again later."
    )
