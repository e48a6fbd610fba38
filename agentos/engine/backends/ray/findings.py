"""What would go wrong on a cluster, from facts that were gathered there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentos.engine.backends.ray.environment_check import clock_offset, differences
from agentos.engine.backends.ray.secrecy import HOW_TO_ENCRYPT
from agentos.engine.backends.ray.token_check import Door

LEAST_MEMORY_MB = 1000
"""Free memory that the first worker of a node should find."""
TOKEN_HELP = "start every node with RAY_AUTH_MODE=token and the same token (`ray get-auth-token --generate`)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`level` is `ok`, `warning` or `error`."""

    level: str
    what: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What one node said of itself."""

    name: str
    facts: Mapping[str, str]
    asked: float
    answered: float
    is_here: bool
    problem: str = ""
    """Why it said nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    address: str
    is_reachable: bool
    door: Door = Door.UNKNOWN
    has_token: bool = False
    is_encrypted: bool = False
    is_dashboard_open: bool = False
    problem: str = ""
    """Why it cannot be joined."""
    ours: Mapping[str, str] = field(default_factory=dict)
    nodes: Sequence[NodeFacts] = ()
    database: str = ""
    """Its name; empty for files under AGENTOS_HOME."""
    database_problem: str = ""


def findings(facts: ClusterFacts) -> list[Finding]:
    """In the order of what to mend first."""
    if not facts.is_reachable:
        text = f"nothing answers at {facts.address}. Is the head running, and is its port open to this machine?"
        return [Finding(level="error", what="address", text=text)]
    found = [*_of_doors(facts), *_of_database(facts)]
    if facts.problem:
        return [*found, Finding(level="error", what="cluster", text=f"cannot be joined: {facts.problem}")]
    for node in facts.nodes:
        found += _of_node(node, facts.ours)
    return found


def _of_doors(facts: ClusterFacts) -> Iterator[Finding]:
    match facts.door:
        case Door.OPEN:
            text = f"the port {facts.address} lets anybody in, who can then run code there: {TOKEN_HELP}"
            yield Finding(level="error", what="open port", text=text)
        case Door.GUARDED:
            yield Finding(level="ok", what="open port", text=f"{facts.address} asks for a token")
        case Door.UNKNOWN:
            text = f"{facts.address} does not say whether it asks for a token; try again"
            yield Finding(level="error", what="open port", text=text)
    if not facts.has_token:
        text = "there is none here: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
        yield Finding(level="error", what="token", text=text)
    if facts.is_dashboard_open:
        yield Finding(level="error", what="open port", text="Ray's dashboard (8265) answers without a token")
    elsewhere = [node.name for node in facts.nodes if not node.is_here]
    if facts.is_encrypted:
        yield Finding(level="ok", what="encryption", text="Ray's TLS is on")
    elif elsewhere:
        text = f"connections are plain: no password goes to {', '.join(elsewhere)}. To change that, {HOW_TO_ENCRYPT}"
        yield Finding(level="warning", what="encryption", text=text)


def _of_database(facts: ClusterFacts) -> Iterator[Finding]:
    elsewhere = [node for node in facts.nodes if not node.is_here]
    if facts.database_problem:
        yield Finding(level="error", what="database", text=facts.database_problem)
    elif facts.database:
        yield Finding(level="ok", what="database", text=f"{facts.database} answers")
    elif elsewhere:
        text = "checkpoints are files of this machine, which other nodes cannot use: set [checkpoints] url"
        yield Finding(level="error", what="database", text=text)


def _of_node(node: NodeFacts, ours: Mapping[str, str]) -> list[Finding]:
    if node.problem:
        return [Finding(level="error", what=node.name, text=node.problem)]
    found = []
    if wrong := differences(ours, node.facts):
        found.append(Finding(level="error", what=node.name, text=f"its Python differs: {'; '.join(wrong)}"))
    if (offset := clock_offset(node.asked, node.facts, node.answered)) is not None:
        found.append(Finding(level="error", what=node.name, text=f"its clock is off by {offset:+.0f} s"))
    free = int(node.facts.get("free_memory_mb", LEAST_MEMORY_MB))
    if free < LEAST_MEMORY_MB:
        text = f"only {free} MB of memory are free; a node should have {LEAST_MEMORY_MB}"
        found.append(Finding(level="warning", what=node.name, text=text))
    if node.facts.get("database") == "unreachable":
        found.append(Finding(level="error", what=node.name, text="it does not reach the database"))
    return found or [Finding(level="ok", what=node.name, text=_summary(node.facts))]


def _summary(facts: Mapping[str, str]) -> str:
    return f"Python {facts['python']}, Ray {facts['ray']}, {facts.get('free_memory_mb', '?')} MB of memory free"


def why_not_joined(said: str) -> str:
    """What Ray says of a cluster that it cannot join, with what to do.

    It says the same of a head that is not there and of a token that is not the right one.
    """
    if said.startswith("Failed to connect"):
        return f"{said}. Is its head running, is a node of it running here, is RAY_AUTH_TOKEN the cluster's?"
    if said.startswith("Token authentication is enabled but no"):
        return "there is no token here. Copy ~/.ray/auth_token from its head, or set RAY_AUTH_TOKEN"
    return said


def as_document(found: Sequence[Finding]) -> dict[str, Any]:
    return {
        "is_usable": all(each.level != "error" for each in found),
        "findings": [{"level": each.level, "what": each.what, "text": each.text} for each in found],
    }
