"""Where keys come from: credentials.toml, the environment, the OS keyring. The one place that reads secrets.

No error or warning here shows any part of a secret, not even where a user put one into the wrong field.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentos.distribution import install_line
from agentos.environment import environment
from agentos.errors import UsageError
from agentos.files import PRIVATE_FILE_MODE, create_private, read_regular_text
from agentos.hints import Hint
from agentos.keys.key_spec import KeySpec
from agentos.paths import credentials_path, key_salt_path
from agentos.providers.registry import key_variables, providers
from agentos.text.suggestions import did_you_mean, nearest
from agentos.text.toml import MOST_CHARACTERS, NotToml, parse_toml

LIMIT_VARIABLE = "AGENTOS_CREDENTIAL_LIMIT"
KEYRING_SERVICE = "agentos"

SECRET_FIELDS = ("secret", "env", "keyring")
NUMBER_FIELDS = ("max_concurrent", "rpm", "tpm", "rpd")
KNOWN_FIELDS = frozenset({"name", "provider", "group", *SECRET_FIELDS, *NUMBER_FIELDS})

KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"[!-~]+")
_OWN_PROVIDER = re.compile(r"[a-z][a-z0-9_]{0,15}")
_DECLARE = 'add [providers.NAME] kind = "openai", base_url = "https://…" to agentos.toml'
_KEY_HEADER = re.compile(r"\s*\[\[\s*key\s*\]\]\s*(#.*)?")
_SHOWABLE_WORD = re.compile(r"[a-z_]{1,16}")

KeyringGet = Callable[[str, str], str | None]


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
        """Key name to the fingerprint of its secret at its provider: one secret may be good at several."""
        return {
            each.spec.name: fingerprint(f"{each.spec.provider} {each.secret or f'no secret: {each.spec.name}'}", salt)
            for each in self.credentials
        }

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
    text = read_file(path)
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


def fingerprint(secret: str, salt: bytes) -> str:
    """A keyed hash that tells secrets apart on this machine and nothing about them elsewhere."""
    return hmac.new(salt, secret.encode(), hashlib.sha256).hexdigest()[:32]


def load_salt(path: Path | None = None) -> bytes:
    """This machine's salt, made on first use, in a file of mode 0600 under AGENTOS_HOME."""
    path = key_salt_path() if path is None else path
    try:
        if not path.exists():
            create_private(path, os.urandom(32).hex())  # Another process may be first: then its salt is read.
        salt = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path}: cannot be used as salt ({type(error).__name__}): remove it to make a new one"
        ) from None
    if len(salt) < 16:
        raise UsageError(f"{path}: too short for a salt: remove it to make a new one")
    return salt


def read_file(path: Path) -> str | None:
    """The file's text; None if there is no file."""
    try:
        return read_regular_text(path, MOST_CHARACTERS + 1)
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text: save it as UTF-8") from None
    except NotADirectoryError:
        raise UsageError(f"{path.parent} is not a folder. Set AGENTOS_HOME to a folder you can write to.") from None
    except OSError as error:
        if not error.errno:
            raise UsageError(f"{path}: cannot be read ({error})") from None
        reason = os.strerror(error.errno)
        raise UsageError(f"{path}: cannot be read ({reason}): `{Hint.MAKE_PRIVATE.line(path=path)}`") from None


def parse_entries(path: Path, text: str) -> list[dict[str, Any]]:
    """The `[[key]]` entries. The parser's own words are not shown: they may quote a secret."""
    try:
        document = parse_toml(text)
    except NotToml as error:
        # Without a place, the words are ours and quote nothing.
        place = f" at {error.place}: check the quotes and brackets there" if error.place else f": {error}"
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
    lines = header_lines(text)
    credentials: dict[str, Credential] = {}
    holders: dict[tuple[str, str], str] = {}
    for index, entry in enumerate(parse_entries(path, text)):
        where = f"{path}, line {lines[index] + 1}" if index < len(lines) else str(path)
        spec = check_entry(entry, where)
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


def header_lines(text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines()) if _KEY_HEADER.fullmatch(line)]


def check_entry(entry: Mapping[str, Any], where: str) -> KeySpec:
    name = entry.get("name")
    if not isinstance(name, str) or not KEY_NAME.fullmatch(name):
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
    if not isinstance(group, str) or not KEY_NAME.fullmatch(group):
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
        return checked_secret(entry["secret"], where)
    if "env" in entry:
        value = environ.get(entry["env"], "")
        if not value.strip():
            shown = entry["env"] if len(entry["env"]) <= 40 else "a variable"
            raise MissingSecretError(
                f"{where}: the environment variable {shown} is not set: export it, or remove the key"
            )
        return checked_secret(value, where)
    stored = keyring_get(KEYRING_SERVICE, name)
    if stored is None:
        raise MissingSecretError(
            f"{where}: the OS keyring has no secret for it: `{Hint.REMOVE_KEY.line(name=name)}`, then add it again"
        )
    return checked_secret(stored, where)


def checked_secret(secret: object, where: str) -> str:
    if not isinstance(secret, str) or not _SECRET.fullmatch(secret.strip()):
        raise UsageError(f"{where}: the secret is empty or has spaces, line breaks or non-ASCII characters in it")
    return secret.strip()


def _from_plain_variables(environ: Mapping[str, str], served: set[str]) -> list[Credential]:
    """One key for each distinct secret of the well-known variables."""
    found: dict[str, list[str]] = {}
    for variable, provider in key_variables().items():
        value = environ.get(variable, "").strip()
        if value and provider not in served and value not in found.setdefault(provider, []):
            found[provider].append(checked_secret(value, f"environment variable {variable}"))
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


def _keyring_get(service: str, name: str) -> str | None:
    keyring = os_keyring()
    try:
        found: str | None = keyring.get_password(service, name)
    except keyring.errors.KeyringError as error:
        raise MissingSecretError(
            f"key {name!r}: the OS keyring cannot be read ({type(error).__name__}): unlock it"
        ) from None
    return found


def os_keyring() -> Any:
    try:
        import keyring  # noqa: PLC0415  an optional dependency, slow to load
        import keyring.errors  # noqa: PLC0415
    except ImportError:
        raise MissingSecretError(f"the OS keyring needs its library: {install_line('keyring')}") from None
    return keyring
