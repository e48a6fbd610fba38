"""Keys that nobody told us, found by their shape."""

from __future__ import annotations

import base64
import itertools
import re
from bisect import bisect_right

from agentos.keys.masked_spans import TEXT_CHARACTER

_KEY_SHAPES = re.compile(
    "|".join(
        (
            # A block runs to its end, or as far as it looks like one: output may be cut anywhere.
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----"
            r"(?:(?:[A-Za-z0-9+/=\s:,.-]|\\[nrt]){0,20000}?-----END [A-Z0-9 ]{0,50}-----"
            r"|(?:[A-Za-z0-9+/=\s]|\\[nrt]){0,20000})",
            r"\bsk-[A-Za-z0-9_-]{20,}",  # OpenAI, Anthropic and many that followed
            r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",  # AWS
            r"(?i:aws.{0,20}secret.{0,20}[\s\"'=:]{1,5})[A-Za-z0-9/+]{40}\b",
            r"\b(?:gh[opusr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,})",
            r"\b(?:AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})",  # Google
            r"\b(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,})",  # Slack
            r"\bhooks\.slack\.com/services/[A-Za-z0-9/]{20,}",
            r"\b(?:[rs]k_(?:live|test)_|whsec_)[A-Za-z0-9]{16,}",  # Stripe
            r"\b(?:hf_|gsk_|xai-|npm_|dop_v1_)[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{50,}",
            r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",  # SendGrid
            r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",  # signed tokens, JWT
            r"(?<=://)[^/\s:@\"'<>]{1,200}:[^/\s@\"'<>]{3,200}(?=@)",
            r"(?i:\bbearer\s{1,3})[A-Za-z0-9._~+/-]{20,}",
        )
    )
)
"""How keys look that common services give out. A key that looks like nothing is found by its value alone."""


_BASE64_RUN = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_ONE_ALPHABET = str.maketrans("-_", "+/")
_LINE = re.compile(r"[^\r\n]+")
_MOST_JOINED = 400_000
"""Characters of a text that is looked at without its line ends as well: more than a prompt or a report shows."""


def redact_shapes(text: str) -> str:
    """Mask everything that looks like a key, whoever it belongs to: plain, in base64, or broken over lines.

    Lengths and lines stay as they are.
    """
    if "\n" in text and len(text) <= _MOST_JOINED:
        text = _redact_over_lines(text)
    text = _KEY_SHAPES.sub(_starred, text)
    return _BASE64_RUN.sub(lambda found: _starred(found) if _hides_a_key(found[0]) else found[0], text)


def _starred(found: re.Match[str]) -> str:
    return TEXT_CHARACTER.sub("*", found[0])


def _hides_a_key(run: str) -> bool:
    """Wherever the encoded text begins in it: what stands before may look like a part of it."""
    letters = run.rstrip("=").translate(_ONE_ALPHABET)
    decoded = (base64.b64decode(letters[at : at + (len(letters) - at) // 4 * 4]).decode("latin-1") for at in range(4))
    return any(_KEY_SHAPES.search(text) for text in decoded)


def _redact_over_lines(text: str) -> str:
    """What a terminal or an encoder has broken into lines is one text without them."""
    stretches = list(_LINE.finditer(text))
    joined = "".join(stretch[0] for stretch in stretches)
    found = [match.span() for match in _KEY_SHAPES.finditer(joined)]
    found += [run.span() for run in _BASE64_RUN.finditer(joined) if _hides_a_key(run[0])]
    if not found:
        return text
    starts = list(itertools.accumulate((len(stretch[0]) for stretch in stretches[:-1]), initial=0))

    def place(joined_place: int) -> int:
        number = bisect_right(starts, joined_place) - 1
        return stretches[number].start() + joined_place - starts[number]

    for start, end in found:
        first, last = place(start), place(end - 1) + 1
        text = text[:first] + TEXT_CHARACTER.sub("*", text[first:last]) + text[last:]
    return text
