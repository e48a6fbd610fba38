"""What may leave this machine."""

from __future__ import annotations

import pytest

from agentos.engine.backends.ray.secrecy import is_encrypted, variables_for_others, without_secrets
from agentos.engine.checkpoints.access import StoreAccess
from agentos.engine.messages import StartItem

VARIABLES = {
    "PATH": "/usr/bin",
    "HOME": "/home/me",
    "RAY_AUTH_TOKEN": "token",
    "AGENTOS_HOME": "/home/me/.agentos",
    "AGENTOS_SETTINGS": "{}",
    "LANG": "C.UTF-8",
    "MY_TOKEN": "secret",
}


@pytest.mark.parametrize(("value", "is_on"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_ray_says_whether_it_encrypts(value: str, is_on: bool) -> None:
    assert is_encrypted({"RAY_USE_TLS": value}) is is_on


def test_over_a_plain_connection_only_settings_travel() -> None:
    assert variables_for_others(VARIABLES, encrypted=False) == {"AGENTOS_SETTINGS": "{}", "LANG": "C.UTF-8"}


def test_over_an_encrypted_one_all_but_what_says_how_this_machine_is_laid_out() -> None:
    assert set(variables_for_others(VARIABLES, encrypted=True)) == {"AGENTOS_SETTINGS", "LANG", "MY_TOKEN"}


def test_a_start_over_a_plain_connection_does_not_have_the_password() -> None:
    message = StartItem(
        item_id="a",
        workflow="w",
        run_id="r",
        attempt=1,
        input={},
        checkpoint_address="postgresql://h/d#p/w/a",
        work_dir="/",
        fresh=False,
        heartbeat_seconds=1.0,
        stop_grace_seconds=1.0,
        environment={},
        access=StoreAccess(password="pw", fence=7),
    )
    sent = without_secrets(message)
    assert (sent.access.password, sent.access.fence) == ("", 7)
