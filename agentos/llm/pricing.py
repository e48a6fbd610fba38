"""What tokens cost: by the user's own prices, else by genai-prices. No price is not a price of 0."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from agentos.errors import UsageError
from agentos.llm import settings
from agentos.providers.model_name import CODING_CLI, KEYLESS, ModelName
from agentos.providers.registry import providers

_CHARACTERS_PER_TOKEN = 4
_FEWEST_BYTES_PER_TOKEN = 2
_FRAME_TOKENS = 50
"""What providers put around a prompt."""
_PER_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens."""

    input_usd: float
    output_usd: float

    @classmethod
    def parse(cls, text: str) -> Price:
        """`2/12`. Raises ValueError."""
        first, slash, second = text.partition("/")
        if not slash:
            raise ValueError(text)
        price = cls(float(first), float(second))
        if not all(math.isfinite(usd) and usd >= 0 for usd in (price.input_usd, price.output_usd)):
            raise ValueError(text)
        return price

    def cost_usd(self, input_tokens: int, output_tokens: int) -> float:
        return (self.input_usd * input_tokens + self.output_usd * output_tokens) / _PER_MILLION


@dataclass(frozen=True, slots=True)
class OwnPrices:
    """What the user says models cost."""

    models: dict[str, Price] = field(default_factory=dict)
    unpriced: Price | None = None
    """Of models that nobody has a price for."""


def own_prices(models: Sequence[str], unpriced: str) -> OwnPrices:
    """From the settings of these names. Raises UsageError for what is no price."""
    found = {}
    for entry in models:
        name, _, price = entry.strip().rpartition(" ")
        ModelName.parse(name.strip())
        found[name.strip()] = _checked(price, f"prices.models has {entry!r}: write 'google:my-model 2/12'")
    return OwnPrices(found, _checked(unpriced, f"the price {unpriced!r}: write it like 2/12") if unpriced else None)


def _checked(text: str, problem: str) -> Price:
    try:
        return Price.parse(text)
    except ValueError:
        raise UsageError(f"{problem}, dollars per million tokens in and out.") from None


def without_price(models: Iterable[str], own: OwnPrices) -> list[str]:
    """Those of the models that a budget cannot count."""
    named = [ModelName.parse(model) for model in dict.fromkeys(models)]
    return [str(name) for name in named if name.provider != CODING_CLI and _cost_usd(name, 1, 1, own) is None]


def estimate_tokens(text: str) -> int:
    """Roughly how many tokens a text is; never 0, so that an estimate always reserves something."""
    return max(1, -(-len(text) // _CHARACTERS_PER_TOKEN))


def most_tokens(text: str) -> int:
    """As many tokens as a text may be, whatever its language: what is reserved must not be passed."""
    return max(1, -(-len(text.encode(errors="replace")) // _FEWEST_BYTES_PER_TOKEN)) + _FRAME_TOKENS


def cost_usd(model: ModelName, input_tokens: int, output_tokens: int) -> float | None:
    """The price of a call in US dollars, or None when the model's price is not known."""
    return _cost_usd(model, input_tokens, output_tokens, _configured(*settings.prices()))


def estimated_cost_usd(model: ModelName, input_tokens: int, output_tokens: int) -> float | None:
    """The same before the call. What a coding CLI costs is told by itself, afterwards."""
    return 0.0 if model.provider == CODING_CLI else cost_usd(model, input_tokens, output_tokens)


@lru_cache(maxsize=4)
def _configured(models: tuple[str, ...], unpriced: str) -> OwnPrices:
    return own_prices(models, unpriced)


def _cost_usd(model: ModelName, input_tokens: int, output_tokens: int, own: OwnPrices) -> float | None:
    if model.provider in KEYLESS:
        return 0.0
    if price := own.models.get(str(model)):
        return price.cost_usd(input_tokens, output_tokens)
    if _has_price(model):
        return _price(model, input_tokens, output_tokens)
    return own.unpriced.cost_usd(input_tokens, output_tokens) if own.unpriced else None


def price_list(provider: str) -> str:
    """What genai-prices calls the provider."""
    known = providers().get(provider)
    return known.price_list or provider if known else provider


@lru_cache(maxsize=256)
def _has_price(name: ModelName) -> bool:
    """Asked once per model, because an unknown one is searched for at length."""
    return _price(name, 1000, 1000) is not None


def _price(name: ModelName, input_tokens: int, output_tokens: int) -> float | None:
    from genai_prices import Usage, calc_price  # noqa: PLC0415 - slow to import, and only priced models need it

    try:
        price = calc_price(
            Usage(input_tokens=input_tokens, output_tokens=output_tokens),
            model_ref=name.model,
            provider_id=price_list(name.provider),
        )
    except LookupError:
        return None
    return float(price.total_price)
