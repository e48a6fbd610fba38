"""What tokens cost, by genai-prices. A model it does not know has no price, which is not a price of 0."""

from __future__ import annotations

from functools import lru_cache

from agentos.llm.types import KEYLESS, ModelName

_CHARACTERS_PER_TOKEN = 4
_FEWEST_BYTES_PER_TOKEN = 2
_FRAME_TOKENS = 50
"""What providers put around a prompt."""


def estimate_tokens(text: str) -> int:
    """Roughly how many tokens a text is; never 0, so that an estimate always reserves something."""
    return max(1, -(-len(text) // _CHARACTERS_PER_TOKEN))


def most_tokens(text: str) -> int:
    """As many tokens as a text may be, whatever its language: what is reserved must not be passed."""
    return max(1, -(-len(text.encode(errors="replace")) // _FEWEST_BYTES_PER_TOKEN)) + _FRAME_TOKENS


def cost_usd(model: ModelName, input_tokens: int, output_tokens: int) -> float | None:
    """The price of a call in US dollars, or None when the model's price is not known."""
    if model.provider in KEYLESS:
        return 0.0
    return _price(model, input_tokens, output_tokens) if _has_price(model) else None


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
            provider_id=name.provider,
        )
    except LookupError:
        return None
    return float(price.total_price)
