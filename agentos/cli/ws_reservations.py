"""`agentos ws lease` and `release`: ports and names that workstreams have for themselves."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from agentos.cli.output import say, say_json
from agentos.cli.ws_tables import reservation_lines
from agentos.errors import ExitCode, UsageError
from agentos.hints import Hint
from agentos.workstreams.commands import ProjectWorkstreams
from agentos.workstreams.reservations import Reservation
from agentos.workstreams.state import select_slugs


def lease(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    """Take what is asked for, then list what the workstreams hold; of one alone as `VARIABLE=VALUE` lines."""
    known = project.refreshed()
    wants_more = bool(arguments.ports or arguments.names)
    if wants_more and not arguments.slugs:
        raise UsageError(f"name the workstream to reserve it for, as in `{_example(known)}`")
    slugs = select_slugs(arguments.slugs, known)
    for slug in slugs if wants_more else ():
        project.reserve(slug, ports=arguments.ports, names=arguments.names)
    held = project.reservations.held()
    chosen = [each for each in held if each.slug in slugs] if slugs else held
    if arguments.json:
        say_json([each.as_json() for each in chosen])
    elif len(slugs) == 1:
        say(*(f"{each.variable}={each.value}" for each in chosen))
    elif chosen:
        say(*reservation_lines(chosen))
    else:
        sys.stderr.write(f"No reservations. `{_example(known)}` reserves a port.\n")
    return ExitCode.OK


def release(arguments: argparse.Namespace, project: ProjectWorkstreams) -> int:
    """Give back what is named, or everything. What is not held is an error before anything is given back."""
    slugs = select_slugs(arguments.slugs, project.refreshed())
    for slug in slugs:
        _refuse_unknown(slug, arguments.variables, project.reservations.held(slug))
    wanted = arguments.variables or None
    released = [each for slug in slugs for each in project.reservations.release(slug, wanted)]
    if arguments.json:
        say_json([each.as_json() for each in released])
    else:
        given_back = [f"{each.slug}: {each.variable} {each.value} released" for each in released]
        say(*(given_back or ["Nothing was reserved."]))
    return ExitCode.OK


def _example(known: Iterable[str]) -> str:
    return Hint.LEASE_PORT.line(slug=next(iter(sorted(known)), "login-page"))


def _refuse_unknown(slug: str, variables: Sequence[str], held: Sequence[Reservation]) -> None:
    known = [each.variable for each in held]
    unknown = [variable for variable in variables if variable not in known]
    if unknown:
        raise UsageError(f"{slug} does not hold {', '.join(unknown)}: it holds {', '.join(known) or 'nothing'}")
