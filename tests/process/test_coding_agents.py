"""Claude Code and Codex themselves through the gateway, with a stand-in for their providers (`.ci/with-agents`)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from typing import Any

import pytest
from harness import Sandbox
from providers import PoolKey, write_keys

from agentos.providers.provider import base_url_variable
from fakes.raw_upstream import Canned, RawUpstream

pytestmark = pytest.mark.slow

ANSWER = "pineapple"
_MESSAGE = {
    **{"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5", "content": []},
    **{"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 1}},
}
_MESSAGES: list[Mapping[str, Any]] = [
    {"type": "message_start", "message": _MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
_ITEM = {"type": "message", "role": "assistant", "id": "m1", "content": [{"type": "output_text", "text": ANSWER}]}
_USAGE = {
    **{"input_tokens": 3, "input_tokens_details": None, "output_tokens": 2, "output_tokens_details": None},
    "total_tokens": 5,
}
_RESPONSES: list[Mapping[str, Any]] = [
    {"type": "response.created", "response": {"id": "r1"}},
    {"type": "response.output_item.done", "output_index": 0, "item": _ITEM},
    {"type": "response.completed", "response": {"id": "r1", "usage": _USAGE}},
]
COMMANDS = {
    "claude": 'claude -p "say pineapple" --model claude-sonnet-5',
    "codex": 'codex exec --skip-git-repo-check -c openai_base_url="\\"$OPENAI_BASE_URL\\"" "say pineapple"',
}


def _stream(events: list[Mapping[str, Any]]) -> Canned:
    pieces = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    return Canned(pieces, headers={"content-type": "text/event-stream"})


@pytest.mark.parametrize("program", COMMANDS)
def test_a_coding_agent_works_through_the_gateway(sandbox: Sandbox, program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: .ci/with-agents does that where npm can")
    keys = [PoolKey(name=name, provider=name) for name in ("anthropic", "openai")]
    write_keys(sandbox, *keys)
    answers = {"/v1/messages": _stream(_MESSAGES), "/v1/responses": _stream(_RESPONSES)}
    with RawUpstream(answers) as upstream:
        env = {
            **{base_url_variable("anthropic"): upstream.url, base_url_variable("openai"): f"{upstream.url}/v1"},
            **{"HOME": str(sandbox.root), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
            "PATH": f"{sandbox.environment['PATH']}{os.pathsep}{os.environ['PATH']}",
        }
        done = sandbox.command("gateway", "--", "sh", "-c", COMMANDS[program], env=env)
    assert (done.code, done.stdout.strip()) == (0, ANSWER), done.stderr
    assert [got.method for got in upstream.got] == ["POST"]
    (sent,) = upstream.got
    assert any(key.secret in value for key in keys for value in sent.headers.values())
    assert "agentos-" not in str(sent.headers.get("authorization", "")) + str(sent.headers.get("x-api-key", ""))
