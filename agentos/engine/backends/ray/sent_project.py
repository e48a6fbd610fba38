"""The project of a run on its way to nodes that have another disk, and what comes back: the coordinator's side."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from agentos.engine.backends.ray.chunks import Assembly, in_pieces
from agentos.engine.backends.ray.messages import Branches, Document, Piece, TakeProject, ToNode
from agentos.engine.backends.ray.project import Packed, ProjectUnfit, pack, pack_branches, references, take_branches
from agentos.engine.documents import staged_path
from agentos.engine.loop import Loop
from agentos.paths import home_dir

Say = Callable[[ToNode], None]


class SentProject:
    """Packed once, when the first node wants it, in a thread of its own: a large project takes seconds."""

    def __init__(self, loop: Loop, project_dir: Path) -> None:
        self._loop = loop
        self._project_dir = project_dir
        self._packed: Packed | None = None
        self._problem = ""
        self._waiting: list[Callable[[], None]] = []
        self._is_packing = False

    @property
    def branches(self) -> dict[str, str]:
        """Where the user's branches are now; none without git."""
        return references(self._project_dir) if self._packed is not None and self._packed.commits else {}

    def when_packed(self, callback: Callable[[], None]) -> None:
        """In the loop."""
        if self._packed is not None or self._problem:
            callback()
            return
        self._waiting.append(callback)
        if not self._is_packing:
            self._is_packing = True
            threading.Thread(target=self._pack, daemon=True).start()

    def _pack(self) -> None:
        try:
            self._packed = pack(self._project_dir)
        except Exception as error:  # Whatever it is, nodes wait for the answer.
            self._problem = str(error) or type(error).__name__
        self._loop.post(self._tell)

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    @property
    def problem(self) -> str:
        """Why it cannot travel; empty when it can."""
        return self._problem

    def offer(self) -> TakeProject:
        packed = self._packed
        assert packed is not None
        return TakeProject(
            commits=packed.commits.key if packed.commits else "",
            files=packed.files.key,
            deleted=packed.deleted,
            head=packed.head,
            shallow=packed.shallow,
            home_dir=str(home_dir()),
        )

    def content(self, key: str) -> bytes:
        assert self._packed is not None
        parts = [part for part in (self._packed.commits, self._packed.files) if part is not None]
        return next(part.content for part in parts if part.key == key)


class Parcel:
    """What one node is sent and what it sends back, in order and no faster than it is taken."""

    def __init__(self, project: SentProject, project_dir: Path, say: Say) -> None:
        self._project = project
        self._project_dir = project_dir
        self._say = say
        self._pieces: deque[Piece] = deque()
        self._assembly = Assembly()
        self._expected: deque[Branches | Document] = deque()
        self._known_branches: dict[str, str] = {}

    def send_parts(self, keys: list[str]) -> None:
        for key in keys:
            self._pieces += in_pieces(key, self._project.content(key))
        self._known_branches = self._project.branches
        self.send_next()

    def send_next(self) -> None:
        if self._pieces:
            self._say(self._pieces.popleft())

    def send_branches(self) -> None:
        """What other nodes have made since: an item may go on from there."""
        if not self._known_branches and not self._project.branches:
            return
        try:
            bundle, branches = pack_branches(self._project_dir, self._known_branches)
        except ProjectUnfit:
            return  # The item starts from what the node has.
        if branches:
            self._known_branches.update(branches)
            key = hashlib.sha256(bundle).hexdigest()
            self._say(Branches(key=key, branches=branches))
            for piece in in_pieces(key, bundle):
                self._say(piece)

    def expect(self, what: Branches | Document) -> None:
        self._expected.append(what)

    def take(self, piece: Piece, address_of: Callable[[str], str]) -> list[str]:
        """What to tell people of it, if anything."""
        content = self._assembly.add(piece)
        if content is None:
            return []
        what = self._expected.popleft()
        if hashlib.sha256(content).hexdigest() != what.key:
            return ["something came from a node that is not what was sent"]
        if isinstance(what, Document):
            return self._put(Path(staged_path(what.path, address_of(what.item_id))), content)
        self._known_branches.update(what.branches)
        with tempfile.NamedTemporaryFile(suffix=".bundle") as file:
            file.write(content)
            file.flush()
            return take_branches(self._project_dir, Path(file.name), what.branches)

    def _put(self, path: Path, content: bytes) -> list[str]:
        """RunExtras its place; what cannot be written is told when it is to be put there."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            return [f"cannot write {path}: {error.strerror}"]
        return []
