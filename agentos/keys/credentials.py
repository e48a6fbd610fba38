"""Where keys come from: credentials.toml, the environment, the OS keyring. The one place that reads secrets.

No error or warning here shows any part of a secret, not even where a user put one into the wrong field.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentos.distribution import install_line
from agentos.environment import environment
from agentos.errors import UsageError
from agentos.files import PRIVATE_FILE_MODE, create_private, lock_of, locked, write_private
from agentos.hints import Hint
from agentos.keys.key_spec import KeySpec
from agentos.paths import credentials_path, key_salt_path
from agentos.providers.registry import key_variables, providers
from agentos.text.suggestions import did_you_mean, nearest
from agentos.text.toml import NotToml, parse_toml

LIMIT_VARIABLE = "AGENTOS_CREDENTIAL_LIMIT"
KEYRING_SERVICE = "agentos"

SECRET_FIELDS = ("secret", "env", "keyring")
NUMBER_FIELDS = ("max_concurrent", "rpm", "tpm", "rpd")
KNOWN_FIELDS = frozenset({"name", "provider", "group", *SECRET_FIELDS, *NUMBER_FIELDS})

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"[!-~]+")
_OWN_PROVIDER = re.compile(r"[a-z][a-z0-9_]{0,15}")
_DECLARE = 'add [providers.NAME] kind = "openai", base_url = "https://…" to agentos.toml'
_SHOWABLE_WORD = re.compile(r"[a-z_]{1,16}")
_KEY_HEADER = re.compile(r"\s*\[\[\s*key\s*\]\]\s*(#.*)?")
_ANY_HEADER = re.compile(r"\s*\[")

KeyringGet = Callable[[str, str], str | None]
KeyringSet = Callable[[str, str, str], None]


@dataclass(frozen=True, slots=True)
class Credential:
    """A key of the pool with its secret."""

    spec: KeySpec
    secret: str = field(repr=False)


class MissingSecretError(UsageError):
    """A key is configured, and its secret is not where it should be."""


@dataclass(frozen=True, slots=True)
class MissingSecret:
    """A key that cannot be used now, and what to do about it."""

    spec: KeySpec
    reason: str


@dataclass(frozen=True, slots=True)
class CredentialSet:
    """All keys, in order, and what the user should know about them."""

    credentials: tuple[Credential, ...] = ()
    warnings: tuple[str, ...] = ()
    missing: tuple[MissingSecret, ...] = ()
    """Keys without a secret, or of a provider that nobody declares here. Who has no use for their provider need not
    know."""

    @property
    def specs(self) -> tuple[KeySpec, ...]:
        return tuple(credential.spec for credential in self.credentials)

    @property
    def secrets(self) -> dict[str, str]:
        """Key name to secret."""
        return {credential.spec.name: credential.secret for credential in self.credentials}

    def fingerprints(self, salt: bytes) -> dict[str, str]:
        """Key name to the fingerprint of its secret."""
        return {name: fingerprint(secret or f"no secret: {name}", salt) for name, secret in self.secrets.items()}

    def changed_secrets(self, before: CredentialSet) -> frozenset[str]:
        """Keys of both sets whose secret is another one now: what `KeyPool.replace_keys` wants to know."""
        old = before.secrets
        return frozenset(name for name, secret in self.secrets.items() if old.get(name, secret) != secret)


def load_credentials(
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    keyring_get: KeyringGet | None = None,
) -> CredentialSet:
    """Read all keys. The plain variables count for providers the file has no key of; a missing file is no error.

    Raises UsageError with the file, the line, the key's name and the fix. A variable that is not set concerns its own
    key only: that one is among the `missing`.
    """
    path = credentials_path() if path is None else path
    environ = environment() if environ is None else environ
    text = _read(path)
    warnings: list[str] = []
    credentials: list[Credential] = []
    missing: list[MissingSecret] = []
    if text is not None:
        warnings += _mode_warnings(path)
        credentials = _from_file(path, text, environ, keyring_get or _keyring_get, warnings, missing)
    served = {spec.provider for spec in (*(each.spec for each in credentials), *(each.spec for each in missing))}
    credentials += _from_plain_variables(environ, served)
    credentials = _limited(credentials, environ)
    warnings += _group_warnings(credentials)
    return CredentialSet(tuple(credentials), tuple(warnings), tuple(missing))


def scrubbed(environ: Mapping[str, str], credentials: CredentialSet) -> dict[str, str]:
    """The environment for processes that have no business with keys: no variable that holds one, by any name."""
    secrets = [secret for secret in credentials.secrets.values() if secret]
    variables = key_variables()
    return {
        name: value
        for name, value in environ.items()
        if name not in variables and not any(secret in value for secret in secrets)
    }


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
    where = f"key {spec.name!r}" if _NAME.fullmatch(spec.name) else "the key"
    if secret is not None:
        secret = _checked_secret(secret, where)
    entry = _entry(spec, secret=secret, env=env, use_keyring=use_keyring)
    _check_entry(entry, where)
    path = path.resolve()
    with locked(lock_of(path)):
        text = _read(path) or ""
        if any(existing.get("name") == spec.name for existing in _parse(path, text)):
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
    with locked(lock_of(path)):
        text = _read(path) or ""
        entries = _parse(path, text)
        index = next((i for i, entry in enumerate(entries) if entry.get("name") == name), None)
        if index is None:
            known = ", ".join(sorted(str(entry.get("name")) for entry in entries)) or "none"
            raise UsageError(f"{path}: no such key; the file's keys: {known}")
        shortened = _without_block(text, index)
        if shortened is None or _parse(path, shortened) != entries[:index] + entries[index + 1 :]:
            raise UsageError(f"{path}: this layout cannot be edited safely: remove the key by hand")
        write_private(path, shortened)


def fingerprint(secret: str, salt: bytes) -> str:
    """A keyed hash that tells secrets apart on this machine and nothing about them elsewhere."""
    return hmac.new(salt, secret.encode(), hashlib.sha256).hexdigest()[:32]


def load_salt(path: Path | None = None) -> bytes:
    """This machine's salt, made on first use, in a file of mode 0600 under AGENTOS_HOME."""
    path = key_salt_path() if path is None else path
    try:
        if not path.exists():
            create_private(path, secrets.token_hex(32))  # Another process may be first: then its salt is read.
        salt = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path}: cannot be used as salt ({type(error).__name__}): remove it to make a new one"
        ) from None
    if len(salt) < 16:
        raise UsageError(f"{path}: too short for a salt: remove it to make a new one")
    return salt


def _read(path: Path) -> str | None:
    """The file's text; None if there is no file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text: save it as UTF-8") from None
    except NotADirectoryError:
        raise UsageError(f"{path.parent} is not a folder. Set AGENTOS_HOME to a folder you can write to.") from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        raise UsageError(f"{path}: cannot be read ({reason}): `{Hint.MAKE_PRIVATE.line(path=path)}`") from None


def _parse(path: Path, text: str) -> list[dict[str, Any]]:
    """The `[[key]]` entries. The parser's own words are not shown: they may quote a secret."""
    try:
        document = parse_toml(text)
    except NotToml as error:
        place = f" at {error.place}: check the quotes and brackets there" if error.place else ": check its numbers"
        raise UsageError(f"{path}: not valid TOML{place}") from None
    entries = document.get("key", [])
    unknown = sorted(name for name in document if name != "key")
    if unknown or not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path}: only [[key]] tables belong here (double brackets, one for each key)")
    return entries


def _from_file(
    path: Path,
    text: str,
    environ: Mapping[str, str],
    keyring_get: KeyringGet,
    warnings: list[str],
    missing: list[MissingSecret],
) -> list[Credential]:
    lines = _header_lines(text)
    credentials: dict[str, Credential] = {}
    holders: dict[tuple[str, str], str] = {}
    for index, entry in enumerate(_parse(path, text)):
        where = f"{path}, line {lines[index] + 1}" if index < len(lines) else str(path)
        spec = _check_entry(entry, where)
        where = f"{where}: key {spec.name!r}"
        if spec.name in credentials or spec.name in [each.spec.name for each in missing]:
            raise UsageError(f"{where}: another key has this name: give each key its own")
        if spec.provider not in providers():
            missing.append(MissingSecret(spec, f"{where}: no provider {spec.provider} is declared here: {_DECLARE}"))
            continue
        try:
            secret = _find_secret(entry, spec.name, where, environ, keyring_get)
        except MissingSecretError as error:
            missing.append(MissingSecret(spec, str(error)))
            continue
        holder = holders.setdefault((spec.provider, secret), spec.name)
        if holder != spec.name:
            warnings.append(f"keys {holder!r} and {spec.name!r} hold the same secret: only {holder!r} is used")
            continue
        credentials[spec.name] = Credential(spec, secret)
    return list(credentials.values())


def _check_entry(entry: Mapping[str, Any], where: str) -> KeySpec:
    name = entry.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"{where}: a key needs a name of letters, digits, '.', '_' or '-': name = \"alpha\"")
    where = where if repr(name) in where else f"{where}: key {name!r}"
    unknown = sorted(str(item) for item in entry if item not in KNOWN_FIELDS)
    if unknown:
        shown = unknown[0] if _SHOWABLE_WORD.fullmatch(unknown[0]) else "one"
        raise UsageError(f"{where}: unknown field {shown!r}; known fields: {', '.join(sorted(KNOWN_FIELDS))}")
    provider = entry.get("provider")
    if not isinstance(provider, str) or not _may_be_declared(provider):
        is_showable = isinstance(provider, str) and _SHOWABLE_WORD.fullmatch(provider)
        hint = did_you_mean(str(provider), providers()) if is_showable else ""
        shown = f" {provider!r}" if is_showable else ""
        raise UsageError(f"{where}: unknown provider{shown}; use one of {', '.join(providers())}.{hint}")
    group = entry.get("group", name)
    if not isinstance(group, str) or not _NAME.fullmatch(group):
        raise UsageError(f"{where}: group must be a name of letters, digits, '.', '_' or '-'")
    for number in NUMBER_FIELDS:
        value = entry.get(number, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError(f"{where}: {number} must be a whole number, 1 or more")
    _check_secret_fields(entry, where)
    numbers = {number: entry[number] for number in NUMBER_FIELDS if number in entry}
    return KeySpec(name=name, provider=provider, group=group, **numbers)


def _may_be_declared(provider: str) -> bool:
    """Known here, or a name that another project may declare: not one that is a letter off a known one."""
    return provider in providers() or bool(_OWN_PROVIDER.fullmatch(provider) and not nearest(provider, providers()))


def _check_secret_fields(entry: Mapping[str, Any], where: str) -> None:
    given = [name for name in SECRET_FIELDS if entry.get(name) not in (None, False)]
    if len(given) != 1:
        problem = "no secret" if not given else f"{' and '.join(given)} at once"
        raise UsageError(f'{where}: {problem}; give one of secret = "…", env = "VARIABLE", keyring = true')
    if "keyring" in given and entry["keyring"] is not True:
        raise UsageError(f"{where}: keyring must be true or absent")
    if "env" in given and not (isinstance(entry["env"], str) and _VARIABLE.fullmatch(entry["env"])):
        raise UsageError(f"{where}: env must be the name of an environment variable, such as GEMINI_KEY_1")


def _find_secret(
    entry: Mapping[str, Any], name: str, where: str, environ: Mapping[str, str], keyring_get: KeyringGet
) -> str:
    if "secret" in entry:
        return _checked_secret(entry["secret"], where)
    if "env" in entry:
        value = environ.get(entry["env"], "")
        if not value.strip():
            shown = entry["env"] if len(entry["env"]) <= 40 else "a variable"
            raise MissingSecretError(
                f"{where}: the environment variable {shown} is not set: export it, or remove the key"
            )
        return _checked_secret(value, where)
    stored = keyring_get(KEYRING_SERVICE, name)
    if stored is None:
        raise MissingSecretError(
            f"{where}: the OS keyring has no secret for it: `{Hint.REMOVE_KEY.line(name=name)}`, then add it again"
        )
    return _checked_secret(stored, where)


def _checked_secret(secret: object, where: str) -> str:
    if not isinstance(secret, str) or not _SECRET.fullmatch(secret.strip()):
        raise UsageError(f"{where}: the secret is empty or has spaces, line breaks or non-ASCII characters in it")
    return secret.strip()


def _from_plain_variables(environ: Mapping[str, str], served: set[str]) -> list[Credential]:
    """One key for each distinct secret of the well-known variables."""
    found: dict[str, list[str]] = {}
    for variable, provider in key_variables().items():
        value = environ.get(variable, "").strip()
        if value and provider not in served and value not in found.setdefault(provider, []):
            found[provider].append(_checked_secret(value, f"environment variable {variable}"))
    credentials = []
    for provider, provider_secrets in found.items():
        for number, secret in enumerate(provider_secrets, start=1):
            name = f"env-{provider}" if number == 1 else f"env-{provider}-{number}"
            credentials.append(Credential(KeySpec(name=name, provider=provider, group=name), secret))
    return credentials


def _limited(credentials: list[Credential], environ: Mapping[str, str]) -> list[Credential]:
    """Only the first few keys, to try out by hand how a small pool behaves."""
    text = environ.get(LIMIT_VARIABLE, "").strip()
    if not text:
        return credentials
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise UsageError(f"{LIMIT_VARIABLE} must be a number of keys, such as 2")
    return credentials[: int(text)]


def _mode_warnings(path: Path) -> list[str]:
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name == "nt" or not mode & ~(PRIVATE_FILE_MODE | stat.S_IXUSR):
        return []
    return [f"{path} is open to others (mode {mode:04o}): `{Hint.MAKE_PRIVATE.line(path=path)}`"]


def _group_warnings(credentials: list[Credential]) -> list[str]:
    warnings = []
    for provider in providers():
        groups = [credential.spec.group for credential in credentials if credential.spec.provider == provider]
        if len(groups) > 1 and len(set(groups)) == 1:
            warnings.append(f"{provider}: {len(groups)} keys, 1 quota group: rotation adds no capacity")
    return warnings


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


def _header_lines(text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines()) if _KEY_HEADER.fullmatch(line)]


def _without_block(text: str, index: int) -> str | None:
    """The text without the `[[key]]` block; comments just above the next header stay with that."""
    headers = _header_lines(text)
    if index >= len(headers):
        return None
    lines = text.splitlines(keepends=True)
    start = headers[index]
    end = next((number for number in range(start + 1, len(lines)) if _ANY_HEADER.match(lines[number])), len(lines))
    while end < len(lines) and end > start + 1 and lines[end - 1].lstrip()[:1] in ("", "#"):
        end -= 1
    return "".join(lines[:start] + lines[end:])


def _keyring_get(service: str, name: str) -> str | None:
    keyring = _keyring()
    try:
        found: str | None = keyring.get_password(service, name)
    except keyring.errors.KeyringError as error:
        raise MissingSecretError(
            f"key {name!r}: the OS keyring cannot be read ({type(error).__name__}): unlock it"
        ) from None
    return found


def _keyring_set(service: str, name: str, secret: str) -> None:
    keyring = _keyring()
    try:
        keyring.set_password(service, name, secret)
    except keyring.errors.KeyringError as error:
        raise UsageError(f"key {name!r}: the OS keyring refused it ({type(error).__name__}): unlock it") from None


def _keyring() -> Any:
    try:
        import keyring  # noqa: PLC0415  an optional dependency, slow to load
        import keyring.errors  # noqa: PLC0415
    except ImportError:
        raise MissingSecretError(f"the OS keyring needs its library: {install_line('keyring')}") from None
    return keyring
