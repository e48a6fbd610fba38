"""Keys that nobody told us: found by how they look, wherever and however they stand."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest

from agentos.keys.key_shapes import redact_shapes

_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-" + "a1B2" * 12,
        "sk-proj-" + "a1B2" * 12,
        "AKIA" + "ABCD1234" * 2,
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2" * 12,
        "glpat-" + "a1B2" * 6,
        "AIza" + "a1B2c" * 7,
        "ya29." + "a1B2" * 9,
        "xoxb-" + "123456789012-" * 2 + "abcdef",
        "sk_live_" + "a1B2" * 6,
        "hf_" + "a1B2" * 9,
        "npm_" + "a1B2" * 9,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlLW9mLWl0",
        f"-----BEGIN RSA PRIVATE KEY-----\n{_BODY}\n{_BODY}==\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\\n{_BODY}\\n",
    ],
)
def test_a_key_that_nobody_told_us_is_masked_by_its_shape(secret: str) -> None:
    text = f"E   AssertionError: 'before' {secret!s}' after\nnext line"
    masked = redact_shapes(text)
    assert len(masked) == len(text)
    assert masked.startswith("E   AssertionError: 'before' *")
    assert masked.endswith("after\nnext line")
    assert [line for line in secret.splitlines() if line in masked] == []


def test_shapes_keep_what_is_no_key_and_what_stands_around_one() -> None:
    harmless = "risk-management and task-oriented-programming; https://host/a:b@c; 40 characters: " + "a" * 40
    assert redact_shapes(harmless) == harmless
    assert redact_shapes("git clone https://me:hunter2@host/x") == "git clone https://**********@host/x"
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    assert secret not in redact_shapes(f'aws_secret_access_key = "{secret}"')
    token = "abcDEF123456" * 3
    assert token not in redact_shapes(f"Authorization: Bearer {token}")
    record = json.dumps({"text": f'-----BEGIN PRIVATE KEY-----\n{_BODY}"', "more": f'aws secret: "{secret}"'})
    assert _BODY not in json.dumps(json.loads(redact_shapes(record)))


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes])
def test_a_key_in_base64_is_masked_by_its_shape_wherever_it_stands(encode: Callable[[bytes], bytes]) -> None:
    for before in ("", "=", "x=", "a longer text that takes more than one line: "):
        encoded = encode(f"{before}sk-ant-api03-{'a1B2' * 12}".encode()).decode()
        masked = redact_shapes(f"said:\n{encoded}\nnext: {'a1B2' * 20}")
        assert not [line for line in encoded.split() if line in masked]
        # The word that follows may go with it, what is no key stays.
        assert masked.endswith(f": {'a1B2' * 20}")


def test_a_key_that_a_narrow_terminal_broke_is_masked_by_its_shape() -> None:
    key = f"sk-ant-api03-{'a1B2' * 12}"
    masked = redact_shapes(f"it is {key[:9]}\r\n{key[9:40]}\r\n{key[40:]} now\r\n")
    assert masked == f"it is {'*' * 9}\r\n{'*' * 31}\r\n{'*' * (len(key) - 40)} now\r\n"
