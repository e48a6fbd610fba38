"""`agentos gateway`: your keys for any program that speaks a provider's protocol, without giving it one."""

# Every command builds this parser, few run it.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentos.cli.options import add_unpriced_option, dollars, port_number, setting_flags, time_span
from agentos.cli.output import say
from agentos.environment import environment
from agentos.errors import UsageError
from agentos.events import Event
from agentos.paths import find_project_dir

if TYPE_CHECKING:
    from agentos.gateway.standalone import Started
    from agentos.settings import Settings

DESCRIPTION = """Serve the key pool on this machine to any program that speaks the protocol of Anthropic, OpenAI or
Gemini: SDKs, LangChain, Claude Code, Codex, Gemini CLI, aider. Programs get a token instead of a key, valid until
this command ends. Requests and answers pass through unchanged; the gateway deals with limits, dead keys and lost
connections before the first byte. A command after `--` runs with everything set up, and its exit code becomes this
one's."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.set_defaults(handler=run)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--port", type=port_number, metavar="N", help="the port on 127.0.0.1 (default: a free one)")
    place.add_argument(
        "--socket", type=Path, metavar="PATH", help="listen on a Unix socket that only you can use, instead of a port"
    )
    parser.add_argument(
        "--client",
        action="append",
        default=[],
        metavar="NAME",
        help="make a token for this name; repeatable (default: one token)",
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="PATTERN",
        help="allow only these models, e.g. 'openai:gpt-5*'; repeatable",
    )
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="ASKED=MODEL",
        help="call another model of the same provider than the one asked for, e.g. gpt-4o=openai:gpt-5.1",
    )
    parser.add_argument(
        "--budget", type=dollars, metavar="USD", help="refuse calls that would take the total above this"
    )
    add_unpriced_option(parser)
    parser.add_argument(
        "--max-wait", type=time_span, metavar="TIME", help="refuse a call rather than wait longer for a limit"
    )
    parser.add_argument("--json", action="store_true", help="print address and tokens as one JSON object")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="run this program through it")


def run(args: argparse.Namespace) -> int:
    from agentos.gateway.routing import read_policy
    from agentos.gateway.standalone import Options, serve
    from agentos.keys.refusals import Patience

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if command and args.socket:
        raise UsageError("--socket cannot be combined with a command: programs find the gateway by a port.")
    settings = _use_project(setting_flags(args))
    options = Options(
        port=args.port or 0,
        socket_path=args.socket,
        clients=tuple(args.client),
        policy=read_policy(args.allow, args.map),
        budget_usd=args.budget,
        usd_per_day=settings.budget.usd_per_day,
        patience=Patience(args.max_wait, f"--max-wait {args.max_wait}") if args.max_wait is not None else None,
    )
    tell = partial(_tell, is_json=args.json)
    return serve(options, environment(), command, tell=tell, on_event=_tell_of_keys)


def _use_project(flags: Mapping[str, Any]) -> Settings:
    """Providers, addresses and prices of the `agentos.toml` here, as a run from here would use them."""
    from agentos.keys.credentials import load_credentials
    from agentos.llm.endpoints import refuse_unconfirmed, unconfirmed_urls
    from agentos.llm.settings import use_base_urls, use_prices
    from agentos.providers.addresses import is_on_this_machine
    from agentos.settings import load_settings

    settings = load_settings(find_project_dir(Path.cwd()), flags=flags)
    use_prices(settings.prices.models, settings.prices.unpriced)
    urls = settings.provider_urls
    unconfirmed = unconfirmed_urls(urls, environment())
    refuse_unconfirmed(unconfirmed, {spec.provider for spec in load_credentials(environ=environment()).specs})
    # A key that is added later must not go there either.
    use_base_urls({name: url for name, url in urls.items() if name not in unconfirmed or is_on_this_machine(url)})
    return settings


def _tell_of_keys(event: Event) -> None:
    from agentos.reporters.wording import lines

    say(*lines(event), to_stderr=True)


def _tell(started: Started, *, is_json: bool) -> None:
    if is_json:
        # On one line, which others can read while this goes on.
        clients = [{"name": name, "token": token} for name, token in started.tokens]
        say(json.dumps({"address": started.address, "clients": clients}))
    else:
        say(f"Gateway on {started.address} for {', '.join(started.providers)}. Ctrl+C ends it.")
        for name, variables in started.environments:
            say(f"# {name}")
            for variable, value in variables.items():
                say(f"export {variable}={shlex.quote(value)}")
