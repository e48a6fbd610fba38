"""Ports and names that workstreams need for themselves, leased across all projects of this home."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from agentos.errors import UsageError
from agentos.paths import home_dir, project_key
from agentos.workflows.parallel.input_sanitizer import sanitize_identifier
from agentos.workstreams.filelock import locked
from agentos.workstreams.registry import write_whole

DEFAULT_PORTS: Final = range(20_000, 21_000)
# Resource ("port:20000", "name:shop_test_a") to its holder: project key, slug, what it is for.
_Holder: TypeAlias = tuple[str, str, str]


class WorkstreamLeases:
    """What the workstreams of one project hold. A lease lasts until its workstream lets go of everything."""

    def __init__(self, project_dir: Path) -> None:
        self._project = project_key(project_dir)
        self._path = home_dir() / "workstreams" / "leases.json"

    def port(self, slug: str, purpose: str, *, ports: range = DEFAULT_PORTS) -> int:
        """A port nobody else holds or listens on; the same one when asked again. UsageError if none is left."""
        candidates = (f"port:{port}" for port in ports)
        return int(self._lease(slug, purpose, candidates, lambda resource: _can_listen(int(resource[5:])))[5:])

    def name(self, slug: str, purpose: str, *, prefix: str) -> str:
        """A name nobody else holds, such as a database's: the prefix and the slug, with a number if that is taken."""
        stem = f"name:{sanitize_identifier(prefix)}_{sanitize_identifier(slug)}"
        candidates = (stem if number == 1 else f"{stem}_{number}" for number in range(1, 1000))
        return self._lease(slug, purpose, candidates, lambda resource: True)[5:]

    def held_by(self, slug: str) -> dict[str, str]:
        """Purpose to resource."""
        held = _read(self._path)
        return {holder[2]: resource for resource, holder in held.items() if holder[:2] == (self._project, slug)}

    def release(self, slug: str) -> None:
        """Give back everything a workstream holds."""
        with self._changing() as held:
            for resource in [name for name, holder in held.items() if holder[:2] == (self._project, slug)]:
                del held[resource]

    def _lease(self, slug: str, purpose: str, candidates: Iterator[str], is_usable: Callable[[str], bool]) -> str:
        holder = (self._project, sanitize_identifier(slug), purpose)
        with self._changing() as held:
            for resource, other in held.items():
                if other == holder:
                    return resource
            for resource in candidates:
                if resource not in held and is_usable(resource):
                    held[resource] = holder
                    return resource
        raise UsageError(f"no free {purpose} for {slug}: remove workstreams that are done, or allow a wider range")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, _Holder]]:
        with locked(self._path.with_suffix(".lock")):
            held = _read(self._path)
            before = dict(held)
            yield held
            if held != before:
                write_whole(self._path, json.dumps(held, indent=1))


def _read(path: Path) -> dict[str, _Holder]:
    try:
        record = json.loads(path.read_text())
        return {str(resource): (str(a), str(b), str(c)) for resource, (a, b, c) in record.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not readable ({error}): move it away, leases are then made anew") from error


def _can_listen(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
