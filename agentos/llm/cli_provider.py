"""Coding CLIs as a provider: `cli:claude` asks `claude -p` and reads its JSON result, never its prose."""

from __future__ import annotations

import json
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from agentos.environment import environment
from agentos.files import write_whole
from agentos.keys.leases import Lease
from agentos.llm.cancellation import Cancellation
from agentos.llm.conversation import Message
from agentos.llm.options import UnsupportedOptionError
from agentos.llm.structured import OutputSchema
from agentos.llm.types import Attempted, Completion, Request
from agentos.processes.children import ChildResult, kill_with_variable, run_child
from agentos.providers.evidence import (
    Evidence,
    Overloaded,
    RateLimited,
    Rejected,
    RequestFailed,
    Succeeded,
    TransportFailed,
    Usage,
)

_CALL_MARK = "AGENTOS_CLI_CALL"
"""Marks every process of one call, so that cancelling finds those that left the group too."""

_PASSED_ON = (
    *("PATH", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
)
"""What a CLI may see of our environment: a list of what is needed cannot let a key through by accident."""

_ANSWERS_ONLY = (
    *("--tools", "", "--strict-mcp-config", "--setting-sources", "", "--disable-slash-commands"),
    "--no-session-persistence",
)
"""A model that is asked something answers: no tool, no server, no hook and no setting of the user's takes part."""
_LOGIN_FILE = ".credentials.json"

_LONGEST_ARGUMENT = 100_000
"""The kernel refuses an argument of 128 KiB."""


UNSUPPORTED: Final = dict.fromkeys(
    ("tools", "tool_choice", "temperature", "seed", "stop", "reasoning_effort", "native_output", "on_text"),
    "a coding CLI decides that itself",
)
"""Options that it has no way to pass on."""


def check_messages(request: Request) -> None:
    """Raises UnsupportedOptionError: it is given text, and nothing else."""
    if any(message.images or message.role == "tool" for message in request.messages):
        raise UnsupportedOptionError(f"{request.model} takes text only: no images, no results of tools.")


def send_to_cli(
    request: Request,
    messages: Sequence[Message],
    schema: OutputSchema | None,
    lease: Lease,
    cancellation: Cancellation,
) -> Attempted:
    """Ask the CLI once. Its home and its folder are empty and its own, and nothing of it outlives the call."""
    ours = environment()
    login_path = None if lease.secret else _login_path(ours)
    with _own_home(login_path) as home, _killing_when(cancellation) as mark:
        try:
            result = run_child(
                _command(request, schema),
                cwd=home / "work",
                env=_environment(ours, lease.secret, mark) | {"HOME": str(home)},
                timeout_seconds=request.timeout_seconds,
                stdin=_stdin(request, messages).encode(),
                limit_bytes=32_000_000,
            )
        except OSError as error:
            return Attempted(evidence=RequestFailed(reason=f"cannot start {request.model.program}: {error.strerror}"))
    cancellation.check()
    return _attempted(request, result)


def _login_path(ours: Mapping[str, str]) -> Path:
    """Where the CLI keeps its login."""
    folder = ours.get("CLAUDE_CONFIG_DIR") or str(Path(ours.get("HOME", ""), ".claude"))
    return Path(folder, _LOGIN_FILE)


@contextmanager
def _own_home(login_path: Path | None) -> Iterator[Path]:
    """A home with nothing in it but the login. One that the CLI renews goes back to where it came from."""
    with tempfile.TemporaryDirectory(prefix="agentos-cli-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        copy_path = home / ".claude" / _LOGIN_FILE
        for needed in (home / "work", copy_path.parent):
            needed.mkdir()
        before = _read(login_path)
        if before:
            write_whole(copy_path, before, mode=0o600)
        try:
            yield home
        finally:
            after = _read(copy_path)
            if login_path and after and after != before and _read(login_path) == before:
                write_whole(login_path, after, mode=0o600)


def _read(path: Path | None) -> bytes:
    try:
        return path.read_bytes() if path else b""
    except OSError:
        return b""


@contextmanager
def _killing_when(cancellation: Cancellation) -> Iterator[str]:
    """A mark for the call's processes: what carries it is killed once the call is cancelled, and when it is over."""
    mark = uuid.uuid4().hex
    is_over = threading.Event()

    def kill_until_over() -> None:
        while not is_over.is_set():
            # Again, because the child may be about to start.
            kill_with_variable(_CALL_MARK, mark)
            is_over.wait(0.02)

    killer = threading.Thread(target=kill_until_over, name="agentos-cli-cancel", daemon=True)
    try:
        with cancellation.calling(killer.start):
            yield mark
    finally:
        is_over.set()
        kill_with_variable(_CALL_MARK, mark)


def _command(request: Request, schema: OutputSchema | None) -> list[str]:
    command = [request.model.program, "-p", "--output-format", "json", *_ANSWERS_ONLY]
    model = request.model.model.partition(":")[2]
    if model:
        command += ["--model", model]
    if request.system and len(request.system) <= _LONGEST_ARGUMENT:
        command += ["--append-system-prompt", request.system]
    if schema is not None:
        command += ["--json-schema", json.dumps(schema.json_schema)]
    return command


def _stdin(request: Request, messages: Sequence[Message]) -> str:
    """The prompt; of a longer conversation, all turns with their speaker."""
    turns = [messages[0].content] if len(messages) == 1 else [f"{m.role}:\n{m.content}" for m in messages]
    if request.system and len(request.system) > _LONGEST_ARGUMENT:
        turns.insert(0, request.system)
    return "\n\n".join(turns)


def _environment(ours: Mapping[str, str], secret: str, mark: str) -> dict[str, str]:
    passed = {name: ours[name] for name in _PASSED_ON if name in ours}
    passed[_CALL_MARK] = mark
    if secret:
        passed["ANTHROPIC_API_KEY"] = secret
    return passed


def _attempted(request: Request, child: ChildResult) -> Attempted:
    if child.timed_out:
        reason = f"no answer in {request.timeout_seconds:g} s"
        return Attempted(evidence=TransportFailed(reason=reason), timed_out=True)
    result = _last_json_object(child.stdout.text())
    if result is None:
        ended = f"exit {child.exit_code}" if child.signal_number is None else f"signal {child.signal_number}"
        return Attempted(evidence=RequestFailed(reason=f"{request.model.program} gave no JSON result ({ended})"))
    if result.get("is_error"):
        return Attempted(evidence=_evidence(result))
    completion = _completion(request, result)
    return Attempted(evidence=Succeeded(usage=completion.usage), completion=completion)


def _completion(request: Request, result: Mapping[str, Any]) -> Completion:
    tokens = result.get("usage") or {}
    structured = result.get("structured_output")
    usage = Usage(
        input_tokens=int(tokens.get("input_tokens", 0)),
        output_tokens=int(tokens.get("output_tokens", 0)),
        cost_usd=result.get("total_cost_usd"),
    )
    return Completion(
        text=str(result.get("result") or ""),
        structured=None if structured is None else json.dumps(structured),
        usage=usage,
        model=str(request.model),
    )


def _evidence(result: Mapping[str, Any]) -> Evidence:
    """What an error result means, by the status its structured field names."""
    status = result.get("api_error_status")
    retry_after = result.get("retry_after_seconds")
    wait_seconds = float(retry_after) if isinstance(retry_after, int | float) else None
    match status:
        case 429:
            return RateLimited(retry_after_seconds=wait_seconds)
        case 401 | 403:
            return Rejected(reason=f"the CLI reports status {status}")
        case 500 | 502 | 503 | 504 | 529:
            return Overloaded(retry_after_seconds=wait_seconds)
        case _:
            shown_status = status if isinstance(status, int) else None
            return RequestFailed(
                status=shown_status, reason=f"the CLI ended with {result.get('subtype', 'an error')}"
            )


def _last_json_object(text: str) -> dict[str, Any] | None:
    """The result among the output: the whole of it, or its last line that is an object."""
    for candidate in (text, *reversed(text.splitlines())):
        try:
            value = json.loads(candidate)
        except ValueError:
            continue
        if isinstance(value, dict):
            return value
    return None
