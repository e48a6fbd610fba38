"""One cheap call with each key, by the models that a run would call: what `agentos doctor` says of the answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from agentos.hints import Hint
from agentos.keys.credentials import CredentialSet
from agentos.llm.key_check import Checked, check_keys
from agentos.llm.settings import use_base_urls
from agentos.text.words import one_line

Level = Literal["ok", "warning", "error"]
Said = tuple[str, Level, str, str]
"""Area, level, what was found, what to do."""


def try_keys(credentials: CredentialSet, models: Sequence[str], urls: Mapping[str, str]) -> Iterator[Said]:
    """First every key, with a model of its provider that is wanted; then the other models, with a key that works."""
    use_base_urls(urls)
    first = {model.partition(":")[0]: model for model in reversed(models)}
    checked = check_keys(credentials, list(first.values()))
    wanted = {model.partition(":")[0] for model in models}
    for each in checked:
        yield _key(each, _is_vital(each, checked, wanted))
    for model in models:
        yield from _model(model, credentials, checked)


def _is_vital(key: Checked, checked: Sequence[Checked], wanted: set[str]) -> bool:
    """Whether a run would have nothing else for this provider."""
    others = [each for each in checked if each.provider == key.provider and each.is_usable]
    return key.provider in wanted and not others


def _key(key: Checked, is_vital: bool) -> Said:
    name = f"{key.name} ({key.provider})"
    result, note = key.result.replace("_", " "), one_line(key.note, 200)
    if key.result == "valid":
        return "keys", "ok", f"{name}: valid", ""
    level: Level = "error" if is_vital else "warning"
    text = f"{name}: {result}{f', {note}' if note else ''}"
    if key.result == "rejected":
        return "keys", level, text, Hint.REMOVE_KEY.line(name=key.name)
    if key.result == "unknown":
        return "keys", level, text, "Check the network and the provider's status, then try again."
    return "keys", "warning" if key.is_usable else level, text, "Wait for its limit to end, or add a key."


def _model(model: str, credentials: CredentialSet, checked: Sequence[Checked]) -> Iterator[Said]:
    """What a working key says of the model itself."""
    provider = model.partition(":")[0]
    tried = next((each for each in checked if each.model == model and each.result == "valid"), None)
    if tried is None:
        working = next((each.name for each in checked if each.provider == provider and each.result == "valid"), None)
        if working is None:
            return
        chosen = tuple(each for each in credentials.credentials if each.spec.name == working)
        (tried,) = check_keys(replace(credentials, credentials=chosen), [model])
    if tried.refusal:
        text = f"{model}: {provider} refuses it: {one_line(tried.refusal, 200)}"
        yield "models", "error", text, "Correct the model's name in agentos.toml, or in the variable that sets it."
    elif tried.result == "valid":
        yield "models", "ok", f"{model}: answers", ""
