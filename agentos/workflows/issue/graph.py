"""The issue workflow's graph."""

from __future__ import annotations

from agentos.workflows.drafting.graph import build
from agentos.workflows.issue import nodes, offline

offline.register()
graph = build(nodes.KIND, load=nodes.load, context=nodes.context, finalize=nodes.finalize, publish=nodes.publish)
