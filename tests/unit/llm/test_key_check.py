"""One cheap call with each key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FIRST_CALL = """
import sys
from agentos.keys.credentials import Credential, CredentialSet
from agentos.keys.pool import KeySpec
from agentos.llm import key_check, sdk
from agentos.llm.types import Attempted
from agentos.providers.evidence import Succeeded

found = []

def send(*_):
    found.append([name for name in ("google.genai", "anthropic", "openai") if name in sys.modules])
    return Attempted(evidence=Succeeded())

sdk.send = send
specs = [KeySpec(name=name, provider=name, group=name) for name in ("google", "anthropic", "openai")]
key_check.check_keys(CredentialSet(tuple(Credential(spec, "secret-" + spec.name) for spec in specs)))
print(*found[0])
"""


def test_every_sdk_is_loaded_before_the_first_call_waits_for_its_connection(tmp_path: Path) -> None:
    """On a busy machine an SDK takes longer to load than a connection may take."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CALL],
        env={**os.environ, "AGENTOS_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.split() == ["google.genai", "anthropic", "openai"], done.stderr[-2000:]
