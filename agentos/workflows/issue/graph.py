"""The issue workflow's graph."""

from __future__ import annotations

from agentos.workflows.drafting.graph import Publish, build
from agentos.workflows.issue import nodes, offline
from agentos.workflows.issue.filing import is_filing_wanted

offline.register()
graph = build(
    nodes.KIND,
    load=nodes.load,
    context=nodes.context,
    finalize=nodes.finalize,
    publish=Publish(nodes.publish, is_filing_wanted),
)
