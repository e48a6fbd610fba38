"""The store that items share: any number of processes may open and write it at once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from agentos.engine.shared_store import SharedStore

WRITER = """
import sys
from pathlib import Path
from agentos.engine.shared_store import SharedStore
store = SharedStore(Path(sys.argv[1]))
for number in range(20):
    store.put(("items",), f"{sys.argv[2]}-{number}", {"n": number})
    assert store.get(("items",), f"{sys.argv[2]}-{number}").value == {"n": number}
"""


def test_processes_that_open_and_write_it_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "stores" / "flow.db"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stderr=subprocess.PIPE) for name in "abcd"
    ]
    assert [(w.communicate()[1], w.returncode) for w in writers] == [(b"", 0)] * 4

    store = SharedStore(path)
    assert len(store.search(("items",), limit=100)) == 80
    found = asyncio.run(store.aget(("items",), "a-7"))
    assert found is not None
    assert found.value == {"n": 7}
