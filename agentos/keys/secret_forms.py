"""The forms a secret travels in: its own text, and what common encoders make of it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

from agentos.keys.masked_spans import without_breaks

_PERCENT_CODE = re.compile(r"%[0-9A-F]{2}")
_UNICODE_ESCAPE = re.compile(r"\\u[0-9a-f]{4}")


def forms_of(secret: str) -> set[bytes]:
    """The secret as it may be met in text without breaks: plain, escaped, quoted for URLs, hex and base64."""
    texts = {secret, *_escaped(secret), *_url_quoted(secret)}
    raw = secret.encode(errors="surrogatepass")
    for encoded in _base64_cores(raw):
        texts |= {encoded, encoded.translate(str.maketrans("+/", "-_")), *_url_quoted(encoded)}
    texts |= {raw.hex(), raw.hex().upper()}
    return {without_breaks(text.encode(errors="surrogatepass")) for text in texts}


def _escaped(secret: str) -> Iterator[str]:
    """Inside of JSON, once and twice, of Python literals and of HTML."""
    for is_ascii in (True, False):
        once = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        for form in (once, once.replace("/", r"\/"), _UNICODE_ESCAPE.sub(_upper_digits, once)):
            yield form
            yield json.dumps(form)[1:-1]
    yield repr(secret)[1:-1]
    yield repr(secret.encode(errors="surrogatepass"))[2:-1]
    html = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield html
    yield html.replace('"', "&quot;").replace("'", "&#x27;")
    yield html.replace('"', "&#34;").replace("'", "&#39;")


def _upper_digits(escape: re.Match[str]) -> str:
    return r"\u" + escape[0][2:].upper()


def _url_quoted(text: str) -> Iterator[str]:
    """As path, query and form encoders of Python, browsers and curl write it, in both cases of hex digits."""
    quoted = [quote(text, safe=safe, errors="surrogatepass") for safe in ("", "/", "!*'()", ";,/?:@&=+$!*'()#")]
    for form in (*quoted, quote_plus(text, errors="surrogatepass")):
        yield form
        yield _PERCENT_CODE.sub(lambda code: code[0].lower(), form)


def _base64_cores(raw: bytes) -> Iterator[str]:
    """The base64 characters that `raw` alone decides, wherever it stands in a longer text that is encoded.

    A byte's bits reach into two characters, so there are three ways to begin, and the characters at the borders
    depend on the neighbours too. Where nothing follows, the last of them is decided as well.
    """
    for bytes_before in range(3):
        encoded = base64.b64encode(bytes(bytes_before) + raw).decode().rstrip("=")
        first = -(-bytes_before * 8 // 6)
        yield encoded[first : (bytes_before + len(raw)) * 8 // 6]
        yield encoded[first:]
