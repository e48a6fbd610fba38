"""What is known of the keys' limits across runs, on disk by fingerprint: never a secret, never a key's name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentos.files import lock_of, locked, write_private
from agentos.keys.pace import DAY_SECONDS
from agentos.keys.quota import LimitKind, by_this_clock
from agentos.paths import key_limits_path

MEMORY_VERSION = 1


class LimitMemory:
    """Known limits and rejections. Runs at the same time merge: the later end of a limit stands.

    `fingerprints` maps the names of the keys at hand to the fingerprints of their secrets, so that a key with a new
    secret is a new key. What is loaded and saved is the data of `KeyPool.export_limits` and `import_limits`, and with
    it how often a key was called: `new_calls` of a saved record add to the `calls` of a loaded one.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = key_limits_path() if path is None else path
        self.warnings: list[str] = []
        """What the user should know, such as a damaged file set aside."""

    def load(self, fingerprints: Mapping[str, str]) -> dict[str, Any]:
        """What earlier runs knew of these keys."""
        known = self._read()
        return {name: known[mark] for name, mark in fingerprints.items() if mark in known}

    def stamp(self) -> tuple[int, int] | None:
        """Changes with the file."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def save(self, limits: Mapping[str, Any], fingerprints: Mapping[str, str], *, now: float) -> None:
        """Merge into the file what this run knows; what has ended is dropped."""
        with locked(lock_of(self._path)):
            known = {mark: _by_this_clock(record, now) for mark, record in self._read().items()}
            for name, record in limits.items():
                mark = fingerprints.get(name)
                if mark is not None:
                    known[mark] = _merged(known.get(mark, {}), record)
            self._write({mark: _still_true(record, now) for mark, record in known.items()})

    def forget(self, fingerprint: str, *, keeps_rejection: bool = False) -> None:
        """The user's word that a key is to be tried again. Its limits are its group's, its rejection is its own."""
        kept = {"calls", "last_used", *(("rejected",) if keeps_rejection else ())}
        with locked(lock_of(self._path)):
            known = self._read()
            if fingerprint in known:
                known[fingerprint] = {name: value for name, value in known[fingerprint].items() if name in kept}
                self._write(known)

    def lift_rejection(self, fingerprint: str) -> None:
        """The provider has accepted the key."""
        with locked(lock_of(self._path)):
            known = self._read()
            if known.get(fingerprint, {}).pop("rejected", None) is not None:
                self._write(known)

    def _write(self, known: Mapping[str, Any]) -> None:
        kept = {mark: record for mark, record in known.items() if record}
        write_private(self._path, json.dumps({"version": MEMORY_VERSION, "keys": kept}, indent=1, sort_keys=True))

    def _read(self) -> dict[str, Any]:
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            return self._set_aside(type(error).__name__)
        try:
            return _checked(json.loads(text, parse_constant=_refuse))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            return self._set_aside(type(error).__name__)

    def _set_aside(self, problem: str) -> dict[str, Any]:
        """A damaged file costs what it knew, never the run."""
        aside = self._path.with_name(self._path.name + ".damaged")
        try:
            self._path.replace(aside)
            self.warnings.append(
                f"{self._path} was damaged ({problem}); set aside as {aside.name}, limits start unknown"
            )
        except OSError as error:
            self.warnings.append(
                f"{self._path} cannot be used ({problem}, {type(error).__name__}): limits start unknown"
            )
        return {}


def _refuse(constant: str) -> float:
    raise ValueError(constant)  # NaN and Infinity are no times.


def _checked(document: Any) -> dict[str, Any]:
    """The keys of a document whose every field has its type; raises otherwise."""
    if document["version"] != MEMORY_VERSION:
        raise ValueError("version")
    keys: dict[str, Any] = document["keys"]
    for record in keys.values():
        if not isinstance(record.get("rejected", ""), str):
            raise TypeError("rejected")
        float(record.get("last_used", 0.0)), int(record.get("calls", 0))
        for model in record.get("models", {}).values():
            _check_model(model)
    return keys


def _check_model(model: Mapping[str, Any]) -> None:
    if "kind" in model and model["kind"] not in {kind.value for kind in LimitKind}:
        raise ValueError("kind")
    for name in ("until", "changed", "proven", "next_daily_probe", "daily_probes_left"):
        float(model.get(name, 0.0))
    if "kind" in model:
        float(model["until"])
    if "felt" in model:
        limit, is_told, changed = model["felt"]
        float(limit), bool(is_told), float(changed)
    for _what, seconds, value in model.get("learned", ()):
        float(seconds), int(value)
    for _what, seconds, total, ends in model.get("day", ()):
        float(seconds), int(total), float(ends)


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two runs' knowledge of one key. A rejection stays until the secret changes or the user forgets it."""
    merged: dict[str, Any] = {**one, **other}
    calls = one.get("calls", 0) + merged.pop("new_calls", 0)
    if calls:
        merged["calls"] = calls
    used = [record["last_used"] for record in (one, other) if "last_used" in record]
    if used:
        merged["last_used"] = max(used)
    models = {**one.get("models", {}), **other.get("models", {})}
    merged["models"] = {
        name: _merged_model(one.get("models", {}).get(name, {}), other.get("models", {}).get(name, {}))
        for name in models
    }
    return merged


def _merged_model(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The newer word counts; if both say closed, the later end stands."""
    older, newer = sorted((one, other), key=lambda model: model.get("changed", 0.0))
    merged = dict(newer) if newer else dict(older)
    if "kind" in older and "kind" in newer and older["until"] > newer["until"]:
        merged |= {name: older[name] for name in ("kind", "until", "reason", "words") if name in older}
    if older.get("never_resets") and "kind" in newer:
        merged["never_resets"] = True
    learned = {tuple(entry[:2]): entry for entry in (*older.get("learned", ()), *newer.get("learned", ()))}
    if learned:
        merged["learned"] = list(learned.values())
    # Sorted by end and amount, the most used of the latest day comes last and stays.
    days = sorted((*older.get("day", ()), *newer.get("day", ())), key=lambda entry: (entry[3], entry[2]))
    if days:
        merged["day"] = list({tuple(entry[:2]): entry for entry in days}.values())
    return merged


def _by_this_clock(record: Mapping[str, Any], now: float) -> dict[str, Any]:
    models = {name: by_this_clock(model, now) for name, model in record.get("models", {}).items()}
    return {**record, "models": models}


def _has_ended(model: Mapping[str, Any], now: float) -> bool:
    if model["kind"] == LimitKind.NOT_SERVED.value:
        # Models and permissions come without a word: what was not there yesterday is asked for again.
        return bool(model.get("changed", 0.0) <= now - DAY_SECONDS)
    return bool(model["until"] <= now) and not model.get("never_resets")


def _still_true(record: Mapping[str, Any], now: float) -> dict[str, Any]:
    """The record without limits and days that have ended."""
    models = {}
    for name, model in record.get("models", {}).items():
        kept = dict(model)
        if "kind" in kept and _has_ended(kept, now):
            for gone in ("kind", "until", "reason", "words", "never_resets", "daily_probes_left", "next_daily_probe"):
                kept.pop(gone, None)
        if "day" in kept:
            kept["day"] = [entry for entry in kept["day"] if now < entry[3] < now + 2 * DAY_SECONDS]
        models[name] = {field: value for field, value in kept.items() if value not in ([], None)}
    return {**record, "models": {name: model for name, model in models.items() if model}}
