"""How much a file matters to a text: the paths the text names first, then words in common (BM25). Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

# BM25's constants: how soon repeated words stop counting, and how much long texts are held back (less than usual: a
# long outline is a module with much in it, not a wordy one).
_SATURATION = 1.2
_LENGTH_WEIGHT = 0.4
_MAX_MENTIONED = 60
_MAX_TEXT_CHARACTERS = 100_000

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_PATH = re.compile(r"[\w@+-][\w@.+-]*(?:/[\w@.+-]+)+/?|[\w@+-][\w@.+-]*\.[A-Za-z][\w]{0,9}")
_STOP_WORDS = frozenset({
    "the", "and", "for", "with", "that", "this", "from", "are", "was", "were", "will", "would", "should",
    "could", "can", "may", "must", "have", "has", "had", "not", "but", "you", "your", "our", "their", "its",
    "into", "onto", "then", "than", "when", "where", "which", "what", "who", "how", "why", "all", "any", "each",
    "every", "one", "two", "some", "such", "only", "also", "use", "used", "using", "user", "issue", "add",
    "new", "make", "made", "get", "set", "see", "via", "per", "etc", "file", "files", "code", "test", "tests",
    "line", "lines", "def", "class", "self", "return", "none", "true", "false", "import", "str", "int", "bool",
})  # fmt: skip


def terms(text: str) -> list[str]:
    """The words of a text, with identifiers and paths taken apart: `parseHTTPReply` is parse, http, reply."""
    found = (word.lower() for word in _WORD.findall(text[:_MAX_TEXT_CHARACTERS]))
    return [_stem(word) for word in found if (len(word) > 2 or not word.isascii()) and word not in _STOP_WORDS]


def mentioned_paths(text: str, paths: Sequence[str]) -> list[str]:
    """The paths that `text` names, in the order it names them.

    A path counts when it is named in full, by its last parts, as a dotted module, or through its folder.
    """
    by_name: dict[str, list[str]] = {}
    for path in paths:
        by_name.setdefault(PurePosixPath(path).name, []).append(path)
    known = frozenset(paths)
    found: dict[str, None] = {}
    for name in _path_candidates(text):
        if len(found) >= _MAX_MENTIONED:
            break
        found.update(dict.fromkeys(_resolve(name, known, by_name, paths)))
    return list(found)[:_MAX_MENTIONED]


def rank(query: str, documents: Mapping[str, Iterable[str]]) -> dict[str, float]:
    """A score for each document, given as its words; 0 when it has no word of the query."""
    counts = {name: Counter(words) for name, words in documents.items()}
    wanted = Counter(terms(query))
    holders = Counter(word for counter in counts.values() for word in counter.keys() & wanted.keys())
    document_count = len(counts)
    lengths = {name: sum(counter.values()) for name, counter in counts.items()}
    average = (sum(lengths.values()) / document_count if document_count else 0) or 1.0
    rarity = {word: math.log(1 + (document_count - holders[word] + 0.5) / (holders[word] + 0.5)) for word in wanted}
    scores = {}
    for name, counter in counts.items():
        norm = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * lengths[name] / average)
        scores[name] = sum(
            rarity[word] * (1 + math.log(times)) * counter[word] * (_SATURATION + 1) / (counter[word] + norm)
            for word, times in sorted(wanted.items())
            if word in counter
        )
    return scores


def _stem(word: str) -> str:
    """The commonest endings off, so that `workers` meets `worker` and `caching` meets `cache`."""
    for ending, least in (("ies", 5), ("ing", 6), ("ed", 5), ("es", 5), ("s", 4), ("e", 4)):
        if word.endswith(ending) and len(word) >= least and not word.endswith("ss"):
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word


def _path_candidates(text: str) -> list[str]:
    names = (match[0] for match in _PATH.finditer(text[:_MAX_TEXT_CHARACTERS]))
    return list(dict.fromkeys(name.removeprefix("./").rstrip(".") for name in names))


def _resolve(name: str, known: frozenset[str], by_name: Mapping[str, list[str]], paths: Sequence[str]) -> list[str]:
    if name in known:
        return [name]
    last = PurePosixPath(name).name
    if ending := [path for path in by_name.get(last, ()) if path == name or path.endswith(f"/{name}")]:
        return ending
    if "/" in name:
        folder = name.rstrip("/") + "/"
        return [path for path in paths if path.startswith(folder)]
    module = name.replace(".", "/")
    return [path for path in (f"{module}.py", f"{module}/__init__.py") if path in known]
