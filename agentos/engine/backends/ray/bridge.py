"""The bridge: Ray's driver, a process of the coordinator's. Finds nodes, gives each a supervisor, carries bytes.

A process of its own, because Ray takes its driver with it when its head or its own daemon dies, and has threads and
signal handlers of its own. The coordinator's socket is all that ties it: it ends with that, and its supervisors too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from agentos.engine.backends.ray.environment_check import clock_offset, differences, environment_facts
from agentos.engine.backends.ray.findings import TOKEN_HELP, why_not_joined
from agentos.engine.backends.ray.made_environment import compared_packages, could_not_make, runtime_env
from agentos.engine.backends.ray.messages import (
    BEAT_SECONDS,
    BRIDGE_CHANNEL,
    LOST_AFTER_SECONDS,
    Frames,
    HeadLost,
    Join,
    NodeJoined,
    NodeLeft,
    Noticed,
    NotJoined,
    OfBridge,
    frame,
    of_bridge,
    to_bridge,
)
from agentos.engine.backends.ray.placing import Offer, fair_share, most_places, places_on
from agentos.engine.backends.ray.supervisor import Supervisor
from agentos.engine.backends.ray.token_check import Door, door_of
from agentos.environment import environment

_LOOK_SECONDS = 1.0
"""How often new nodes are looked for."""
_HEAD_SILENCE_SECONDS = 10.0
_SAY_WAITING_AFTER_SECONDS = 3.0
_SAY_SLOW_AFTER_SECONDS = 15.0
"""A node with room that has much else to do takes its time; that is nothing to tell."""
_ENDING_SECONDS = 1.0
"""A supervisor that died takes its node process with it within this time; only then its items go elsewhere."""
_AGAIN_AFTER_SECONDS = 5.0
_MOST_FAILURES = 3
"""When the first supervisor of no node has come up in so many attempts, it never will."""
_JOIN_SECONDS = 45.0
"""Ray itself would wait for minutes, for instance where one side is encrypted and the other is not."""
_READ_BYTES = 1 << 20


class NodeGone(Exception):
    """Nothing comes from the node any more, for this reason."""


class Bridge:
    """One run's connection with its cluster."""

    def __init__(self, join: Join, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._join = join
        self._reader = reader
        self._writer = writer
        self._queues: dict[int, asyncio.Queue[bytes]] = {}
        self._known: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[str, str] = {}
        """Nodes that are never used, and why."""
        self._failures: dict[str, list[str]] = {}
        """By the names of nodes: why their supervisor did not come up the last times. Said once."""
        self._again: dict[str, float] = {}
        """When a node that was lost is tried once more: Ray may not know yet that it is dead."""
        self._channels = 0
        self._actors: dict[int, Any] = {}
        self._compared = compared_packages(makes_environment=join.makes_environment)
        self._ours = environment_facts(self._compared)
        self._has_joined = False
        self._is_head_lost = False

    async def run(self, frames: Frames) -> None:
        """Until the coordinator closes its socket."""
        looking = asyncio.create_task(self._look_for_nodes())
        while data := await self._reader.read(_READ_BYTES):
            for channel, payload in frames.feed(data):
                if (queue := self._queues.get(channel)) is not None:
                    queue.put_nowait(payload)
        looking.cancel()

    def end_supervisors(self) -> None:
        for actor in self._actors.values():
            with suppress(Exception):
                ray.kill(actor)

    # Nodes.

    async def _look_for_nodes(self) -> None:
        said_nothing_fits = False
        while True:
            nodes = await self._nodes()
            for node in nodes:
                await self._consider(node, len(nodes))
            hopeless = [self._why_hopeless(node) for node in nodes]
            if hopeless and all(hopeless) and not self._has_joined:
                self._tell(NotJoined(reason=hopeless[0]))
                return
            has_room = any(self._places(node, len(nodes)) for node in nodes if node["NodeID"] not in self._refused)
            if not has_room and not said_nothing_fits:
                said_nothing_fits = True
                self._tell(Noticed(text=f"waiting for resources: {_nothing_fits(len(nodes), self._join)}"))
            await asyncio.sleep(_LOOK_SECONDS)

    async def _nodes(self) -> list[dict[str, Any]]:
        """Those that live. Says so, once, when the head does not answer."""
        try:
            found = await asyncio.wait_for(asyncio.to_thread(_living_nodes), _HEAD_SILENCE_SECONDS)
        except Exception as error:
            if not self._is_head_lost:
                self._is_head_lost = True
                reason = "does not answer" if isinstance(error, TimeoutError) else f"is lost ({error})"
                self._tell(HeadLost(reason=f"the head of the cluster at {self._join.address} {reason}"))
            await asyncio.sleep(_LOOK_SECONDS)
            return []
        return found

    async def _consider(self, node: dict[str, Any], node_count: int) -> None:
        node_id = node["NodeID"]
        if node_id in self._refused or node_id in self._known or time.monotonic() < self._again.get(node_id, 0.0):
            return
        if places := self._places(node, node_count):
            self._known[node_id] = asyncio.create_task(self._serve(node, places))

    def _why_hopeless(self, node: dict[str, Any]) -> str:
        """Empty while the node may still be of use."""
        if refused := self._refused.get(node["NodeID"], ""):
            return refused
        name = self._name_of(node)
        reasons = self._failures.get(name, [])
        return f"{name} cannot be used: {reasons[-1]}" if len(reasons) >= _MOST_FAILURES else ""

    def _places(self, node: dict[str, Any], node_count: int) -> int:
        offer = Offer(total=node["Resources"], available=node["available"])
        share = fair_share(self._join.parallel, node_count)
        return places_on(offer, self._join.resources, max_per_node=self._join.max_per_node, share=share)

    async def _serve(self, node: dict[str, Any], places: int) -> None:
        """One node, from its supervisor's start to its end."""
        self._channels += 1
        channel, name = self._channels, self._name_of(node)
        actor = None
        try:
            actor = self._actors[channel] = self._make_supervisor(node["NodeID"], places)
            is_full = most_places(node["available"], self._join.resources, 0) < places
            await self._greet(actor, name, node["NodeID"], is_full=is_full)
            queue = self._queues[channel] = asyncio.Queue()
            self._has_joined = True
            self._failures.pop(name, None)
            self._tell(NodeJoined(channel=channel, name=name, places=places))
            await self._carry(actor, channel, queue)
        except NodeGone as gone:
            reason = str(gone)
        except ray.exceptions.ActorDiedError:
            reason = "its supervisor died"
            await asyncio.sleep(_ENDING_SECONDS)
        except Exception as error:  # Ray's are of many kinds.
            reason = _words(error)
            if channel in self._queues:
                await self._outwait(name, reason)
        finally:
            with suppress(Exception):
                ray.kill(actor)
            self._actors.pop(channel, None)
            had_joined = self._queues.pop(channel, None) is not None
            self._known.pop(node["NodeID"], None)
            self._again[node["NodeID"]] = time.monotonic() + _AGAIN_AFTER_SECONDS
        if had_joined:
            self._tell(NodeLeft(channel=channel, reason=reason))
        elif node["NodeID"] not in self._refused:
            reasons = self._failures.setdefault(name, [])
            reasons.append(reason)
            if len(reasons) == 1:
                self._tell(Noticed(text=f"{name} cannot be used: {reason}; trying again"))

    async def _outwait(self, name: str, reason: str) -> None:
        """The node may live on, out of reach, and so may its workers, until it has noticed."""
        self._tell(Noticed(text=f"{name}: {reason}; waiting {LOST_AFTER_SECONDS:.0f} s for its workers to end"))
        await asyncio.sleep(LOST_AFTER_SECONDS)

    def _name_of(self, node: dict[str, Any]) -> str:
        """As whoever started the node has named it; Ray falls back on its address."""
        return str(node.get("NodeName") or node["NodeManagerAddress"])

    def _make_supervisor(self, node_id: str, places: int) -> Any:
        need = {name: amount * places for name, amount in self._join.resources.items()}
        options: dict[str, Any] = {
            "num_cpus": need.pop("CPU", 0),
            "num_gpus": need.pop("GPU", 0),
            "memory": need.pop("memory", None),
            "resources": need,
            "max_restarts": 0,
            "max_concurrency": 8,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node_id, soft=False),
        }
        return ray.remote(Supervisor).options(**options).remote()

    async def _greet(self, actor: Any, name: str, node_id: str, *, is_full: bool) -> None:
        """Wait until the supervisor runs, and see that its Python is ours. Raises NodeGone for one that is not."""
        patience = _SAY_WAITING_AFTER_SECONDS if is_full else _SAY_SLOW_AFTER_SECONDS
        sent = time.time()
        answer = asyncio.wrap_future(actor.facts.remote(self._compared).future())
        done, _ = await asyncio.wait([answer], timeout=patience)
        if not done:
            made = ", or for its Python environment" if self._join.makes_environment else ""
            wanted = f"resources on {name}" if is_full else f"{name} to start a process"
            self._tell(Noticed(text=f"waiting for {wanted}{made}"))
            sent = time.time()
        try:
            theirs = await answer
        except ray.exceptions.RuntimeEnvSetupError as error:
            self._refuse(name, node_id, could_not_make(error))
        if wrong := differences(self._ours, theirs):
            self._refuse(name, node_id, f"its Python differs: {'; '.join(wrong)}")
        if done and (offset := clock_offset(sent, theirs, time.time())) is not None:
            self._tell(Noticed(text=f"the clock of {name} is off by {offset:+.0f} s"))
        if not await asyncio.wrap_future(actor.speaks.remote().future()):
            raise NodeGone("its process does not start")

    def _refuse(self, name: str, node_id: str, reason: str) -> NoReturn:
        """For the whole run."""
        self._refused[node_id] = f"{name} is not used: {reason}"
        self._tell(Noticed(text=self._refused[node_id]))
        raise NodeGone(reason)

    # Bytes.

    async def _carry(self, actor: Any, channel: int, queue: asyncio.Queue[bytes]) -> None:
        """Both ways, until one of them ends."""
        ways = [
            asyncio.create_task(self._carry_up(actor, channel)),
            asyncio.create_task(self._carry_down(actor, queue)),
        ]
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in done:
                way.result()
        finally:
            for way in ways:
                way.cancel()

    async def _carry_up(self, actor: Any, channel: int) -> None:
        """One question after the other, and no more than one before the coordinator has taken the last answer."""
        heard = time.monotonic()
        answer = actor.up.remote()
        while True:
            left = LOST_AFTER_SECONDS - (time.monotonic() - heard)
            data = await _within(left, answer)
            if data is None:
                raise NodeGone("its process died")
            answer = actor.up.remote()
            if data:
                self._writer.write(frame(channel, data))
                await self._writer.drain()
                heard = time.monotonic()  # After that: however long the coordinator takes, the node is not to blame.

    async def _carry_down(self, actor: Any, queue: asyncio.Queue[bytes]) -> None:
        """All that waits goes in one call; a call with nothing says that we live."""
        while True:
            try:
                parts = [await asyncio.wait_for(queue.get(), BEAT_SECONDS)]
            except TimeoutError:
                parts = []
            while not queue.empty():
                parts.append(queue.get_nowait())
            await _within(LOST_AFTER_SECONDS, actor.down.remote(b"".join(parts)))

    def _tell(self, message: OfBridge) -> None:
        self._writer.write(frame(BRIDGE_CHANNEL, of_bridge.encode(message)))


async def _within(seconds: float, reference: Any) -> Any:
    try:
        return await asyncio.wait_for(asyncio.wrap_future(reference.future()), max(0.01, seconds))
    except TimeoutError:
        raise NodeGone(f"no sign of life for {LOST_AFTER_SECONDS:.0f} s") from None


def _living_nodes() -> list[dict[str, Any]]:
    available = ray._private.state.available_resources_per_node()
    return [{**node, "available": available.get(node["NodeID"], {})} for node in ray.nodes() if node["Alive"]]


def _nothing_fits(node_count: int, join: Join) -> str:
    wanted = ", ".join(f"{amount:g} {name}" for name, amount in join.resources.items())
    return f"no node of the cluster has {wanted}" if node_count else "the cluster has no node"


def _words(error: BaseException) -> str:
    """The first line of what Ray says; it says a lot."""
    if isinstance(error, ray.exceptions.ActorUnavailableError):
        return "it cannot be reached"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


async def _receive_join(reader: asyncio.StreamReader, frames: Frames) -> Join | None:
    while data := await reader.read(_READ_BYTES):
        for _, payload in frames.feed(data):
            return to_bridge.decode(payload)
    return None


async def _serve(connection: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connection, limit=_READ_BYTES)
    frames = Frames()
    join = await _receive_join(reader, frames)
    if join is None:
        return
    # Asked while Ray connects: both take seconds.
    asking = asyncio.create_task(asyncio.to_thread(door_of, join.address, environment()))
    connecting = asyncio.create_task(asyncio.to_thread(_connect, join))
    left = asyncio.create_task(reader.read(_READ_BYTES))
    await asyncio.wait([connecting, left], return_when=asyncio.FIRST_COMPLETED, timeout=_JOIN_SECONDS)
    if left.done():
        return  # The coordinator has nothing to say yet: it is gone.
    left.cancel()
    await asyncio.wait([left])
    try:
        if not connecting.done():
            raise ConnectionError(
                f"no answer within {_JOIN_SECONDS:.0f} s. If it is encrypted, RAY_USE_TLS=1 and its certificates are "
                "needed here as well"
            )
        await connecting
        match await asking:
            case Door.OPEN:
                raise ConnectionError(f"it lets anybody in, who can then run code on its nodes; {TOKEN_HELP}")
            case Door.UNKNOWN:
                raise ConnectionError("it does not say whether it asks for a token, as it has to; try again")
    except Exception as error:
        writer.write(frame(BRIDGE_CHANNEL, of_bridge.encode(NotJoined(reason=why_not_joined(_words(error))))))
        await writer.drain()
        return
    bridge = Bridge(join, reader, writer)
    try:
        await bridge.run(frames)
    finally:
        bridge.end_supervisors()


def _connect(join: Join) -> None:
    with TemporaryDirectory() as folder:
        ray.init(
            address=join.address,
            namespace=f"agentos-{join.run_id}",
            runtime_env=runtime_env(Path(folder)) if join.makes_environment else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=False,
        )


def main(arguments: list[str]) -> None:
    """`bridge DESCRIPTOR`: serve the coordinator at the other end of this socket."""
    asyncio.run(_serve_and_leave(socket.socket(fileno=int(arguments[0]))))


async def _serve_and_leave(connection: socket.socket) -> None:
    """Not by returning: a thread may wait for a cluster that never answers. Ray's daemon sees that we are gone."""
    try:
        with suppress(ConnectionError):
            await _serve(connection)
    except BaseException:
        traceback.print_exc()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
