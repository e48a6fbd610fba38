"""What each setting may be: one rule per setting, which checks a value, words the allowed range and makes its schema.

The one owner of ranges: the file, variables and flags are all checked by these, and editors get them as JSON schema.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from agentos.providers.model_name import CODING_CLI, CODING_CLIS, KEYLESS, ModelName, ModelNameError
from agentos.providers.registry import known_providers
from agentos.text.words import one_line

_LONGEST_VALUE = 80


class Rule(Protocol):
    """What one setting may be."""

    def read(self, text: str) -> Any:
        """The value that a variable's or a flag's text means; the text itself where it means none."""

    def refusal(self, where: str, value: Any) -> str:
        """Why the value is not allowed, in a sentence that begins with where it stands; empty when it is."""

    def schema(self) -> dict[str, Any]:
        """The same as JSON schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeNumber:
    most: int
    least: int = 1

    def read(self, text: str) -> Any:
        return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()) else text

    def refusal(self, where: str, value: Any) -> str:
        if type(value) is int and self.least <= value <= self.most:
            return ""
        return _must_be(where, f"a whole number from {self.least} to {self.most:,}", value)

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dollars:
    most: int = 1_000_000

    def read(self, text: str) -> Any:
        try:
            return float(text.strip().removeprefix("$"))
        except ValueError:
            return text

    def refusal(self, where: str, value: Any) -> str:
        if type(value) in (int, float) and 0 <= value <= self.most:
            return ""
        return _must_be(where, f"dollars from 0 to {self.most:,}, like 20.0", value)

    def schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": 0, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Text:
    words: str
    pattern: str
    """Of the whole text, in the part of the syntax that Python and JSON schema share."""

    def read(self, text: str) -> Any:
        return text

    def refusal(self, where: str, value: Any) -> str:
        return "" if self.takes(value) else _must_be(where, self.words, value)

    def takes(self, value: Any) -> bool:
        return isinstance(value, str) and re.fullmatch(self.pattern, value) is not None

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": self.pattern}


class Secret(Text):
    """A text that is never repeated: it may hold a password."""

    __slots__ = ()

    def refusal(self, where: str, value: Any) -> str:
        return "" if self.takes(value) else f"{where} must be {self.words}, got a text that may hold a password."


@dataclass(frozen=True, slots=True)
class OneOf:
    choices: tuple[str, ...]

    def read(self, text: str) -> Any:
        return text

    def refusal(self, where: str, value: Any) -> str:
        return "" if value in self.choices else _must_be(where, f"one of {', '.join(self.choices)}", value)

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.choices)}


class YesOrNo:
    def read(self, text: str) -> Any:
        return {"true": True, "false": False}.get(text.strip().lower(), text)

    def refusal(self, where: str, value: Any) -> str:
        return "" if isinstance(value, bool) else _must_be(where, "true or false", value)

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class ListOf:
    entry: Text

    def read(self, text: str) -> Any:
        return [part.strip() for part in text.split(",") if part.strip()]

    def refusal(self, where: str, value: Any) -> str:
        if not isinstance(value, list | tuple):
            return _must_be(where, f"a list, each entry {self.entry.words}", value)
        refused = [entry for entry in value if not self.entry.takes(entry)]
        return _must_be(f"{where}: each entry", self.entry.words, refused[0]) if refused else ""

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.entry.schema()}


class Command(ListOf):
    """A program and its arguments; no shell reads them."""

    __slots__ = ()

    def read(self, text: str) -> Any:
        """A JSON list, or words as a shell would split them."""
        try:
            return json.loads(text) if text.lstrip().startswith("[") else shlex.split(text)
        except ValueError:
            return text


class Model:
    """Empty leaves the choice to whoever asks."""

    def read(self, text: str) -> Any:
        return text

    def refusal(self, where: str, value: Any) -> str:
        if not isinstance(value, str):
            return _must_be(where, "a string like provider:model", value)
        try:
            if value:
                ModelName.parse(value)
        except ModelNameError as error:
            return f"{where}: {error}"
        return "" if re.fullmatch(self._pattern, value) else _must_be(where, "one line like provider:model", value)

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": self._pattern}

    @property
    def _pattern(self) -> str:
        programs, keyless = ("|".join(names) for names in (CODING_CLIS, KEYLESS))
        return f"^({OWN_PROVIDER}:{_LINE}+|{CODING_CLI}:({programs})(:{_LINE}*)?|({keyless})(:{_LINE}*)?)?$"


def _must_be(where: str, words: str, value: Any) -> str:
    return f"{where} must be {words}, got {one_line(repr(value), _LONGEST_VALUE)}."


_INSIDE = r"(?![/~\s])(?!(.*/)?\.\.(/|$))[^\x00-\x1f\x7f]+"
"""A path that does not lead out of the project, as far as its text can tell."""
_DOLLARS = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_ANY_TEXT = Text("a string", r"^[^\x00]*$")
_LINE = r"[^\x00-\x1f\x7f]"
OWN_PROVIDER = r"[a-z][a-z0-9_]{0,31}"
"""What a provider that the user declares may be called: part of a variable's name."""
_SOURCE = Text("a folder, or github:owner/repo?label=ready", rf"^(?!\s){_LINE}+$")
_FOLDER = Text("a folder inside the project, like docs/designs", f"^{_INSIDE}$")
_FOLDER_OR_NONE = Text("a folder inside the project, like docs/lineage, or empty", f"^({_INSIDE})?$")
_FILES_OR_NONE = Text("a pattern of files inside the project, like build/*.xml, or empty", f"^({_INSIDE})?$")
_FILE = Text("a path or pattern inside the project, like .env", f"^{_INSIDE}$")
_VARIABLE = Text("the name of an environment variable, like WEB_PORT", r"^[A-Za-z_][A-Za-z0-9_]*$")
_PRICE_OF_MODEL = Text("a model and its price, like google:my-model 2/12", rf"^\S+ +{_DOLLARS}/{_DOLLARS}$")
_PRICE_OR_NONE = Text("dollars per million tokens in and out, like 2/12", f"^({_DOLLARS}/{_DOLLARS})?$")
NOTIFY_REASONS: Final = ("needs_review", "failed", "paused", "done")
_NOTIFY_REASON = Text(f"one of {', '.join(NOTIFY_REASONS)}", f"^({'|'.join(NOTIFY_REASONS)})$")
_ADDRESS = Text("an address like https://gateway.example/v1", r"^https?://[^\s\\/?#]+[^\s\\]*$")

_DATABASE = Secret(
    "an address like postgresql://user@host/database, with a password only as in user:password@host, or empty",
    r"^(postgres(ql)?://(?![^#]*[?&](ssl)?password=)[^\s#]+)?$",
)

RULES: Final[Mapping[str, Rule]] = {
    "sources.issues": _SOURCE,
    "sources.briefs": _SOURCE,
    "sources.briefs_done": _FOLDER,
    "documents.issues_dir": _FOLDER,
    "documents.lld_dir": _FOLDER,
    "documents.lld_done_dir": _FOLDER,
    "documents.reports_dir": _FOLDER,
    "documents.lineage": _FOLDER_OR_NONE,
    "models.drafter": Model(),
    "models.reviewer": Model(),
    "models.coder": Model(),
    "limits.parallel": WholeNumber(most=10),
    "limits.max_rounds": WholeNumber(most=100),
    "limits.context_tokens": WholeNumber(most=1_000_000),
    "prices.models": ListOf(_PRICE_OF_MODEL),
    "prices.unpriced": _PRICE_OR_NONE,
    "notify.command": Command(Text("a program or one of its arguments", r"^[^\x00]+$")),
    "notify.on": ListOf(_NOTIFY_REASON),
    "notify.desktop": YesOrNo(),
    "budget.usd_per_day": Dollars(),
    "review.gate": OneOf(("none", "draft", "verdict", "all")),
    "implementation.test": _ANY_TEXT,
    "implementation.python": Text("the path of an interpreter, or empty", rf"^{_LINE}*$"),
    "implementation.junit": _FILES_OR_NONE,
    "implementation.coverage": _FILES_OR_NONE,
    "implementation.base": Text("a commit, branch or tag, like main", rf"^(?![\s-]){_LINE}+$"),
    "implementation.commits": OneOf(("squash", "stacked")),
    "implementation.stacking": OneOf(("yes", "no")),
    "workstreams.setup": _ANY_TEXT,
    "workstreams.setup_network": OneOf(("no", "yes")),
    "implementation.sandbox": OneOf(("strongest", "bwrap", "namespaces", "landlock", "none")),
    "implementation.readable": ListOf(Text("a file or folder, like ~/datasets", rf"^{_LINE}+$")),
    "implementation.memory_mb": WholeNumber(most=4_194_304),
    "implementation.processes": WholeNumber(most=4_194_304),
    "implementation.open_files": WholeNumber(most=1_048_576),
    "implementation.file_mb": WholeNumber(most=4_194_304),
    "implementation.disk_mb": WholeNumber(most=4_194_304),
    "implementation.coverage_target": WholeNumber(most=100),
    "implementation.max_rounds": WholeNumber(most=100),
    "implementation.test_timeout_seconds": WholeNumber(most=86_400),
    "workstreams.dir": Text("a folder, or empty", rf"^{_LINE}*$"),
    "workstreams.copy": ListOf(_FILE),
    "workstreams.link": ListOf(_FILE),
    "workstreams.ports": ListOf(_VARIABLE),
    "workstreams.names": ListOf(_VARIABLE),
    "checkpoints.url": _DATABASE,
    "checkpoints.project": Text(
        "a name of letters, digits, '.', '_' and '-', or empty", r"^([A-Za-z0-9][A-Za-z0-9._-]{0,99})?$"
    ),
    "checkpoints.patience_seconds": WholeNumber(most=3600),
    "cluster.backend": OneOf(("local", "ray")),
    "cluster.address": Text("HOST:PORT of the cluster's head, or empty", r"^([A-Za-z0-9._-]+:[0-9]{1,5})?$"),
    "cluster.env": OneOf(("same", "make")),
    "cluster.max_per_node": WholeNumber(most=1000),
    "cluster.resources": ListOf(
        Text("a resource and its amount, like CPU=2 or GPU=0.5", r"^[A-Za-z][A-Za-z0-9_.:/-]*=[0-9]+(\.[0-9]+)?$")
    ),
}
"""By name. What may be set of providers has rules of its own: see `provider_rules`."""


def rule_of(setting: str) -> Rule:
    """The rule of a setting like `limits.parallel` or `providers.google.base_url`."""
    if setting.startswith("providers."):
        return provider_rules()[setting.rpartition(".")[2]]
    return RULES[setting]


def provider_rules() -> Mapping[str, Rule]:
    """Of what may be set of a provider."""
    return {
        "kind": OneOf(tuple(known_providers())),
        "base_url": _ADDRESS,
        "api_version": Text("a version like 2024-10-21", r"^[A-Za-z0-9._-]+$"),
        "needs_key": YesOrNo(),
        "max_concurrent": WholeNumber(most=1000),
    }


def choices_of(setting: str) -> tuple[str, ...]:
    """Of a setting that takes one of a few words."""
    rule = RULES[setting]
    assert isinstance(rule, OneOf)
    return rule.choices
