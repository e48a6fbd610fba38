"""What a project's own interpreter runs first: it makes AgentOS importable there and becomes the fork server.

AgentOS is found by its folder, before anything of that name in the project's environment. What AgentOS needs and the
environment lacks is lent, after all that it has. Nothing else of where AgentOS is installed can be imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any


class _Lent(MetaPathFinder):
    """Finds these packages, each in its folder, and no others."""

    def __init__(self, folders: Mapping[str, str]) -> None:
        self._folders = folders

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        folder = self._folders.get(fullname)
        if folder is None:
            return None
        return spec_from_file_location(fullname, f"{folder}/__init__.py", submodule_search_locations=[folder])


# Not only in the fork server: a process that a node makes with `multiprocessing` runs this file as well.
sys.meta_path.insert(0, _Lent({"agentos": str(Path(__file__).parents[3])}))

if __name__ == "__main__":
    sys.meta_path.append(_Lent(json.loads(sys.argv[1])))
    from agentos.engine.backends.forkserver import server

    server.main(sys.argv[2:])
