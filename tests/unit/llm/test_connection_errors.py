"""Why no connection came about: which cause, and what helps."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import certifi
import httpx2
import pytest

from agentos.errors import UsageError
from agentos.llm.connection_errors import connection_problem
from agentos.llm.http_client import new_ssl_context

CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIDHzCCAgegAwIBAgIUXO8auJ+yHk0SB9aCM5iW7oJEBhAwDQYJKoZIhvcNAQEL
BQAwFDESMBAGA1UEAwwJbG9jYWxob3N0MB4XDTI2MTExNjE2MDQyNloXDTI2MTEx
ODE2MDQyNlowFDESMBAGA1UEAwwJbG9jYWxob3N0MIIBIjANBgkqhkiG9w0BAQEF
AAOCAQ8AMIIBCgKCAQEAu7Ahr9+wu/RQ1zJycWtN7czoU/bwGT13FUEW35y9pPSZ
+3QT/D3j5nLaAySygYni5zzW7Wq0ylkkk02THRB7318l9XOYimkl1meP3h6v5C21
pzlyezgDnQaqNx7x+QEe3o0wiFEZL6qqqEzmNV8F/Mwux475nv0HfTeEDp7ylZm7
2tpLnjj5U3W0IvOahPa/Tx1oY6ZPdUDk3kcjc8qiiAzMkmVTZgc90QbvLFGFjOdG
iMUhjrPhLCm/C/O5mp4KQnCp1w75LG6OPDzpemHCXd5i1F+CnDGbdLyTMcgtvSRw
IopYKDmZVCv+I6MxgQZv+fBZX3q925fLNO/vJTrzawIDAQABo2kwZzAdBgNVHQ4E
FgQUPOoRRQA6G49vxaShL0we2WLsvI0wHwYDVR0jBBgwFoAUPOoRRQA6G49vxaSh
L0we2WLsvI0wDwYDVR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3Qw
DQYJKoZIhvcNAQELBQADggEBAKx1XGP72GJf5RiZAhEsB5cVf9RNAh78lxHBGJvb
00TdNwcOHV7LDK0QPPC6oLS30c6i1K1QkrLiid0+ZMeW31VuMSFgJK8AM+1UIY44
PA7qiTYNSHcUbnXyqoEGMFiftl+Q4yF6CngylM0nnL0GFmpuYzcKy8lgm8S1Ei82
JrzsRBp5cxgEwYBEM2BIFjhCJu+zmIRK2rasHj2K6pXXIqoRFG5/uX7vj4ewjYXG
a4YYIwqUvZ7jnZwTbKyENdN7AjE24hGAkVqneVztHbH45IuTDa8ryxXhM1YSLf/S
sb5fckz5LCRbymhQDyAd5JXtvM+Iu5vJUmEKczkszEZlncM=
-----END CERTIFICATE-----
"""


def wrapped(cause: BaseException) -> Exception:
    """As it comes from an SDK: with the cause far inside."""
    try:
        try:
            raise OSError("All connection attempts failed") from ExceptionGroup("many", [OSError(), cause])  # type: ignore[list-item]
        except OSError as error:
            raise httpx2.ConnectError("") from error
    except httpx2.ConnectError as error:
        return error


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), ["api.example (DNS)", "base URL"]),
        (ConnectionRefusedError(111, "refused"), ["api.example refused the connection", "base URL"]),
        (ssl.SSLCertVerificationError(1, "self-signed"), ["certificate of api.example", "REQUESTS_CA_BUNDLE"]),
        (ssl.SSLError(1, "wrong version"), ["api.example does not speak TLS"]),
    ],
)
def test_the_cause_is_named_with_what_to_do(cause: BaseException, words: list[str]) -> None:
    problem = connection_problem(wrapped(cause), "https://api.example/v1")
    assert all(each in problem for each in words), problem


def test_an_error_without_a_known_cause_says_nothing() -> None:
    assert connection_problem(httpx2.ReadError("x"), "https://api.example") == ""


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "no address is known for the proxy proxy.example:3128"),
        (ConnectionRefusedError(111, "refused"), "the proxy proxy.example:3128 refused the connection"),
        (
            httpx2.ProxyError("403 Forbidden"),
            "proxy.example:3128 lets no call through to api.example (403 Forbidden)",
        ),
    ],
)
def test_a_proxy_on_the_way_is_named_in_the_place_of_the_provider(
    cause: BaseException, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "direct.example")
    problem = connection_problem(wrapped(cause), "https://api.example/v1")
    assert words in problem
    assert "HTTPS_PROXY" in problem
    assert "secret" not in problem
    assert "proxy" not in connection_problem(wrapped(ConnectionRefusedError()), "https://direct.example")


def test_the_bundle_that_other_tools_use_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    bundle = tmp_path / "company.pem"
    bundle.write_text(CERTIFICATE)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
    assert [dict(x[0] for x in each["subject"]) for each in new_ssl_context().get_ca_certs()] == [  # type: ignore[misc]
        {"commonName": "localhost"}
    ]
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "absent.pem"))
    with pytest.raises(UsageError, match=r"REQUESTS_CA_BUNDLE=.*absent\.pem: No such file"):
        new_ssl_context()


def test_a_bundle_counts_beside_the_certificates_of_the_system_and_a_wrong_name_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "company.pem"
    bundle.write_text(CERTIFICATE)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    known = [dict(x[0] for x in each["subject"]) for each in new_ssl_context().get_ca_certs()]  # type: ignore[misc]
    assert {"commonName": "localhost"} in known
    assert len(known) > 50
    monkeypatch.setenv("SSL_CERT_DIR", f"{tmp_path}:/nowhere")
    assert new_ssl_context() is not None
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    with pytest.raises(UsageError, match=r"SSL_CERT_FILE=.*absent\.pem: No such file"):
        new_ssl_context()


def test_a_bundle_that_two_variables_name_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    read = ssl.SSLContext.load_verify_locations

    def noted(context: ssl.SSLContext, cafile: str) -> None:
        found.append(cafile)
        read(context, cafile)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", noted)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, certifi.where())
    assert len(new_ssl_context().get_ca_certs()) > 50
    assert found == [certifi.where()]
