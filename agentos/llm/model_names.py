"""Names of models that are known to exist: those with a price. A name that is not among them may still be right."""

from __future__ import annotations

from agentos.llm.pricing import cost_usd, price_list
from agentos.providers.model_name import ModelName
from agentos.providers.registry import providers
from agentos.text.suggestions import nearest

_ALIKE = 0.85
"""One letter of a name, not one version of a model."""


def misspelling_words(model: str) -> str:
    """What to say of a model that nobody has a price for and that is spelled much like one they have."""
    name = ModelName.parse(model)
    if name.provider not in providers() or cost_usd(name, 1, 1) is not None:
        return ""
    close = nearest(name.model, _priced(name.provider), most=1, likeness=_ALIKE)
    return f"{name} is not in the list of prices. Did you mean {name.provider}:{close[0]}?" if close else ""


def _priced(provider: str) -> list[str]:
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415  slow to import

    return [model.id for each in get_snapshot().providers if each.id == price_list(provider) for model in each.models]
