"""Gathers facts of a cluster for `agentos cluster check`: a process of its own, because it is Ray's driver.

`survey ADDRESS DATABASE_HOST DATABASE_PORT [make]` prints one JSON object; with `make`, Ray makes our Python
environment on nodes first.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentos.engine.backends.ray.environment_check import environment_facts
from agentos.engine.backends.ray.findings import ClusterFacts, NodeFacts, why_not_joined
from agentos.engine.backends.ray.made_environment import compared_packages, could_not_make, runtime_env
from agentos.engine.backends.ray.same_machine import identity_of
from agentos.engine.backends.ray.secrecy import is_encrypted
from agentos.engine.backends.ray.token_check import door_of

_NODE_SECONDS = 30.0
_SURVEY_SECONDS = 120.0
_MAKING_SECONDS = 600.0
"""More, for each, when environments are made."""
_CONNECT_SECONDS = 5.0
_DASHBOARD_PORT = 8265
_DEFAULT_TOKEN = "~/.ray/auth_token"


def answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_SECONDS):
            return True
    except OSError:
        return False


def facts_of_node(
    database_host: str, database_port: int, among: list[str] | None, asking_folder: str
) -> dict[str, str]:
    """On the node. The folder is one that whoever asks has on its disk."""
    facts = environment_facts(among)
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(line for line in lines if line.startswith("MemAvailable"))
        facts["free_memory_mb"] = str(int(available.split()[1]) // 1024)
    facts["asking_folder"] = identity_of(asking_folder)
    if database_host:
        facts["database"] = "reachable" if answers(database_host, database_port) else "unreachable"
    return facts


def survey(
    address: str,
    database: tuple[str, int],
    environ: Mapping[str, str],
    *,
    makes_environment: bool,
    database_name: str,
    database_problem: str,
) -> ClusterFacts:
    """From here: what its doors are like, then what its nodes say."""
    host, _, port = address.rpartition(":")
    if not answers(host, int(port)):
        return ClusterFacts(address=address, is_reachable=False)
    nodes, problem = _nodes(address, database, environ, makes_environment=makes_environment)
    return ClusterFacts(
        address=address,
        is_reachable=True,
        door=door_of(address, environ),
        has_token=_has_token(environ),
        is_encrypted=is_encrypted(environ),
        is_dashboard_open=_is_dashboard_open(host),
        problem=problem,
        ours=environment_facts(compared_packages(makes_environment=makes_environment)),
        nodes=nodes,
        database=database_name,
        database_problem=database_problem,
    )


def _has_token(environ: Mapping[str, str]) -> bool:
    named = environ.get("RAY_AUTH_TOKEN") or environ.get("RAY_AUTH_TOKEN_PATH")
    return bool(named) or Path(_DEFAULT_TOKEN).expanduser().exists()


def _is_dashboard_open(host: str) -> bool:
    try:
        with socket.create_connection((host, _DASHBOARD_PORT), timeout=_CONNECT_SECONDS) as connection:
            connection.settimeout(_CONNECT_SECONDS)
            connection.sendall(f"GET /api/version HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            return b" 200 " in connection.recv(100)
    except OSError:
        return False


def _nodes(
    address: str, database: tuple[str, int], environ: Mapping[str, str], *, makes_environment: bool
) -> tuple[list[NodeFacts], str]:
    command = [
        sys.executable,
        "-P",
        "-m",
        "agentos.engine.backends.ray.survey",
        address,
        database[0],
        str(database[1]),
        *(["make"] if makes_environment else []),
    ]
    own = {"RAY_AUTH_MODE": "token", **environ}
    try:
        done = subprocess.run(
            command,
            env=own,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SURVEY_SECONDS + (_MAKING_SECONDS if makes_environment else 0.0),
            check=False,
        )
        document = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        return [], "it does not answer like a Ray cluster"
    return [NodeFacts(**node) for node in document["nodes"]], document["problem"]


def main(arguments: list[str]) -> None:
    address, database_host, database_port = arguments[0], arguments[1], int(arguments[2])
    try:
        nodes = _ask_nodes(address, database_host, database_port, makes_environment=arguments[3:] == ["make"])
        document: dict[str, Any] = {"nodes": nodes, "problem": ""}
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        document = {"nodes": [], "problem": why_not_joined(lines[0]) if lines else type(error).__name__}
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
    os._exit(0)


def _ask_nodes(
    address: str, database_host: str, database_port: int, *, makes_environment: bool
) -> list[dict[str, Any]]:
    import ray  # noqa: PLC0415  Others import this module for what needs no Ray.
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    with TemporaryDirectory() as folder:
        ray.init(
            address=address,
            runtime_env=runtime_env(Path(folder)) if makes_environment else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=False,
        )
    compared = compared_packages(makes_environment=makes_environment)
    deadline = time.monotonic() + _NODE_SECONDS + (_MAKING_SECONDS if makes_environment else 0.0)
    ask = ray.remote(facts_of_node)
    asked: dict[Any, NodeFacts] = {}
    # Its name is nowhere else: a node that finds it has our disk.
    with TemporaryDirectory() as folder:
        here = identity_of(folder)
        for node in [each for each in ray.nodes() if each["Alive"]]:
            there = ask.options(
                num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            )
            name, now = node.get("NodeName") or node["NodeManagerAddress"], time.time()
            reference = there.remote(database_host, database_port, compared, folder)
            asked[reference] = NodeFacts(name=name, facts={}, asked=now, answered=now, is_here=False)
        found, waiting = [], list(asked)
        while waiting:
            done, waiting = ray.wait(waiting, timeout=max(0.0, deadline - time.monotonic()))
            for reference in done or waiting:
                facts, problem = _answer(reference)
                found.append(
                    replace(
                        asked[reference],
                        facts=facts,
                        answered=time.time(),
                        is_here=facts.get("asking_folder") == here,
                        problem=problem,
                    )
                )
            waiting = waiting if done else []
    return [asdict(each) for each in sorted(found, key=lambda each: each.name)]


def _answer(reference: Any) -> tuple[dict[str, str], str]:
    """What a node has said by now, and why if it has said nothing."""
    import ray  # noqa: PLC0415  Others import this module for what needs no Ray.

    try:
        return ray.get(reference, timeout=0), ""
    except ray.exceptions.RuntimeEnvSetupError as error:
        return {}, could_not_make(error)
    except ray.exceptions.GetTimeoutError:
        return {}, "it does not answer in time"
    except Exception as error:
        return {}, f"it does not answer: {str(error).splitlines()[0]}"


if __name__ == "__main__":
    main(sys.argv[1:])
