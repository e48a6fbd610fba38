"""Ports and names that workstreams need for themselves, reserved across all projects of this home."""

from __future__ import annotations

import contextlib
import errno
import json
import re
import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from agentos.errors import UsageError
from agentos.files import locked, write_whole
from agentos.hints import Hint
from agentos.paths import reservations_path
from agentos.sandbox.passed_variables import LIST_VARIABLE
from agentos.text.identifiers import sanitize_identifier

DEFAULT_PORTS: Final = range(20_000, 21_000)
PORT: Final = "port"
NAME: Final = "name"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
# A reservation must not change how other programs work, nor look like a secret, kept from model-written code.
_NOT_FOR_RESERVATIONS: Final = re.compile(
    r"(?:AGENTOS|GIT|LD|PYTHON).*|PATH|HOME|SHELL|IFS|ENV|.*(?:KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH_SOCK|COOKIE).*",
    re.IGNORECASE,
)
# Databases and hosts take no longer names.
_LONGEST_NAME: Final = 63
_MOST_NAMESAKES: Final = 1000


@dataclass(frozen=True, slots=True)
class Reservation:
    """Something one workstream has for itself, under the name of an environment variable."""

    project: str
    """The project's directory."""
    slug: str
    variable: str
    kind: str
    """`port` or `name`."""
    value: str

    def as_json(self) -> dict[str, Any]:
        """For scripts, inside its project."""
        value = int(self.value) if self.kind == PORT else self.value
        return {"slug": self.slug, "variable": self.variable, "kind": self.kind, "value": value}


class Reservations:
    """What the workstreams of one project hold. Nobody of any project of this home gets what another one holds."""

    def __init__(self, project_dir: Path) -> None:
        self._project = str(project_dir.resolve())
        self._path = reservations_path()

    def port(self, slug: str, variable: str, *, ports: range = DEFAULT_PORTS) -> Reservation:
        """A port nobody else holds or listens on; the same one when asked again. UsageError if none is left."""
        return self._reserve(slug, variable, PORT, (str(port) for port in ports), lambda port: _is_free(int(port)))

    def name(self, slug: str, variable: str) -> Reservation:
        """A name nobody else holds, such as a database's: `test_db_issue_12`, with a number if that is taken."""
        stem = f"{variable}_{slug}".lower().replace("-", "_")
        names = (_numbered(stem, number) for number in range(1, _MOST_NAMESAKES))
        return self._reserve(slug, variable, NAME, names, lambda _: True)

    def held(self, slug: str | None = None) -> tuple[Reservation, ...]:
        """What the project holds, or one workstream of it; by slug and variable."""
        found = [reservation for reservation in _read(self._path) if reservation.project == self._project]
        return tuple(sorted(_of(found, slug), key=lambda each: (each.slug, each.variable)))

    def environment(self, slug: str) -> dict[str, str]:
        """A workstream's reservations as its runs get them."""
        variables = {reservation.variable: reservation.value for reservation in self.held(slug)}
        return {**variables, LIST_VARIABLE: ",".join(variables)} if variables else {}

    def release(self, slug: str, variables: Collection[str] | None = None) -> tuple[Reservation, ...]:
        """Give back what a workstream holds, everything unless `variables` are named. Returns what was given back."""
        return self._drop(lambda each: each.slug == slug and (variables is None or each.variable in variables))

    def release_all_but(self, living: Callable[[], Collection[str]]) -> tuple[Reservation, ...]:
        """Give back what workstreams hold that are no more.

        `living` is asked under the lock: whoever reserves something has registered its workstream before.
        """
        if not self.held():
            return ()
        with self._changing() as held:
            slugs = living()
            return _take_out(held, lambda each: each.project == self._project and each.slug not in slugs)

    def _drop(self, is_unwanted: Callable[[Reservation], bool]) -> tuple[Reservation, ...]:
        with self._changing() as held:
            return _take_out(held, lambda each: each.project == self._project and is_unwanted(each))

    def _reserve(
        self, slug: str, variable: str, kind: str, values: Iterable[str], is_usable: Callable[[str], bool]
    ) -> Reservation:
        slug = sanitize_identifier(slug)
        check_variable(variable)
        with self._changing() as held:
            for reservation in held:
                if (reservation.project, reservation.slug, reservation.variable) == (self._project, slug, variable):
                    if reservation.kind != kind:
                        raise UsageError(f"{variable} of {slug} is a {reservation.kind} already: release it first")
                    return reservation
            # A project that was deleted cannot give back what it held.
            _take_out(held, lambda each: not Path(each.project).is_dir())
            taken = {reservation.value for reservation in held if reservation.kind == kind}
            for value in values:
                if value not in taken and is_usable(value):
                    held.append(Reservation(self._project, slug, variable, kind, value))
                    return held[-1]
        release = Hint.RELEASE.line(slug=next((each.slug for each in held if each.project == self._project), slug))
        raise UsageError(f"no {kind} is left for {variable} of {slug}: release some, as with `{release}`")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[Reservation]]:
        with locked(self._path.with_suffix(".lock")):
            held = _read(self._path)
            before = list(held)
            yield held
            if held != before:
                write_whole(self._path, json.dumps([asdict(reservation) for reservation in held], indent=1))


def check_variable(variable: str) -> None:
    """UsageError unless it can name a reservation: a variable of the environment that means nothing to us."""
    if not _VARIABLE.fullmatch(variable):
        raise UsageError(f"{variable!r} cannot name a reservation: use a variable's name, like WEB_PORT")
    if _NOT_FOR_RESERVATIONS.fullmatch(variable):
        raise UsageError(f"{variable} cannot name a reservation: other programs use it, or it looks like a secret")


def _of(reservations: Iterable[Reservation], slug: str | None) -> Iterator[Reservation]:
    return (reservation for reservation in reservations if slug is None or reservation.slug == slug)


def _take_out(held: list[Reservation], is_unwanted: Callable[[Reservation], bool]) -> tuple[Reservation, ...]:
    taken = tuple(reservation for reservation in held if is_unwanted(reservation))
    held[:] = [reservation for reservation in held if reservation not in taken]
    return taken


def _numbered(stem: str, number: int) -> str:
    suffix = f"_{number}" if number > 1 else ""
    return stem[: _LONGEST_NAME - len(suffix)] + suffix


def _read(path: Path) -> list[Reservation]:
    try:
        return [Reservation(**record) for record in json.loads(path.read_text())]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path} is not readable ({error}): move it away to start over") from error


def _is_free(port: int) -> bool:
    """Whether nobody on this machine has the port, on whatever address."""
    return _can_bind(socket.AF_INET, "0.0.0.0", port) and _can_bind(socket.AF_INET6, "::", port)


def _can_bind(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        probe = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return True  # The machine does not speak this family, so nobody listens there.
    with probe:
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return error.errno == errno.EADDRNOTAVAIL
    return True
