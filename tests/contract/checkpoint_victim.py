"""A worker that is killed, by itself, at an exact point around a store's writes. Run by the suite of stores."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from checkpoint_graphs import REF, Story, ask, run

from agentos.engine.checkpoints import record
from agentos.engine.checkpoints.protocol import CheckpointStore
from agentos.engine.checkpoints.sqlite import SqliteStore


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sqlite_that_dies(directory: Path, at: str) -> CheckpointStore:
    """Dies between a commit and its record, when the record would say this."""

    def write(path: Path, text: str, *, is_lasting: bool) -> None:
        if at in text:
            die()
        record.write(path, text, is_lasting=is_lasting)

    return SqliteStore(directory, write)


def main(directory: str, deed: str, at: str) -> None:
    store = sqlite_that_dies(Path(directory), at)
    match deed:
        case "run":
            run(store, Story().chain("n1", "n2", "n3"))
        case "ask":
            run(store, Story({"n2": ask("sure?")}).chain("n1", "n2", "n3"))
        case "answer":
            store.answer(REF, ["sure?"], "yes")
    raise SystemExit("survived")


if __name__ == "__main__":
    main(*sys.argv[1:])
