"""What only a store that machines share has to keep: fences, lost answers, versions of its schema."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict
from urllib.parse import urlsplit

import pytest
from checkpoint_benches import database_named
from checkpoint_graphs import REF, Story, run
from cutting_proxy import CuttingProxy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.graph import END, START, StateGraph

from agentos.database import Database
from agentos.engine.checkpoints import store_at
from agentos.engine.checkpoints.access import StoreAccess
from agentos.engine.checkpoints.protocol import CheckpointStore, FenceRefused, StoreAway, StoreRefuses
from agentos.engine.claims import FileClaims, claim_name
from fakes.postgres import PASSWORD, PostgresServer

pytestmark = pytest.mark.needs_postgres
NAME = claim_name(*REF)


@pytest.fixture
def database(postgres: PostgresServer, tmp_path: Path) -> Database:
    return database_named(postgres.url, tmp_path)


def sql(database: Database, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    import psycopg

    with closing(psycopg.connect(database.url, password=database.password, autocommit=True)) as connection:
        cursor = connection.execute(query, parameters or None)
        return cursor.fetchall() if cursor.description else []


def expire(database: Database) -> None:
    sql(database, "UPDATE agentos.claims SET expires = now() - interval '1 s' WHERE project = %s", database.project)


class Machine:
    """One that works on the project: its claims, and the store of its item's worker."""

    def __init__(self, stack: ExitStack, database: Database, root: Path, name: str) -> None:
        from agentos.engine.checkpoints.postgres_session import Session
        from agentos.engine.postgres_claims import PostgresClaims

        self._database = database
        self._stack = stack
        local = FileClaims(root / name / "claims.lock")
        session = Session(database, patience_seconds=20)
        self.claims = stack.enter_context(PostgresClaims(local, session, run_id=f"run {name}", lease_seconds=600))

    def worker(self) -> CheckpointStore:
        """For the next attempt."""
        access = StoreAccess(
            password=self._database.password, fence=self.claims.next_fence(NAME), patience_seconds=20
        )
        store: Any = store_at(self._database.address(*REF), access)
        self._stack.callback(store.close)
        return store


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def test_a_worker_whose_item_was_taken_over_writes_nothing_more(
    stack: ExitStack, database: Database, tmp_path: Path
) -> None:
    office, laptop = (Machine(stack, database, tmp_path, name) for name in ("office", "laptop"))
    assert office.claims.take(NAME)
    slow = office.worker()
    opened = slow.open(REF)
    opened.begin("before")
    assert not laptop.claims.take(NAME)
    expire(database)
    assert laptop.claims.take(NAME)
    taken = laptop.worker().open(REF)
    taken.put("who", "laptop")

    for write in (
        lambda: opened.begin("after"),
        lambda: opened.put("who", "office"),
        lambda: opened.keep_output(tmp_path / "a.md", b"office"),
        lambda: opened.park(["sure?"]),
        opened.forget_used_answers,
        lambda: slow.remove(REF),
        lambda: slow.keep_aside(REF, "damaged"),
        lambda: slow.open(REF),
        lambda: slow.answer(REF, ["sure?"], "yes"),
    ):
        with pytest.raises(FenceRefused):
            write()
    with pytest.raises(FenceRefused):
        office.claims.next_fence(NAME)
    assert (taken.get("who"), taken.standing.input_hash, list(taken.outputs())) == ("laptop", "before", [])
    assert opened.standing.input_hash == "before"


def test_an_earlier_attempt_of_the_same_run_writes_nothing_more(
    stack: ExitStack, database: Database, tmp_path: Path
) -> None:
    machine = Machine(stack, database, tmp_path, "office")
    machine.claims.take(NAME)
    silent = machine.worker()
    names = ("n1", "n2", "n3")
    story = Story({"n2": lambda: run(machine.worker(), Story().chain(*names)) and None})
    with pytest.raises(FenceRefused):
        run(silent, story.chain(*names))
    # The second attempt has finished the item; of the first there is only what came before it.
    again = Story()
    assert run(machine.worker(), again.chain(*names)).trail == list(names)
    assert again.ran == []


def test_what_another_run_holds_is_not_changed_by_who_holds_nothing(
    stack: ExitStack, database: Database, tmp_path: Path
) -> None:
    machine = Machine(stack, database, tmp_path, "office")
    machine.claims.take(NAME)
    machine.worker().open(REF).begin("x")
    # Another address of the same database: as for another process, which holds nothing.
    elsewhere = replace(database, url=f"{database.url}?application_name=passer-by")
    passer_by: Any = store_at(elsewhere.address(*REF), StoreAccess(password=database.password))
    with closing(passer_by):
        with pytest.raises(FenceRefused):
            passer_by.remove(REF)
        expire(database)
        passer_by.remove(REF)
        assert passer_by.items() == []


STEPS = st.lists(
    st.tuples(st.sampled_from(["take over", "attempt", "write", "late write", "give back"]), st.integers(0, 2)),
    min_size=4,
    max_size=25,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_happens_in_whatever_order_only_the_last_attempt_writes(
    steps: list[tuple[str, int]], postgres: PostgresServer, tmp_path: Path
) -> None:
    database = database_named(postgres.url, tmp_path)
    with ExitStack() as stack:
        machines = [Machine(stack, database, tmp_path / uuid.uuid4().hex, str(number)) for number in range(3)]
        attempts: list[list[Any]] = [[], [], []]
        owner: Machine | None = None
        current: Any = None
        written = "nothing"
        for count, (step, number) in enumerate(steps):
            machine, opened = machines[number], attempts[number]
            if step == "take over" and machine is not owner:
                expire(database)
                machine.claims.give_back(NAME)  # It may still believe that it has it.
                assert machine.claims.take(NAME)
                owner, current = machine, None
            elif step == "give back" and machine is owner:
                machine.claims.give_back(NAME)
                owner = current = None
            elif step == "attempt" and machine is owner:
                current = machine.worker().open(REF)
                opened.append(current)
            elif step == "attempt":
                with pytest.raises(FenceRefused):
                    machine.claims.next_fence(NAME)
            elif opened:
                writer = opened[-1 if step == "write" else 0]
                if writer is current:
                    writer.put("count", str(count))
                    written = str(count)
                else:
                    with pytest.raises(FenceRefused):
                        writer.put("count", str(count))
        kept = sql(
            database,
            "SELECT convert_from(value, 'UTF8') FROM agentos.facts JOIN agentos.items ON id = item_id "
            "WHERE project = %s",
            database.project,
        )
        assert kept == ([] if written == "nothing" else [(written,)])


def test_a_claim_is_not_taken_in_the_middle_of_a_write(stack: ExitStack, database: Database, tmp_path: Path) -> None:
    import psycopg

    office, laptop = (Machine(stack, database, tmp_path, name) for name in ("office", "laptop"))
    office.claims.take(NAME)
    fence = office.claims.next_fence(NAME)
    with closing(psycopg.connect(database.url, password=database.password)) as writing:
        writing.execute("SELECT agentos.hold_claim(%s, %s, %s)", (database.project, NAME, fence))
        sql(database, "SELECT 1")
        taken: list[bool] = []
        with pytest.raises(psycopg.errors.LockNotAvailable):
            sql(database, "SET lock_timeout = '200ms'; UPDATE agentos.claims SET expires = now()")
        taking = threading.Thread(target=lambda: taken.append(laptop.claims.take(NAME)))
        writing.execute(
            "UPDATE agentos.claims SET expires = now() - interval '1 s' WHERE project = %s", (database.project,)
        )
        taking.start()
        writing.commit()
        taking.join(60)
    assert taken == [True]


def test_a_writer_that_hangs_inside_a_transaction_does_not_keep_the_claim(
    stack: ExitStack, database: Database, tmp_path: Path
) -> None:
    from agentos.engine.checkpoints.postgres_session import Session

    office, laptop = (Machine(stack, database, tmp_path, name) for name in ("office", "laptop"))
    office.claims.take(NAME)
    fence = office.claims.next_fence(NAME)
    hangs, ends = threading.Event(), threading.Event()
    refused: list[Exception] = []

    def hang(_cursor: Any) -> None:
        hangs.set()
        ends.wait(100)

    def write() -> None:
        with closing(Session(database, patience_seconds=0)) as session:
            try:
                session.commit(hang, ("SELECT hold_claim(%s, %s, %s)", (database.project, NAME, fence)))
            except StoreAway as error:
                refused.append(error)

    writing = threading.Thread(target=write)
    writing.start()
    assert hangs.wait(60)
    # The row is locked until the server ends the writer's session, which it does by itself.
    expire(database)
    assert laptop.claims.take(NAME)
    ends.set()
    writing.join(60)
    assert len(refused) == 1


@pytest.mark.parametrize(
    ("arrives", "stride"),
    [(True, 11), (False, 13), *(pytest.param(arrives, 1, marks=pytest.mark.slow) for arrives in (True, False))],
)
def test_a_lost_connection_loses_and_repeats_no_node(database: Database, *, arrives: bool, stride: int) -> None:
    names = ("n1", "n2", "n3")
    port = urlsplit(database.url).port or 0
    for _ in range(2):  # Whoever is the first on a server makes the tables, too.
        with closing(CuttingProxy(port)) as uncut:
            requests = requests_of(uncut, database, names)
    assert requests > 8
    for cut_at in itertools.count(1, stride):
        with closing(CuttingProxy(port, cut_at, arrives=arrives)) as proxy:
            requests_of(proxy, database, names)
            # Two requests may arrive as one: the last number is not the same in each run.
            if proxy.requests < cut_at:
                break
    assert cut_at > 0.9 * requests


def requests_of(proxy: CuttingProxy, database: Database, names: tuple[str, ...]) -> int:
    """Run an item through the proxy; every node ran once, whatever was cut."""
    own = replace(database, url=database.url.replace(f":{urlsplit(database.url).port}", f":{proxy.port}"))
    own = replace(own, project=f"test-{uuid.uuid4().hex}")
    store: Any = store_at(own.address(*REF), StoreAccess(password=own.password, patience_seconds=30))
    with closing(store):
        story = Story()
        assert run(store, story.chain(*names)).trail == list(names)
        assert story.ran == list(names)
        assert run(store, Story().chain(*names)).trail == list(names)
        store.remove(REF)
    return proxy.requests


@pytest.fixture
def new_database(postgres: PostgresServer, database: Database) -> Database:
    """Where nobody has been."""
    name = f"db{uuid.uuid4().hex}"
    sql(database, f"CREATE DATABASE {name}")
    return replace(database, url=database.url.replace("/postgres", f"/{name}"))


def opened_store(database: Database) -> Any:
    return store_at(database.address(*REF), StoreAccess(password=database.password, patience_seconds=5))


def test_two_who_come_first_make_one_schema(new_database: Database) -> None:
    made: list[object] = []

    def come() -> None:
        with closing(opened_store(new_database)) as store:
            made.append(store.open(REF))

    both = [threading.Thread(target=come) for _ in range(4)]
    for each in both:
        each.start()
    for each in both:
        each.join(60)
    assert len(made) == 4
    assert sql(new_database, "SELECT count(*) FROM agentos.items") == [(1,)]


def test_looking_makes_no_schema(new_database: Database) -> None:
    with closing(opened_store(new_database)) as store:
        assert (store.items(), store.peek(REF), store.output_paths(REF)) == ([], None, [])
        store.remove(REF)
    assert sql(new_database, "SELECT to_regnamespace('agentos')") == [(None,)]


def test_a_schema_of_a_later_version_is_refused_and_left_alone(new_database: Database) -> None:
    from agentos.engine.checkpoints.postgres_schema import SchemaTooNew

    with closing(opened_store(new_database)) as store:
        store.open(REF)
    sql(new_database, "UPDATE agentos.meta SET version = 999")
    with closing(opened_store(new_database)) as store:
        with pytest.raises(SchemaTooNew, match="has version 999"):
            store.items()
        with pytest.raises(SchemaTooNew, match="upgrade AgentOS here"):
            store.open(REF)
    sql(new_database, "UPDATE agentos.meta SET version = 1, langgraph = 999")
    with closing(opened_store(new_database)) as store, pytest.raises(SchemaTooNew, match="langgraph-checkpoint"):
        store.open(REF)


def test_a_schema_that_was_made_for_a_user_without_rights_is_enough(new_database: Database) -> None:
    user = f"u{uuid.uuid4().hex}"
    sql(new_database, f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'")
    theirs = replace(new_database, url=new_database.url.replace("//agentos@", f"//{user}@"))
    with closing(opened_store(theirs)) as store, pytest.raises(StoreRefuses, match="permission denied"):
        store.open(REF)
    sql(new_database, f"CREATE SCHEMA agentos AUTHORIZATION {user}")
    with closing(opened_store(theirs)) as store:
        assert store.open(REF).standing.steps == 0


def test_a_wrong_password_is_said_without_it_and_not_waited_for(database: Database) -> None:
    store: Any = store_at(database.address(*REF), StoreAccess(password="not-the-password", patience_seconds=3600))
    with closing(store), pytest.raises(StoreRefuses, match="password authentication failed") as refused:
        store.open(REF)
    assert "not-the-password" not in str(refused.value)


class Values(TypedDict, total=False):
    text: str
    number: float
    trail: Annotated[list[str], add]


def test_values_that_json_cannot_hold_come_back_as_they_were(database: Database) -> None:
    seen: list[Any] = []

    def one(_state: Values) -> Values:
        return {"text": "a\0b", "number": float("inf")}

    def two(state: Values) -> Values:
        seen.append((state["text"], state["number"]))
        raise RuntimeError("sour")

    graph = StateGraph(Values)
    graph.add_node("one", one)
    graph.add_node("two", two)
    graph.add_edge(START, "one")
    graph.add_edge("one", "two")
    graph.add_edge("two", END)
    with closing(opened_store(database)) as store:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="sour"):
                run(store, graph)
    assert seen == [("a\0b", float("inf"))] * 2
