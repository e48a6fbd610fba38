"""Limits by control group, in a Linux of its own: this machine may have none to hand over.

User-mode Linux runs as a program, with the files of this machine to read.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UML = shutil.which("linux.uml")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(UML is None, reason="user-mode-linux is not installed"),
]
_INIT = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/tmp
mount -t cgroup2 none /sys/fs/cgroup
export HOME=/var/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/var/tmp AGENTOS_HOME=/var/tmp/home
{python} -B {program}
halt -f
"""
_PROGRAM = """
import os, sys
from pathlib import Path
from agentos.sandbox.isolation import Isolation
from agentos.sandbox.limits import Limits
from agentos.sandbox.sandbox import Sandbox, is_available

top = Path("/sys/fs/cgroup")
for group in (top, top / "user"):
    group.mkdir(exist_ok=True)
    (group / "cgroup.subtree_control").write_text("+memory +pids")
(top / "user/app").mkdir()
(top / "user/app/cgroup.procs").write_text(str(os.getpid()))
worktree = Path("/var/tmp/worktree")
worktree.mkdir()
COMMANDS = {
    "memory": "kept = []\\nwhile True: kept.append(bytearray(1 << 20))",
    "nameless": "import os\\nwhile True: os.write(os.memfd_create('x'), b'x' * (1 << 20))",
    "processes": "import os, time\\nwhile True:\\n  try: os.fork()\\n  except OSError: time.sleep(1)",
    "nothing": "print('fine')",
}
for isolation in filter(is_available, Isolation):
    for name, code in COMMANDS.items():
        place = Sandbox(worktree, isolation, limits=Limits(memory_mb=100, processes=30))
        result = place.run([sys.executable, "-c", code], timeout_seconds=100)
        print("RESULT", isolation.value, name, result.exit_code, result.ended_by)
print("LEFT", [path.name for path in (top / "user").glob("agentos-*")])
"""


def test_no_process_outruns_a_control_group_and_none_is_left(tmp_path: Path) -> None:
    program, init = tmp_path / "program.py", tmp_path / "init.sh"
    program.write_text(_PROGRAM)
    init.write_text(_INIT.format(python=sys.executable, program=program))
    init.chmod(0o755)
    options = ["mem=1G", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}"]

    done = subprocess.run(
        [str(UML), *options, "con=null", "con0=fd:0,fd:1"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )

    told = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("RESULT")]
    strengths = {words[0] for words in told}
    assert {"namespaces", "none"} <= strengths, done.stdout[-3000:]
    for strength in strengths:
        assert [words[1:] for words in told if words[0] == strength] == [
            ["memory", "None", "EndedBy.MEMORY"],
            ["nameless", "None", "EndedBy.MEMORY"],
            ["processes", "None", "EndedBy.PROCESSES"],
            ["nothing", "0", "None"],
        ]
    assert "LEFT []" in done.stdout
