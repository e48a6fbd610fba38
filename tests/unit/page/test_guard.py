"""Nobody gets behind the gate without a token, from another name, or from another page; and browsers are told why."""

from __future__ import annotations

import dis

import pytest
from page_site import PORT, Site, started

from agentos.events import ItemStarted
from agentos.page.guard import POLICY, Role, Tokens

RUN = "20261118-021500-000001"


def test_without_a_link_nothing_is_shown(site: Site) -> None:
    site.write_run([started("1")])
    for path in ("/api/home", f"/api/runs/{RUN}", f"/api/runs/{RUN}/events", "/api/keys", "/api/nothing"):
        code, document = site.refused(path, role=None)
        assert code == 401, path
        assert "link" in document["error"]
    for path in ("/", "/static/page.css", "/anything"):
        answer = site.ask("GET", path, role=None)
        assert answer.status_code == 401
        assert "addresses that the dashboard printed" in answer.text


def test_the_token_leaves_the_address_for_a_cookie_that_scripts_and_other_sites_cannot_use(site: Site) -> None:
    answer = site.ask("GET", f"/?token={site.tokens.read}", role=None)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert cookie == f"agentos_page_{PORT}={site.tokens.read}; HttpOnly; SameSite=Strict; Path=/"
    assert "token" not in answer.headers["location"]


@pytest.mark.parametrize("token", ["", "x", "é", "a" * 20_000, "%00", "null"])
def test_another_token_is_no_token(site: Site, token: str) -> None:
    answer = site.ask("GET", "/", role=None, params={"token": token})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_the_two_tokens_are_two_roles() -> None:
    tokens = Tokens()
    assert tokens.role_of(tokens.read) is Role.READ
    assert tokens.role_of(tokens.control) is Role.CONTROL
    assert tokens.role_of(tokens.control[:-1]) is None
    assert len({tokens.read, tokens.control, Tokens().read}) == 3
    assert tokens.read not in repr(tokens)


def test_tokens_are_compared_in_a_time_that_tells_nothing_about_them() -> None:
    steps = list(dis.get_instructions(Tokens.role_of))
    assert "compare_digest" in {step.argval for step in steps}
    assert not [step for step in steps if step.opname in ("COMPARE_OP", "CONTAINS_OP")]


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1.evil.example:{PORT}", ""]
)
def test_a_request_for_another_name_is_refused_even_with_a_token(site: Site, host: str) -> None:
    code, document = site.refused("/api/home", headers={"Host": host})
    assert code == 403
    assert "does not answer to that name" in document["error"]


@pytest.mark.parametrize("host", [f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}"])
def test_every_name_of_this_machine_will_do(site: Site, host: str) -> None:
    assert site.ask("GET", "/api/home", headers={"Host": host}).status_code == 200


def test_every_answer_tells_the_browser_what_to_refuse(site: Site) -> None:
    site.write_run([started("1")])
    answers = [
        site.ask("GET", "/api/home"),
        site.ask("GET", "/api/nothing"),
        site.ask("GET", "/", role=None),
        site.ask("GET", "/api/home", headers={"Host": "evil.example"}),
        site.ask("GET", f"/?token={site.tokens.read}", role=None),
        site.ask("GET", f"/api/runs/{RUN}/events"),
    ]
    for answer in answers:
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert "unsafe" not in POLICY


def test_who_comes_from_another_page_takes_one_step_of_ours_for_the_cookie(site: Site) -> None:
    answer = site.ask("GET", "/", role=None, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert 'content="0; url=/"' in answer.text
    assert site.ask("GET", "/api/home", role=None, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 401


@pytest.mark.parametrize(
    ("role", "headers"),
    [
        (Role.READ, {}),
        (Role.CONTROL, {"Origin": "http://evil.example"}),
        (Role.CONTROL, {"Origin": f"https://127.0.0.1:{PORT}"}),
        (Role.CONTROL, {"Origin": ""}),
        (Role.CONTROL, {"Origin": "null"}),
        (Role.CONTROL, {"X-AgentOS-Control": ""}),
        (Role.CONTROL, {"Content-Type": "text/plain"}),
        (Role.CONTROL, {"Sec-Fetch-Site": "same-site"}),
    ],
)
def test_nothing_changes_by_a_request_of_another_page_or_by_the_link_to_look(
    site: Site, role: Role, headers: dict[str, str]
) -> None:
    site.write_run([started("1"), ItemStarted(item_id="1", attempt=1, pid=7)], is_live=True)
    answer = site.post(f"/api/runs/{RUN}/control", {"act": "stop"}, role=role, **headers)
    assert answer.status_code == 403, answer.text


def test_other_methods_and_large_bodies_are_refused(site: Site) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        assert site.ask(method, "/api/home").status_code == 405
    site.write_run([started("1")])
    big = site.post(f"/api/runs/{RUN}/control", {"act": "stop", "reason": "x" * 100_000})
    assert big.status_code == 413
    for wrong in ([], "stop", None, 7):
        assert site.post(f"/api/runs/{RUN}/control", wrong).status_code == 400


@pytest.mark.parametrize("name", ["../../etc", "..%2f..%2fetc", "last", "%00", ".pruned-x", "2026*"])
def test_only_runs_are_runs(site: Site, name: str) -> None:
    site.write_run([started("1")])
    for path in (f"/api/runs/{name}", f"/api/runs/{name}/events", f"/api/runs/{name}/log?id=1"):
        assert site.ask("GET", path).status_code == 404


def test_a_folder_that_is_a_link_is_no_run(site: Site) -> None:
    run_dir = site.write_run([started("1")])
    (site.runs_dir / "20261118-021500-000002").symlink_to(run_dir)
    assert site.refused("/api/runs/20261118-021500-000002")[0] == 404


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/..%2f..%2fpage/guard.py", "/static//etc/passwd", "/static/%2e%2e/view.py"]
)
def test_only_the_pages_own_files_are_served(site: Site, path: str) -> None:
    assert site.ask("GET", path).status_code == 404
