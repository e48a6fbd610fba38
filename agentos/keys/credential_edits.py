"""Adds keys to credentials.toml and takes them out, leaving the rest of the file as its owner wrote it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentos.errors import UsageError
from agentos.files import lock_of, locked, write_private
from agentos.hints import Hint
from agentos.keys.credentials import (
    KEY_NAME,
    KEYRING_SERVICE,
    check_entry,
    checked_secret,
    header_lines,
    os_keyring,
    parse_entries,
    read_file,
)
from agentos.keys.key_spec import KeySpec

_ANY_HEADER = re.compile(r"\s*\[")

KeyringSet = Callable[[str, str, str], None]


def add_credential(
    path: Path,
    spec: KeySpec,
    *,
    secret: str | None = None,
    env: str | None = None,
    use_keyring: bool = False,
    keyring_set: KeyringSet | None = None,
) -> None:
    """Append a key, leaving the rest of the file as it is. The secret goes to the file, or to the OS keyring.

    Give `secret`, or `env` to name the variable that holds it; `use_keyring` keeps the secret out of the file.
    """
    where = f"key {spec.name!r}" if KEY_NAME.fullmatch(spec.name) else "the key"
    if secret is not None:
        secret = checked_secret(secret, where)
    entry = _entry(spec, secret=secret, env=env, use_keyring=use_keyring)
    check_entry(entry, where)
    path = path.resolve()
    with locked(lock_of(path)):
        text = read_file(path) or ""
        if any(existing.get("name") == spec.name for existing in parse_entries(path, text)):
            raise UsageError(
                f"{path}: a key named {spec.name!r} exists. "
                f"Run `{Hint.REMOVE_KEY.line(name=spec.name)}`, or choose another name"
            )
        if use_keyring:
            assert secret is not None
            (keyring_set or _keyring_set)(KEYRING_SERVICE, spec.name, secret)
        separator = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        write_private(path, f"{text}{separator}{_block(entry)}")


def remove_credential(path: Path, name: str) -> None:
    """Take a key out of the file, leaving the rest as it is. A secret in the OS keyring stays there."""
    path = path.resolve()
    _find(path, name)  # Before the lock: what is refused leaves no file behind.
    with locked(lock_of(path)):
        text, entries, index = _find(path, name)
        shortened = _without_block(text, index)
        if shortened is None or parse_entries(path, shortened) != entries[:index] + entries[index + 1 :]:
            raise UsageError(f"{path}: this layout cannot be edited safely: remove the key by hand")
        write_private(path, shortened)


def _find(path: Path, name: str) -> tuple[str, list[dict[str, Any]], int]:
    """The file's text, its entries, and which of them is the key."""
    text = read_file(path) or ""
    entries = parse_entries(path, text)
    index = next((i for i, entry in enumerate(entries) if entry.get("name") == name), None)
    if index is None:
        known = ", ".join(sorted(str(entry.get("name")) for entry in entries)) or "none"
        raise UsageError(f"{path}: no such key; the file's keys: {known}")
    return text, entries, index


def _entry(spec: KeySpec, *, secret: str | None, env: str | None, use_keyring: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": spec.name, "provider": spec.provider}
    if spec.group != spec.name:
        entry["group"] = spec.group
    if use_keyring and secret is not None:
        entry["keyring"] = True
    elif secret is not None:
        entry["secret"] = secret
    if env is not None:
        entry["env"] = env
    if spec.max_concurrent != 1:
        entry["max_concurrent"] = spec.max_concurrent
    entry |= {name: getattr(spec, name) for name in ("rpm", "tpm", "rpd") if getattr(spec, name) is not None}
    return entry


def _block(entry: Mapping[str, Any]) -> str:
    """An entry as TOML. Its strings are visible ASCII, for which JSON and TOML write alike."""
    return "".join(["[[key]]\n", *(f"{name} = {json.dumps(value)}\n" for name, value in entry.items())])


def _without_block(text: str, index: int) -> str | None:
    """The text without the `[[key]]` block; comments just above the next header stay with that."""
    headers = header_lines(text)
    if index >= len(headers):
        return None
    lines = text.splitlines(keepends=True)
    start = headers[index]
    end = next((number for number in range(start + 1, len(lines)) if _ANY_HEADER.match(lines[number])), len(lines))
    while end < len(lines) and end > start + 1 and lines[end - 1].lstrip()[:1] in ("", "#"):
        end -= 1
    return "".join(lines[:start] + lines[end:])


def _keyring_set(service: str, name: str, secret: str) -> None:
    keyring = os_keyring()
    try:
        keyring.set_password(service, name, secret)
    except keyring.errors.KeyringError as error:
        raise UsageError(f"key {name!r}: the OS keyring refused it ({type(error).__name__}): unlock it") from None
