"""The issue workflow's graph."""

from __future__ import annotations

from agentos.workflows.drafting.graph import Publish, build
from agentos.workflows.issue import nodes, offline

offline.register()
graph = build(
    nodes.KIND,
    load=nodes.load,
    digest=nodes.digest,
    finalize=nodes.finalize,
    publish=Publish(nodes.publish, nodes.is_filing_wanted),
)
