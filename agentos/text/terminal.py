"""Makes the bytes a worker prints safe to show: readable, one line each, and without power over the terminal."""

from __future__ import annotations

import re

_ESC = b"\x1b"
_RESET = b"\x1b[0m"

# Everything but the C0 controls and DEL; tab and newline are the two controls that may stay.
_NOT_CONTROLS = b"\t\n" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))
_CONTROLS = sorted(set(range(0x100)) - set(_NOT_CONTROLS))
_CONTROL_ESCAPES = [(bytes([control]), b"\\x%02x" % control) for control in _CONTROLS]


# Characters beyond ASCII that end lines, start sequences or reorder what is read: the C1 controls, the line and the
# paragraph separator, and the bidirectional embeddings, overrides and isolates.
_UNSAFE_POINTS = [*range(0x80, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
# Where `surrogateescape` puts the bytes that are not UTF-8.
_INVALID_BYTES = range(0x80, 0x100)
_UNSAFE_ESCAPES = {point: f"\\u{point:04x}" for point in _UNSAFE_POINTS} | {
    0xDC00 + byte: f"\\x{byte:02x}" for byte in _INVALID_BYTES
}
_UNSAFE_CHARACTER = re.compile("[" + "".join(map(chr, _UNSAFE_ESCAPES)) + "]")

# What ESC starts, as ECMA-48 has it. Repeats are possessive and no alternative can fail late, so the time is linear.
# A string (OSC, DCS, ...) that nobody ends stops where a terminal would give up on it, or at the end of its line.
_SEQUENCE_BODY = rb"""
    (?: \]     [^\x07\x18\x1a\x1b\n]*+ (?: \x07 | \x1b\\ )?+   # OSC: titles, hyperlinks, clipboard
      | [PX^_] [^\x18\x1a\x1b\n]*+     (?: \x1b\\ )?+          # DCS, SOS, PM, APC
      | \[     [0-?]*+ [\ -/]*+ [@-~]?+                        # CSI: cursor, erase, modes, colour
      |        [\ -/]*+ [0-~]?+                                # one character, or a choice of character set
    )"""
_ANY_SEQUENCE = re.compile(rb"\x1b" + _SEQUENCE_BODY, re.VERBOSE)
_ANY_SEQUENCE_BUT_COLOUR = re.compile(rb"\x1b (?! \[ [0-9;:]*+ m )" + _SEQUENCE_BODY, re.VERBOSE)
_COLOURED_REST_OF_LINE = re.compile(rb"\x1b[^\n]*+")


def clean_block(block: bytes, *, keep_colour: bool) -> bytes:
    r"""Return whole lines that are valid UTF-8 and safe on any terminal, as many as `block` has.

    `block` holds whole lines, each ended by `\n`. Control characters and invalid bytes become visible escapes such as
    `\x00` or `\u202e`. Escape sequences vanish; only colour stays when `keep_colour`, and then never leaves its line.
    Cleaning twice gives what cleaning once gave. Time is linear in the size of the block.
    """
    controls = block.translate(None, _NOT_CONTROLS)
    if controls:
        block = _without_controls(block, controls, keep_colour)
    return block if block.isascii() else _without_unsafe_characters(block)


def _without_controls(block: bytes, controls: bytes, keep_colour: bool) -> bytes:
    if _ESC in controls:
        block = _keep_only_colour(block) if keep_colour else _ANY_SEQUENCE.sub(b"", block)
    for control, shown in _CONTROL_ESCAPES:
        # An ESC that is left now begins a colour.
        if control in controls and control != _ESC:
            block = block.replace(control, shown)
    return block


def _keep_only_colour(block: bytes) -> bytes:
    block = _ANY_SEQUENCE_BUT_COLOUR.sub(b"", block)
    block = _COLOURED_REST_OF_LINE.sub(b"\\g<0>" + _RESET, block)
    return block.replace(_RESET + _RESET + b"\n", _RESET + b"\n")


def _without_unsafe_characters(block: bytes) -> bytes:
    text = block.decode(errors="surrogateescape")
    return text.translate(_UNSAFE_ESCAPES).encode() if _UNSAFE_CHARACTER.search(text) else block
