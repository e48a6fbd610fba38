"""Gathers facts of a cluster for `agentos cluster check`: a process of its own, because it is Ray's driver.

`survey ADDRESS DATABASE_HOST DATABASE_PORT` prints one JSON object.
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
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentos.engine.backends.ray.environment_check import environment_facts
from agentos.engine.backends.ray.findings import ClusterFacts, NodeFacts
from agentos.engine.backends.ray.openness import is_open
from agentos.engine.backends.ray.secrecy import is_encrypted

_NODE_SECONDS = 30.0
_SURVEY_SECONDS = 120.0
_CONNECT_SECONDS = 5.0
_DASHBOARD_PORT = 8265
_DEFAULT_TOKEN = "~/.ray/auth_token"


def answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_SECONDS):
            return True
    except OSError:
        return False


def facts_of_node(database_host: str, database_port: int) -> dict[str, str]:
    """On the node."""
    facts = environment_facts()
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(line for line in lines if line.startswith("MemAvailable"))
        facts["free_memory_mb"] = str(int(available.split()[1]) // 1024)
    with suppress(OSError):
        facts["boot"] = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    if database_host:
        facts["database"] = "reachable" if answers(database_host, database_port) else "unreachable"
    return facts


def survey(
    address: str, database: tuple[str, int], environ: Mapping[str, str], *, database_name: str, database_problem: str
) -> ClusterFacts:
    """From here: what its doors are like, then what its nodes say."""
    host, _, port = address.rpartition(":")
    if not answers(host, int(port)):
        return ClusterFacts(address=address, is_reachable=False)
    nodes, problem = _nodes(address, database, environ)
    return ClusterFacts(
        address=address,
        is_reachable=True,
        is_open=is_open(address, environ),
        has_token=_has_token(environ),
        is_encrypted=is_encrypted(environ),
        is_dashboard_open=_is_dashboard_open(host),
        problem=problem,
        ours=environment_facts(),
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


def _nodes(address: str, database: tuple[str, int], environ: Mapping[str, str]) -> tuple[list[NodeFacts], str]:
    command = [
        sys.executable,
        "-P",
        "-m",
        "agentos.engine.backends.ray.survey",
        address,
        database[0],
        str(database[1]),
    ]
    own = {"RAY_AUTH_MODE": "token", **environ}
    try:
        done = subprocess.run(
            command, env=own, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SURVEY_SECONDS, check=False
        )
        document = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        return [], "it does not answer as a cluster of Ray does"
    return [NodeFacts(**node) for node in document["nodes"]], document["problem"]


def main(arguments: list[str]) -> None:
    address, database_host, database_port = arguments[0], arguments[1], int(arguments[2])
    try:
        document: dict[str, Any] = {"nodes": _ask_nodes(address, database_host, database_port), "problem": ""}
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        document = {"nodes": [], "problem": lines[0] if lines else type(error).__name__}
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
    os._exit(0)


def _ask_nodes(address: str, database_host: str, database_port: int) -> list[dict[str, Any]]:
    import ray  # noqa: PLC0415  Others import this module for what needs no Ray.
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
    ours = facts_of_node("", 0)
    ask = ray.remote(facts_of_node)
    found = []
    for node in [each for each in ray.nodes() if each["Alive"]]:
        name, asked = node.get("NodeName") or node["NodeManagerAddress"], time.time()
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        try:
            reference = ask.options(num_cpus=0, scheduling_strategy=there).remote(database_host, database_port)
            facts, problem = ray.get(reference, timeout=_NODE_SECONDS), ""
        except Exception as error:
            facts, problem = {}, f"it does not answer: {str(error).splitlines()[0]}"
        is_here = facts.get("boot") == ours.get("boot")
        answer = NodeFacts(
            name=name, facts=facts, asked=asked, answered=time.time(), is_here=is_here, problem=problem
        )
        found.append(asdict(answer))
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
