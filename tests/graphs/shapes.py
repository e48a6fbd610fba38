"""Graphs in the shapes that people publish, written anew: small, without a network, the same for the same input.

`SHAPES` says what each is called and what its items are. Nodes call `step`, where a test can hold and kill them.
"""

# ruff: noqa: E731
from __future__ import annotations

import asyncio
import contextlib
import itertools
import operator
import os
import signal
import sqlite3
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar
from zoneinfo import ZoneInfo

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig, RunnableLambda, RunnableParallel
from langchain_core.tools import StructuredTool, tool
from langgraph.cache.memory import InMemoryCache
from langgraph.channels import EphemeralValue, LastValue
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph, add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.pregel import NodeBuilder, Pregel
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import CachePolicy, Command, RetryPolicy, Send, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

_steps = itertools.count(1)
"""Of this process, which is one item's. Counting is one operation: steps may be taken side by side."""


def step() -> None:
    """Where a test may hold an item, or kill its process once: at its second step."""
    if next(_steps) != 2:
        return
    if hold := os.environ.get("SHAPES_HOLD"):
        folder = Path(hold)
        (folder / os.environ["AGENTOS_ITEM_ID"]).touch()
        while not (folder / "go").exists():
            time.sleep(0.01)
    if kill := os.environ.get("SHAPES_KILL"):
        mark = Path(kill, os.environ["AGENTOS_ITEM_ID"])
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


class FakeModel(BaseChatModel):
    """Answers the last message by a rule; asks for a tool when it is told to `use TOOL ARGUMENT`."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    @property
    def _llm_type(self) -> str:
        return "fake"

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        last = messages[-1]
        words = str(last.content).split()
        if isinstance(last, HumanMessage) and words[:1] == ["use"]:
            call = {"name": words[1], "args": {"query": " ".join(words[2:])}, "id": f"call-{len(messages)}"}
            reply = AIMessage("", tool_calls=[call])
        else:
            reply = AIMessage(f"re: {last.content}")
        reply.usage_metadata = {"input_tokens": len(words), "output_tokens": 2, "total_tokens": len(words) + 2}
        return ChatResult(generations=[ChatGeneration(message=reply)])


model = FakeModel()


class Work(TypedDict, total=False):
    topic: str
    draft: str
    score: int
    parts: Annotated[list[str], operator.add]
    rounds: int


def chain(schema: Any, *nodes: Callable[..., Any], **options: Any) -> Any:
    graph = StateGraph(schema, **options)
    names = [node.__name__ for node in nodes]
    for node in nodes:
        graph.add_node(node.__name__, node)
    for start, end in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(start, end)
    return graph


def outline(state: Work) -> Work:
    step()
    return {"draft": f"outline of {state['topic']}"}


def expand(state: Work) -> Work:
    step()
    return {"draft": f"{state['draft']}, expanded", "parts": ["expand"]}


def polish(state: Work) -> Work:
    step()
    return {"draft": f"{state['draft']}, polished", "parts": ["polish"]}


prompt_chain = chain(Work, outline, expand, polish)
compiled_chain = prompt_chain.compile(name="compiled")

# A router, with a map and without one.
_router = StateGraph(Work)
_router.add_node("triage", outline)
_router.add_node("short", expand)
_router.add_node("long", polish)
_router.add_edge(START, "triage")
_router.add_conditional_edges("triage", lambda s: len(s["topic"]) > 2, {True: "long", False: "short"})
router = _router.compile()

_entry = StateGraph(Work)
_entry.add_node("short", lambda s: (step(), {"draft": "s", "parts": ["short"]})[1])
_entry.add_node("after", polish)
_entry.set_conditional_entry_point(lambda s: "short" if s["topic"] else "after")
_entry.add_edge("short", "after")
conditional_entry = _entry.compile()


def part(name: str) -> Callable[[Work], Work]:
    def node(state: Work) -> Work:
        step()
        return {"parts": [f"{name} of {state['topic']}"]}

    return node


_fan = StateGraph(Work)
for _name in ("facts", "jokes", "poems"):
    _fan.add_node(_name, part(_name))
    _fan.add_edge(START, _name)
_fan.add_node("join", lambda s: {"draft": " | ".join(sorted(s["parts"]))})
_fan.add_edge(["facts", "jokes", "poems"], "join")
fan_out = _fan.compile()

_deferred = StateGraph(Work)
_deferred.add_node("a", part("a"))
_deferred.add_node("b", part("b"))
_deferred.add_node("b2", part("b2"))
_deferred.add_node("join", lambda s: {"draft": "+".join(s["parts"])}, defer=True)
_deferred.add_edge(START, "a")
_deferred.add_edge(START, "b")
_deferred.add_edge("b", "b2")
_deferred.add_edge("a", "join")
_deferred.add_edge("b2", "join")
deferred_join = _deferred.compile()


def write_section(state: dict[str, Any]) -> Work:
    step()
    return {"parts": [f"section {state['section']}"]}


def plan_sections(state: Work) -> list[Send]:
    return [Send("write_section", {"section": f"{state['topic']}{n}"}) for n in range(3)]


_orchestrator = StateGraph(Work)
_orchestrator.add_node("plan", outline)
_orchestrator.add_node("write_section", write_section)
_orchestrator.add_node("assemble", lambda s: {"draft": "; ".join(s["parts"])})
_orchestrator.add_edge(START, "plan")
_orchestrator.add_conditional_edges("plan", plan_sections, ["write_section"])
_orchestrator.add_edge("write_section", "assemble")
orchestrator = _orchestrator.compile()

_map = StateGraph(Work)
_map.add_node("write_section", write_section)
_map.add_node("reduce", lambda s: (step(), {"score": len(s["parts"])})[1])
_map.add_conditional_edges(START, plan_sections, ["write_section"])
_map.add_edge("write_section", "reduce")
map_reduce = _map.compile()


def generate(state: Work) -> Work:
    step()
    return {"draft": f"try {state.get('rounds', 0)}", "rounds": state.get("rounds", 0) + 1}


def grade(state: Work) -> Work:
    step()
    return {"score": state["rounds"]}


_loop = StateGraph(Work)
_loop.add_node("generate", generate)
_loop.add_node("grade", grade)
_loop.add_edge(START, "generate")
_loop.add_edge("generate", "grade")
_loop.add_conditional_edges("grade", lambda s: END if s["score"] >= 3 else "generate")
evaluator_optimizer = _loop.compile()
reflection = _loop.compile().with_config(recursion_limit=20)


@tool
def search(query: str) -> str:
    """Look something up."""
    step()
    return f"found {query}"


async def _search_async(query: str) -> str:
    step()
    await asyncio.sleep(0)
    return f"awaited {query}"


async_search = StructuredTool.from_function(coroutine=_search_async, name="search", description="Look it up.")


def call_model(state: MessagesState) -> dict[str, Any]:
    step()
    return {"messages": [model.invoke(state["messages"])]}


def agent_with(tools: list[Any]) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("agent", call_model)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    return graph


react_agent = agent_with([search]).compile()
mcp_agent = agent_with([async_search]).compile()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from langgraph.prebuilt import create_react_agent

    prebuilt_agent = create_react_agent(model, [search])


# A supervisor that hands work out, and workers that hand it back.
def supervise(state: Work) -> Command[Any]:
    step()
    done = state.get("rounds", 0)
    to = ["researcher", "writer"][done] if done < 2 else END
    return Command(goto=to, update={"rounds": done + 1})


def hand_back(name: str) -> Callable[[Work], Command[Any]]:
    return lambda _state: (step(), Command(goto="supervisor", update={"parts": [name]}))[1]


_supervisor = StateGraph(Work)
_supervisor.add_node("supervisor", supervise, destinations=("researcher", "writer", END))
_supervisor.add_node("researcher", hand_back("researcher"), destinations=("supervisor",))
_supervisor.add_node("writer", hand_back("writer"), destinations=("supervisor",))
_supervisor.add_edge(START, "supervisor")
supervisor = _supervisor.compile()


def hand_over(to: str) -> Callable[[Work], Command[Any]]:
    return lambda _s: (step(), Command(goto=to, graph=Command.PARENT, update={"parts": [f"to {to}"]}))[1]


def _member(name: str, node: Callable[..., Any]) -> Any:
    graph = StateGraph(Work)
    graph.add_node(f"{name}_work", node)
    graph.add_edge(START, f"{name}_work")
    return graph.compile(name=name)


_swarm = StateGraph(Work)
_swarm.add_node("alice", _member("alice", hand_over("bob")), destinations=("bob",))
_swarm.add_node("bob", _member("bob", part("bob")))
_swarm.add_edge(START, "alice")
swarm = _swarm.compile()

_leaver = StateGraph(Work)
_leaver.add_node("work", part("carol"))
_leaver.add_node("leave", hand_over("bob"))
_leaver.add_edge(START, "work")
_leaver.add_edge("work", "leave")
_handoff = StateGraph(Work)
_handoff.add_node("carol", _leaver.compile(), destinations=("bob",))
_handoff.add_node("bob", part("bob"))
_handoff.add_edge(START, "carol")
handoff = _handoff.compile()

# Subgraphs: shared state, other state, nested, in parallel.
_inner = chain(Work, outline, expand).compile()
_middle = StateGraph(Work)
_middle.add_node("deep", _inner)
_middle.add_node("shallow", polish)
_middle.add_edge(START, "deep")
_middle.add_edge("deep", "shallow")
_team = _middle.compile()


def _around(name: str, graph: Any) -> Any:
    outer = StateGraph(Work)
    outer.add_node(name, graph)
    outer.add_node("end", part("end"))
    outer.add_edge(START, name)
    outer.add_edge(name, "end")
    return outer.compile()


subgraph = _around("team", _inner)
nested_subgraphs = _around("department", _team)


class Other(TypedDict, total=False):
    question: str
    answer: str


def answer(state: Other) -> Other:
    step()
    return {"answer": f"answer to {state['question']}"}


_expert = chain(Other, answer).compile()


def ask_expert(state: Work) -> Work:
    step()
    return {"draft": _expert.invoke({"question": state["topic"]})["answer"]}


subgraph_in_node = chain(Work, ask_expert, polish).compile()


def remember(state: Work) -> Work:
    step()
    return {"parts": ["memory"]}


def forget(state: Work) -> Work:
    return {"parts": ["no memory"]}


_remembering = chain(Work, remember).compile(checkpointer=True)
_forgetting = chain(Work, forget).compile(checkpointer=False)


def recall(state: Work) -> Work:
    known = [len(each.invoke({"topic": state["topic"]})["parts"]) for each in (_remembering, _forgetting)]
    return {"score": known[0], "parts": [f"{known}"]}


_recalling = StateGraph(Work)
_recalling.add_node("recall", recall)
_recalling.add_edge(START, "recall")
_recalling.add_conditional_edges("recall", lambda s: END if s["score"] > 2 else "recall")
own_histories = _recalling.compile()


class Interview(TypedDict, total=False):
    who: str
    turns: Annotated[list[str], operator.add]
    parts: Annotated[list[str], operator.add]


_interview = StateGraph(Interview)
_interview.add_node("ask", lambda s: (step(), {"turns": [f"{s['who']}?"]})[1])
_interview.add_node("tell", lambda s: {"parts": [f"{s['who']}: {len(s['turns'])}"]})
_interview.add_edge(START, "ask")
_interview.add_conditional_edges("ask", lambda s: "tell" if len(s["turns"]) > 1 else "ask")
_storm = StateGraph(Work)
_storm.add_node("interview", _interview.compile())
_storm.add_node("report", lambda s: (step(), {"draft": "\n".join(sorted(s["parts"]))})[1])
_storm.add_conditional_edges(START, lambda s: [Send("interview", {"who": f"{s['topic']}-{n}"}) for n in "ab"])
_storm.add_edge("interview", "report")
parallel_interviews = _storm.compile()


# Plan and execute; Reflexion; tree search.
class Plan(TypedDict, total=False):
    topic: str
    plan: list[str]
    past: Annotated[list[tuple[str, str]], operator.add]
    response: str


def make_plan(state: Plan) -> Plan:
    step()
    return {"plan": [f"{state['topic']} {n}" for n in (1, 2)]}


def execute(state: Plan) -> Plan:
    step()
    return {"past": [(state["plan"][0], "done")]}


def replan(state: Plan) -> Plan:
    step()
    rest = state["plan"][1:]
    return {"plan": rest} if rest else {"plan": [], "response": f"{len(state['past'])} steps"}


_plan = StateGraph(Plan)
for _node in (make_plan, execute, replan):
    _plan.add_node(_node.__name__, _node)
_plan.add_edge(START, "make_plan")
_plan.add_edge("make_plan", "execute")
_plan.add_edge("execute", "replan")
_plan.add_conditional_edges("replan", lambda s: END if s.get("response") else "execute")
plan_and_execute = _plan.compile()


def revise(state: MessagesState) -> dict[str, Any]:
    step()
    return {"messages": [model.invoke([SystemMessage("critic"), *state["messages"]])]}


_reflexion = StateGraph(MessagesState)
_reflexion.add_node("draft", call_model)
_reflexion.add_node("revise", revise)
_reflexion.add_edge(START, "draft")
_reflexion.add_edge("draft", "revise")
_reflexion.add_conditional_edges("revise", lambda s: END if len(s["messages"]) > 4 else "revise")
reflexion = _reflexion.compile()


class Tree(TypedDict, total=False):
    topic: str
    candidates: Annotated[list[list[Any]], operator.add]
    depth: int


_tree = StateGraph(Tree)
_tree.add_node("root", lambda s: (step(), {"depth": 1, "candidates": [[0, s["topic"]]]})[1])
_tree.add_node("expand", lambda s: (step(), {"candidates": [[s["n"], f"{s['base']}.{s['n']}"]]})[1])
_tree.add_node("score", lambda s: {"depth": s["depth"] + 1})
_tree.add_edge(START, "root")
_grow = lambda s: [Send("expand", {"n": n, "base": max(s["candidates"])[1]}) for n in (1, 2)]
_tree.add_conditional_edges("root", _grow, ["expand"])
_tree.add_edge("expand", "score")
_tree.add_conditional_edges("score", lambda s: END if s["depth"] > 2 else _grow(s), ["expand", END])
tree_search = _tree.compile()

# Retrieval: a store filled at import, graded documents, a rewritten question.
LIBRARY = [Document(f"about {word}", metadata={"word": word}) for word in ("a0", "a1", "a2", "bees")]


class Rag(TypedDict, total=False):
    question: str
    documents: list[Document]
    generation: str
    tries: int


def retrieve(state: Rag) -> Rag:
    step()
    return {"documents": [d for d in LIBRARY if d.metadata["word"] in state["question"]]}


def rewrite(state: Rag) -> Rag:
    step()
    return {"question": f"{state['question']} bees", "tries": state.get("tries", 0) + 1}


def write_answer(state: Rag) -> Rag:
    step()
    return {"generation": " and ".join(d.page_content for d in state["documents"])}


def rag_graph(first: str) -> Any:
    graph = StateGraph(Rag)
    for node in (retrieve, rewrite, write_answer):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, first)
    graph.add_conditional_edges("retrieve", lambda s: "write_answer" if s["documents"] else "rewrite")
    graph.add_edge("rewrite", "retrieve")
    graph.add_edge("write_answer", END)
    return graph.compile()


agentic_rag = rag_graph("retrieve")
corrective_rag = rag_graph("rewrite")
_adaptive = StateGraph(Rag)
_adaptive.add_node("web", lambda s: (step(), {"documents": [Document(f"web on {s['question']}")]})[1])
_adaptive.add_node("retrieve", retrieve)
_adaptive.add_node("write_answer", write_answer)
_adaptive.add_conditional_edges(START, lambda s: "web" if "web" in s["question"] else "retrieve")
_adaptive.add_edge("web", "write_answer")
_adaptive.add_edge("retrieve", "write_answer")
adaptive_rag = _adaptive.compile()


def query_database(state: Rag) -> Rag:
    step()
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE words AS SELECT ? AS word", (state["question"],))
        [(found,)] = database.execute("SELECT upper(word) FROM words").fetchall()
    return {"generation": found}


sql_agent = chain(Rag, query_database, rewrite).compile()


# Conversations: summaries that remove messages, content blocks, memory of users.
def summarize(state: MessagesState) -> dict[str, Any]:
    step()
    old = [RemoveMessage(id=m.id) for m in state["messages"][:-1]]
    return {"messages": [*old, AIMessage(f"{len(old)} summed up", id="sum")]}


summarizing_chat = chain(MessagesState, call_model, summarize).compile()


def see_image(state: MessagesState) -> dict[str, Any]:
    step()
    blocks = [{"type": "text", "text": "a cat"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]
    return {"messages": [HumanMessage(blocks), ToolMessage("seen", tool_call_id="c1")]}


multimodal = chain(MessagesState, see_image, call_model).compile()
memory = InMemoryStore()
memory.put(("users",), "all", {"name": "Ada"})


def remember(state: Work, runtime: Runtime[Any]) -> Work:
    step()
    assert runtime.store is not None
    runtime.store.put(("topics", state["topic"]), "seen", {"yes": True})
    known = runtime.store.get(("users",), "all")
    return {"draft": f"{known.value['name'] if known else 'nobody'} on {state['topic']}"}


def recall(state: Work, runtime: Runtime[Any]) -> Work:
    step()
    assert runtime.store is not None
    return {"score": len(runtime.store.search(("topics", state["topic"])))}


own_store = chain(Work, remember, polish).compile(store=memory)
asks_for_store = chain(Work, remember, recall).compile()


# Functional graphs.
@task
def double(number: int) -> int:
    step()
    return number * 2


@entrypoint()
def functional(number: int) -> dict[str, Any]:
    first = double(number).result()
    return {"sum": first + double(first).result()}


@task
async def double_async(number: int) -> int:
    step()
    await asyncio.sleep(0)
    return number * 2


@entrypoint()
async def functional_async(numbers: list[int]) -> list[int]:
    return list(await asyncio.gather(*(double_async(n) for n in numbers)))


@entrypoint()
def functional_final(number: int, *, previous: int | None = None) -> entrypoint.final[int, int]:
    total = double(number).result() + double(1).result()
    return entrypoint.final(value=total, save=number)


# States of every kind, and graphs that take no state.
class Typed(BaseModel):
    topic: str
    parts: Annotated[list[str], operator.add] = []


def typed_one(state: Typed) -> dict[str, Any]:
    step()
    return {"parts": [state.topic.upper()]}


def typed_two(state: Typed) -> dict[str, Any]:
    step()
    return {"parts": [str(len(state.parts))]}


pydantic_state = chain(Typed, typed_one, typed_two).compile()


@dataclass
class Held:
    topic: str
    parts: Annotated[list[str], operator.add] = field(default_factory=list)


dataclass_state = chain(Held, typed_one, typed_two).compile()


def count_all(words: list[str]) -> list[str]:
    step()
    return [str(len(words))]


def repeat_first(words: list[str]) -> list[str]:
    step()
    return words[:1]


list_root = chain(
    Annotated[list[str], operator.add],
    count_all,
    repeat_first,
).compile()


def reply_to_list(messages: list[AnyMessage]) -> AnyMessage:
    step()
    return AIMessage(f"re: {messages[-1].content}", id=f"re-{len(messages)}")


message_list = chain(Annotated[list[AnyMessage], add_messages], reply_to_list).compile()


# Values that LangGraph's own format would change: a node after a resume must not notice.
class Place(BaseModel):
    city: str

    class Door(BaseModel):
        number: int = 1


class ExactPlace(Place):
    street: str = "High Street"


class Trip(BaseModel):
    to: Place
    seats: int = 1


T = TypeVar("T")


class Ticket(BaseModel, Generic[T]):
    number: T


class Luggage(TypedDict, total=False):
    topic: str
    bag: dict[str, Any]
    seen: list[str]


def pack(state: Luggage) -> Luggage:
    step()
    counted = Counter(state["topic"])
    trip = Trip(to=ExactPlace(city=state["topic"]))
    door, ticket = Place.Door(number=2), Ticket[int](number=3)
    return {"bag": {"pair": (1, 2), "counted": counted, "door": door, "trip": trip, "ticket": ticket}}


def unpack(state: Luggage) -> Luggage:
    step()
    return {"seen": [f"{name}: {value!r}" for name, value in sorted(state["bag"].items())]}


odd_values = chain(Luggage, pack, unpack).compile()


# Values that LangGraph's own format gives back equal, and yet not as they were.
class Booking(TypedDict, total=False):
    topic: str
    leaves: datetime
    trip: Trip
    seen: list[str]


def book(state: Booking) -> Booking:
    step()
    return {
        "leaves": datetime(2026, 7, 1, tzinfo=ZoneInfo("Europe/Berlin")),
        "trip": Trip(to=Place(city=state["topic"])),
    }


def rebook(state: Booking) -> Booking:
    step()
    in_winter = state["leaves"] + timedelta(days=180)
    return {"seen": [in_winter.isoformat(), str(state["trip"].model_dump(exclude_unset=True))]}


equal_values = chain(Booking, book, rebook).compile()


class Asked(TypedDict):
    topic: str


class Told(TypedDict):
    draft: str


class Secret(TypedDict):
    hidden: str


def hide(state: Asked) -> Secret:
    step()
    return {"hidden": f"secret {state['topic']}"}


def reveal(state: Secret) -> Told:
    step()
    return {"draft": state["hidden"].upper()}


private_state = chain(Work, hide, reveal, input_schema=Asked, output_schema=Told).compile()
raw_pregel: Any = Pregel(
    nodes={
        "one": NodeBuilder().subscribe_only("a").do(lambda x: (step(), x + x)[1]).write_to("b"),
        "two": NodeBuilder().subscribe_only("b").do(lambda x: (step(), x + "!")[1]).write_to("c"),
    },
    channels={"a": EphemeralValue(str), "b": EphemeralValue(str), "c": LastValue(str)},
    input_channels=["a"],
    output_channels=["c"],
)


# Settings: context with defaults, configurable fields, retries, caches.
@dataclass
class Context:
    tone: str = "plain"


def speak(state: Work, config: RunnableConfig, runtime: Runtime[Context]) -> Work:
    step()
    return {"draft": f"{runtime.context.tone} {config['configurable'].get('voice')} {state['topic']}"}


context_defaults = chain(Work, speak, polish, context_schema=Context).compile()
configured = chain(Work, speak, polish, context_schema=Context).compile().with_config(configurable={"voice": "low"})
_tries: dict[str, int] = {}


def flaky(state: Work) -> Work:
    step()
    _tries[state["topic"]] = _tries.get(state["topic"], 0) + 1
    if _tries[state["topic"]] % 2:
        raise ConnectionError("once in a while")
    return {"draft": "after a retry"}


_retrying = StateGraph(Work)
_retrying.add_node("flaky", flaky, retry_policy=RetryPolicy(initial_interval=0.01, max_attempts=3))
_retrying.add_edge(START, "flaky")
retrying = _retrying.compile()
_cached = StateGraph(Work)
_cached.add_node("costly", generate, cache_policy=CachePolicy(key_func=lambda s: b"same"))
_cached.add_node("polish", polish)
_cached.add_edge(START, "costly")
_cached.add_edge("costly", "polish")
cached = _cached.compile(cache=InMemoryCache())


# Awaited and streaming nodes, runnables as nodes.
async def research(state: Work) -> Work:
    step()
    await asyncio.sleep(0)
    return {"draft": f"awaited {state['topic']}"}


async def edit(state: Work) -> Work:
    step()
    get_stream_writer()({"editing": state["draft"]})
    return {"parts": [state["draft"]]}


async_nodes = chain(Work, research, edit).compile()


def stream_progress(state: Work) -> Work:
    step()
    for share in (50, 100):
        get_stream_writer()({"percent": share})
    return {"score": 100}


streaming = chain(Work, stream_progress, outline).compile()


def stream_from_threads(state: Work) -> Work:
    step()
    write = get_stream_writer()
    with ThreadPoolExecutor(2) as threads:
        return {"parts": list(threads.map(lambda n: write({"part": n}) or f"part {n}", range(3)))}


streaming_threads = chain(Work, stream_from_threads, outline).compile()
_runnables = StateGraph(Work)
_both = RunnableParallel(draft=RunnableLambda(lambda s: (step(), s["topic"].title())[1]), score=lambda s: 7)
_runnables.add_node("both", _both)
_runnables.add_node("polish", polish)
_runnables.add_edge(START, "both")
_runnables.add_edge("both", "polish")
runnables = _runnables.compile()


# Factories.
def make_graph() -> Any:
    return chain(Work, outline, expand)


def make_configured(config: RunnableConfig) -> Any:
    suffix = config.get("configurable", {}).get("suffix", "none")

    def finish(state: Work) -> Work:
        step()
        return {"parts": [suffix]}

    return chain(Work, outline, finish).compile()


async def make_async() -> Any:
    await asyncio.sleep(0)
    return chain(Work, outline, expand).compile()


@contextlib.asynccontextmanager
async def make_connected(config: RunnableConfig) -> AsyncIterator[Any]:
    connection = ["open"]

    async def use(state: Work) -> Work:
        step()
        return {"parts": list(connection)}

    yield chain(Work, outline, use).compile()
    connection.clear()


@contextlib.contextmanager
def make_held() -> Iterator[Any]:
    yield chain(Work, outline, expand).compile()


def confirm(state: Work) -> Work:
    step()
    return {"parts": [interrupt({"sure about": state["draft"]})]}


asks_a_person = chain(Work, outline, confirm).compile()


def topics(number: int) -> Any:
    return {"topic": f"a{number}"}


def questions(number: int) -> Any:
    return {"question": f"what is a{number}?"}


def messages(number: int) -> Any:
    return {"messages": [{"role": "user", "content": f"use search a{number}", "id": "m1"}]}


def plain_messages(number: int) -> Any:
    return {"messages": [{"role": "user", "content": f"hello {number}", "id": "m1"}]}


SHAPES: dict[str, Callable[[int], Any]] = {
    **dict.fromkeys(
        [
            "prompt_chain", "compiled_chain", "router", "conditional_entry", "fan_out", "deferred_join",
            "orchestrator", "map_reduce", "evaluator_optimizer", "reflection", "supervisor", "swarm",
            "handoff", "subgraph", "nested_subgraphs", "subgraph_in_node", "own_histories", "parallel_interviews",
            "plan_and_execute", "tree_search", "own_store", "asks_for_store", "pydantic_state", "dataclass_state",
            "private_state", "context_defaults", "configured", "retrying", "cached", "async_nodes", "streaming",
            "runnables", "streaming_threads", "odd_values", "equal_values",
            "make_graph", "make_configured", "make_async", "make_connected", "make_held", "asks_a_person",
        ],
        topics,
    ),
    **dict.fromkeys(["react_agent", "mcp_agent", "prebuilt_agent"], messages),
    **dict.fromkeys(["reflexion", "summarizing_chat", "multimodal"], plain_messages),
    **dict.fromkeys(["agentic_rag", "corrective_rag", "adaptive_rag", "sql_agent"], questions),
    "functional": lambda number: number,
    "functional_async": lambda number: [number, number + 1],
    "functional_final": lambda number: number,
    "list_root": lambda number: ["x"] * (number + 1),
    "message_list": lambda number: [{"role": "user", "content": f"hi {number}", "id": "m1"}],
    "raw_pregel": lambda number: {"a": f"t{number}"},
}  # fmt: skip
ONE_STEP = {"message_list", "prebuilt_agent"}
"""Shapes that are through before they come to a second step."""
FACTORIES = ("make_graph", "make_configured", "make_async", "make_connected", "make_held")


def any_shape(config: RunnableConfig) -> Any:
    """Whichever graph an item asks for, so that one run has them all."""
    return globals()[config["configurable"]["shape"]]
