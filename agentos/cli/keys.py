"""`agentos keys`: the keys of the pool by name and state, never a secret."""

# The verbs import what they need: every command builds this parser, few run it.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from agentos.cli.options import whole_number
from agentos.cli.output import say, say_json
from agentos.clock import local_second
from agentos.errors import ExitCode, NoUsableKeyError, UsageError
from agentos.hints import Hint
from agentos.paths import credentials_path
from agentos.providers.registry import providers
from agentos.text.suggestions import did_you_mean
from agentos.text.table import table_lines
from agentos.text.window import window_columns
from agentos.text.words import one_line

if TYPE_CHECKING:
    from agentos.keys.credentials import CredentialSet
    from agentos.keys.pool import KeyView
    from agentos.llm.key_check import Checked
    from agentos.settings import Settings

_HEADINGS = ("NAME", "PROVIDER", "GROUP", "STATE", "UNTIL", "CALLS", "LAST USED", "NOTE")
_CHECK_HEADINGS = ("NAME", "PROVIDER", "GROUP", "RESULT", "MODEL", "NOTE")
_EXPENDABLE = ("LAST USED", "CALLS", "GROUP")
_CHECK_EXPENDABLE = ("MODEL", "GROUP")
_ADD_HELP = """Add a key to credentials.toml. It asks for the secret without echo, or reads it from standard input in
a pipe; the secret is never an argument, which others on this machine could see. Keys that share a quota belong to
one group: {owners}."""
_CHECK_HELP = """Make one cheap call with each key and say which are valid, limited or rejected. The next run
remembers the result. Exits 4 if no key can serve, now or when its limit ends."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "List, add, remove, check and reset keys. Shows names and states, never a secret."
    parser.set_defaults(handler=run)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    verbs = parser.add_subparsers(dest="keys_verb", metavar="VERB")
    listing = verbs.add_parser("list", help="list all keys with their state (the default)")
    _add_add_parser(verbs)
    remove = verbs.add_parser("remove", aliases=["rm"], help="take a key out of credentials.toml")
    remove.add_argument("name", metavar="NAME", help="the key's name")
    check = verbs.add_parser(
        "check", help="make one cheap call with each key to see whether it is valid", description=_CHECK_HELP
    )
    check.add_argument("names", nargs="*", metavar="NAME", help="check only these keys (default: all)")
    check.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="PROVIDER:MODEL",
        help="the model to call for a provider's keys, e.g. behind a gateway; may be given once per provider",
    )
    for each in (listing, check):
        # Without a default of its own: `keys --json check` must not be undone by it.
        each.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    reset = verbs.add_parser(
        "reset", help="forget a key's rejection and its group's limits, so that it is tried again"
    )
    reset.add_argument("name", metavar="NAME", help="the key's name")


def _add_add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    description = _ADD_HELP.format(owners=", ".join(f"one {each.quota_owner}" for each in providers().values()))
    add = verbs.add_parser("add", help="add a key; its secret comes from a prompt or stdin", description=description)
    add.add_argument("name", metavar="NAME", help="a name for the key, used in messages")
    names = ", ".join(providers())
    add.add_argument(
        "--provider",
        required=True,
        metavar="PROVIDER",
        help=f"whose key it is: {names}, or one that your agentos.toml declares",
    )
    add.add_argument("--group", metavar="GROUP", help="the quota group it belongs to (default: a group of its own)")
    add.add_argument(
        "--max-concurrent",
        type=whole_number,
        default=1,
        metavar="N",
        help="concurrent calls with this key (default: 1)",
    )
    add.add_argument("--rpm", type=whole_number, metavar="N", help="requests per minute of its group, for each model")
    add.add_argument("--tpm", type=whole_number, metavar="N", help="tokens per minute of its group, for each model")
    add.add_argument("--rpd", type=whole_number, metavar="N", help="requests per day of its group, for each model")
    place = add.add_mutually_exclusive_group()
    place.add_argument("--env", metavar="VARIABLE", help="keep only the name of the variable that holds the secret")
    place.add_argument("--keyring", action="store_true", help="keep the secret in the OS keyring, not in the file")


def run(args: argparse.Namespace) -> int:
    """Do what the parsed arguments say and return the exit code."""
    match args.keys_verb:
        case "add":
            return _add(args)
        case "remove" | "rm":
            return _remove(args.name)
        case "check":
            return _check(args.names, args.model, as_json=args.json)
        case "reset":
            return _reset(args.name)
        case _:
            return _list(as_json=args.json)


def _list(*, as_json: bool) -> int:
    from agentos.keys.memory import LimitMemory
    from agentos.keys.overview import key_rows, to_document
    from agentos.keys.pool import KeyView

    memory = LimitMemory()
    credentials = _load()
    without = [
        KeyView(name=spec.name, provider=spec.provider, group=spec.group, state=_unusable_state(spec.provider))
        for spec in (each.spec for each in credentials.missing)
    ]
    rows = [*key_rows(credentials, memory), *without]
    _warn(memory.warnings)
    if as_json:
        say_json([to_document(row) for row in rows])
    elif rows:
        say(*table_lines([_HEADINGS, *map(_cells, rows)], window_columns(), expendable=_EXPENDABLE))
    else:
        say(f"No keys yet. Add one: {Hint.ADD_KEY.line(provider='google')}")
    return ExitCode.OK


def _unusable_state(provider: str) -> str:
    return "no_secret" if provider in providers() else "no_provider"


def _cells(row: KeyView) -> tuple[str, ...]:
    return (
        row.name,
        row.provider,
        row.group,
        row.state.replace("_", " "),
        _local_time(row.until),
        str(row.calls),
        _local_time(row.last_used) or "never",
        one_line(row.reason, longest=80),
    )


def _add(args: argparse.Namespace) -> int:
    from agentos.keys.credential_edits import add_credential
    from agentos.keys.key_spec import KeySpec

    _check_provider(args.provider)
    spec = KeySpec(
        name=args.name,
        provider=args.provider,
        group=args.group or args.name,
        max_concurrent=args.max_concurrent,
        rpm=args.rpm,
        tpm=args.tpm,
        rpd=args.rpd,
    )
    secret = None if args.env else _read_secret(args.name)
    add_credential(credentials_path(), spec, secret=secret, env=args.env, use_keyring=args.keyring)
    where = "secret in the OS keyring" if args.keyring else f"secret from ${args.env}" if args.env else "mode 0600"
    say(f"Added {spec.name} ({spec.provider}, group {spec.group}) to {credentials_path()}, {where}.")
    _load()  # For its warnings: a variable that is not set, keys that all share one group.
    return ExitCode.OK


def _check_provider(name: str) -> None:
    """Before a secret is asked for. Raises UsageError for a provider that is neither known nor declared here."""
    _project_settings()
    if name not in providers():
        declare = f"You can declare your own in agentos.toml; `{Hint.WRITE_SETTINGS.line()}` shows how."
        hint = did_you_mean(name, providers())
        raise UsageError(f"No provider {one_line(name, 40)!r}: use one of {', '.join(providers())}.{hint} {declare}")


def _read_secret(name: str) -> str:
    """From the terminal without echo, or the first line of a pipe."""
    if sys.stdin is not None and sys.stdin.isatty():
        import getpass

        return getpass.getpass(f"Secret of {name} (not shown): ")
    line = sys.stdin.readline() if sys.stdin is not None else ""
    if not line.strip():
        raise UsageError(f"No secret for {name}: type it at a terminal, or redirect standard input from a file.")
    return line


def _remove(name: str) -> int:
    from agentos.keys.credential_edits import remove_credential

    remove_credential(credentials_path(), name)
    say(f"Removed {name} from {credentials_path()}. A secret in the OS keyring or environment stays there.")
    return ExitCode.OK


def _check(names: Sequence[str], models: Sequence[str], *, as_json: bool) -> int:
    from agentos.keys.overview import selected

    credentials = selected(_load(tells_missing=False), names)
    missing = [each.reason for each in credentials.missing if not names]
    if not credentials.credentials:
        words = ". ".join(missing) or f"Add one: {Hint.ADD_KEY.line(provider='google')}"
        raise NoUsableKeyError(f"No keys to check. {words}")
    _warn(missing)
    _use_project_settings({spec.provider for spec in credentials.specs})
    from agentos.llm.key_check import check_keys

    checked = check_keys(credentials, models)
    if as_json:
        say_json([each.to_document() for each in checked])
    else:
        table = [_CHECK_HEADINGS, *map(_check_cells, checked)]
        say(*table_lines(table, window_columns(), expendable=_CHECK_EXPENDABLE))
        say(_check_summary(checked))
    return ExitCode.OK if any(each.is_usable for each in checked) else ExitCode.NO_USABLE_KEY


def _check_cells(checked: Checked) -> tuple[str, ...]:
    return (
        checked.name,
        checked.provider,
        checked.group,
        checked.result.replace("_", " "),
        checked.model,
        one_line(checked.note, longest=120),
    )


def _check_summary(checked: Sequence[Checked]) -> str:
    """`2 valid, 1 rejected (beta)`: whatever is not valid is named."""
    results = list(dict.fromkeys(["valid", *(each.result for each in checked)]))
    parts = []
    for result in results:
        names = [each.name for each in checked if each.result == result]
        shown = "" if result == "valid" else f" ({', '.join(names)})"
        parts.append(f"{len(names)} {result.replace('_', ' ')}{shown}")
    return ", ".join(parts)


def _reset(name: str) -> int:
    from agentos.keys.overview import reset

    reset(_load(tells_missing=False), name)
    say(f"The next run tries {name} again. A run under way keeps what it knows.")
    return ExitCode.OK


def _load(*, tells_missing: bool = True) -> CredentialSet:
    """All keys; what the user should know of them goes to stderr. A caller may tell of missing secrets itself."""
    from agentos.keys.credentials import load_credentials

    _project_settings()
    credentials = load_credentials()
    _warn([*credentials.warnings, *(each.reason for each in credentials.missing if tells_missing)])
    return credentials


def _warn(warnings: Iterable[str]) -> None:
    sys.stderr.write("".join(f"Warning: {warning}\n" for warning in warnings))


def _use_project_settings(providers: Collection[str]) -> None:
    """Endpoints of the project's `agentos.toml`, as a run from here would use them."""
    from agentos.environment import environment
    from agentos.llm.endpoints import refuse_unconfirmed, unconfirmed_urls
    from agentos.llm.settings import use_base_urls

    urls = _project_settings().provider_urls
    refuse_unconfirmed(unconfirmed_urls(urls, environment()), providers)
    use_base_urls(urls)


def _project_settings() -> Settings:
    """Of the project here. From now on the providers that it declares are known."""
    from pathlib import Path

    from agentos.paths import find_project_dir
    from agentos.settings import load_settings

    return load_settings(find_project_dir(Path.cwd()))


def _local_time(epoch_seconds: float | None) -> str:
    """On the user's clock; empty for no time."""
    from datetime import UTC, datetime

    return "" if epoch_seconds is None else local_second(datetime.fromtimestamp(epoch_seconds, UTC))
