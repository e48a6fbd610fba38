"""The LLD workflow's graph."""

from __future__ import annotations

from agentos.workflows.drafting.graph import build
from agentos.workflows.lld import nodes, offline

offline.register()
graph = build(nodes.KIND, load=nodes.load, digest=nodes.digest, finalize=nodes.finalize)
