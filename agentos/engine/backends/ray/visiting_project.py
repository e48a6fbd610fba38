"""The project of a run on a node that has another disk: its folders there, and what goes back from it.

Everything is in one folder per run, which goes with the run, or with a later one where its node process was killed.
Parts that travelled stay for later runs.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from agentos.engine.backends.ray.chunks import in_pieces
from agentos.engine.backends.ray.messages import Begin, Branches, Document, FromNode, TakeProject
from agentos.engine.backends.ray.moved_paths import MovedPaths
from agentos.engine.backends.ray.project import (
    ProjectUnfit,
    is_kept,
    keep,
    pack_branches,
    references,
    remove_unused,
    take_branches,
    unpack,
)
from agentos.engine.documents import staged_path
from agentos.engine.messages import DocumentNamed, DocumentWriter, DownMessage, ItemDone, StartItem, UpMessage
from agentos.environment import environment
from agentos.files import hold_dir, remove_left
from agentos.paths import home_dir


class VisitingProject:
    """On the node. Paths of messages are translated on their way in and out."""

    def __init__(self, begin: Begin, take: TakeProject, say: Callable[[FromNode], None]) -> None:
        self._begin = begin
        self._take = take
        self._say = say
        self._cache_dir = home_dir() / "cluster" / "parts"
        self.folder = home_dir() / "cluster" / "runs" / f"{begin.run_id}-{secrets.token_hex(4)}"
        self.project_dir = self.folder / "project"
        self.home_dir = self.folder / "home"
        self.moved = MovedPaths(((take.home_dir, str(self.home_dir)), (begin.project_dir, str(self.project_dir))))
        self._branches: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        """Documents that workers asked about, by the path that the coordinator knows: it answers with that."""

    @property
    def lacking(self) -> list[str]:
        wanted = [key for key in (self._take.commits, self._take.files) if key]
        return [key for key in wanted if not is_kept(self._cache_dir, key)]

    def keep(self, key: str, content: bytes) -> None:
        keep(self._cache_dir, key, content)

    def make(self) -> str:
        """The project's folder. Returns why it cannot be made; empty when it is there."""
        take = self._take
        if not self.moved.knows(self._begin.search_dir):
            return (
                f"the graph is looked for in {self._begin.search_dir}, outside of the project: start from inside it"
            )
        try:
            self.home_dir.mkdir(parents=True, mode=0o700)
            hold_dir(self.folder)  # As long as this process lives.
            remove_left(self.folder.parent.iterdir(), time.time())
            remove_unused(self._cache_dir, time.time())
            unpack(self._cache_dir, take, self.project_dir)
        except Exception as error:  # Whatever it is, a run waits for the answer.
            return str(error) or type(error).__name__
        self._branches = references(self.project_dir) if take.commits else {}
        return ""

    def begin_there(self) -> Begin:
        """What all workers have in common, as it is here."""
        return replace(self._begin, search_dir=self.moved.there(self._begin.search_dir), python="")

    def variables(self, sent: Mapping[str, str]) -> dict[str, str]:
        """This machine's variables, with the run's over them."""
        own = {name: value for name, value in environment().items() if not name.startswith("RAY_")}
        moved = {name: self.moved.there(value) for name, value in sent.items()}
        return {**own, **moved, "AGENTOS_HOME": str(self.home_dir)}

    def start_there(self, message: StartItem) -> StartItem:
        self._addresses[message.item_id] = message.checkpoint_address
        options = dict(message.options)
        if options.get("store"):
            options["store"] = self.moved.there(options["store"])
        return replace(
            message,
            work_dir=self.moved.there(message.work_dir),
            environment={name: self.moved.there(value) for name, value in message.environment.items()},
            access=replace(message.access, project_dir=str(self.project_dir)),
            options=options,
        )

    def down(self, message: DownMessage) -> DownMessage:
        if isinstance(message, DocumentWriter):
            return replace(message, path=self._asked.get(message.path, message.path))
        return message

    def up(self, item_id: str, message: UpMessage) -> UpMessage:
        """What the worker said, after what has to be there before it is heard."""
        match message:
            case DocumentNamed(path=path):
                self._asked[self.moved.back(path)] = path
                return DocumentNamed(path=self.moved.back(path))
            case ItemDone():
                self.send_branches()
                self._send_documents(item_id, message.outputs)
                return replace(message, outputs=[self.moved.back(path) for path in message.outputs])
        return message

    def send_branches(self) -> None:
        """Those that have moved since the last time."""
        if not self._take.commits:
            return
        try:
            bundle, branches = pack_branches(self.project_dir, self._branches)
        except ProjectUnfit:
            return  # In the middle of something; the next time is soon.
        if branches:
            self._branches.update(branches)
            key = hashlib.sha256(bundle).hexdigest()
            self._say(Branches(key=key, branches=branches))
            self._send(key, bundle)

    def take_branches(self, branches: dict[str, str], bundle: bytes) -> None:
        """Of items that were on another node before."""
        path = self.folder / "branches.bundle"
        path.write_bytes(bundle)
        take_branches(self.project_dir, path, branches, forced=True)
        self._branches.update(branches)

    def _send_documents(self, item_id: str, paths: list[str]) -> None:
        for path in paths:
            staged = staged_path(path, self._addresses[item_id])
            content = staged.read_bytes()
            key = hashlib.sha256(content).hexdigest()
            self._say(Document(item_id=item_id, key=key, path=self.moved.back(path)))
            self._send(key, content)
            staged.unlink()

    def _send(self, key: str, content: bytes) -> None:
        for piece in in_pieces(key, content):
            self._say(piece)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
