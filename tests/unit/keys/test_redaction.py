"""Secrets are masked in every form, whatever surrounds or cuts them, and nothing else is."""

from __future__ import annotations

import base64
import html
import itertools
import json
import random
import string
import urllib.parse

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentos.keys.redaction import (
    MarkRedactor,
    Redactor,
    StreamRedactor,
    redact_record,
)
from agentos.keys.secret_forms import forms_of
from agentos.keys.secret_index import MOST_SHOWN

# Put together at run time, so that no scanner takes them for keys that leaked.
KEY = "sk-" + "test_" + "q7RtZ2mVx94LbNcWp0EyHs81DkUf"
OTHER_KEY = "AI" + "za" + "Sx4TtGvQm-19KpWc_7ZnLrYb82EhUdJf305"
AWKWARD = 'pä "q"/w+\\x&<y>=%~ \t€'

few = settings(deadline=None, max_examples=120)
alphabet = 'ab1-/+&"\\ ä\n'
secret_texts = st.text("ab1-/+ä", min_size=6, max_size=14)
secret_sets = st.lists(secret_texts, max_size=3)


def stars(text: str) -> str:
    return "*" * len(text)


def masked_by_hand(secrets: list[str], data: bytes, *, is_cut: bool = False) -> bytes:
    """The definition, taken literally: every place of every form, in the text without its line breaks."""
    places = [place for place, byte in enumerate(data) if byte == 9 or (byte >= 32 and byte != 127)]
    text = bytes(data[place] for place in places)
    forms = {form for secret in secrets if len(secret.strip()) >= 6 for form in forms_of(secret.strip())}
    hit: set[int] = set()
    for form in forms:
        for start in range(len(text)):
            if text.startswith(form, start):
                hit.update(range(start, start + len(form)))
    if is_cut:
        endings = (start for start in range(len(text)) if any(f.startswith(text[start:]) for f in forms))
        start = next((start for start in endings if not any(f == text[start:] for f in forms)), len(text))
        if len(text) - start > MOST_SHOWN:
            hit.update(range(start, len(text)))
    masked = bytearray(data)
    for index in hit:
        masked[places[index]] = ord("*")
    return bytes(masked)


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    borders = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(borders)]


@st.composite
def texts_with_secrets(draw: st.DrawFn) -> tuple[list[str], bytes]:
    """Secrets, and bytes in which whole and half forms of them, noise and line breaks follow each other."""
    secrets = draw(secret_sets)
    forms = sorted({form for secret in secrets for form in forms_of(secret)}) or [b"none"]
    form = st.sampled_from(forms)
    part = st.one_of(
        form,
        form.flatmap(lambda whole: st.integers(1, len(whole)).map(lambda length: whole[:length])),
        form.flatmap(lambda whole: st.integers(0, len(whole)).map(lambda at: whole[:at] + b"\r\n" + whole[at:])),
        st.sampled_from([b"\n", b"\r\n", b" ", b"noise: ", b"a", b"YQ"]),
        st.binary(max_size=6),
    )
    return secrets, b"".join(draw(st.lists(part, max_size=8)))


class TestForms:
    @pytest.mark.parametrize("secret", [KEY, OTHER_KEY, AWKWARD, "correct horse battery"])
    @pytest.mark.parametrize(
        "encode",
        [
            pytest.param(str, id="raw"),
            pytest.param(lambda s: urllib.parse.quote(s), id="quote"),
            pytest.param(lambda s: urllib.parse.quote(s, safe=""), id="quote all"),
            pytest.param(urllib.parse.quote_plus, id="quote_plus"),
            pytest.param(lambda s: urllib.parse.urlencode({"": s})[1:], id="urlencode"),
            pytest.param(lambda s: json.dumps(s)[1:-1], id="json"),
            pytest.param(lambda s: json.dumps(s, ensure_ascii=False)[1:-1], id="json, not ascii"),
            pytest.param(lambda s: json.dumps(json.dumps(s))[3:-3], id="json in json"),
            pytest.param(lambda s: json.dumps(s)[1:-1].replace("/", r"\/"), id="json of php"),
            pytest.param(html.escape, id="html"),
            pytest.param(lambda s: repr(s)[1:-1], id="repr"),
            pytest.param(lambda s: repr(s.encode())[2:-1], id="repr of bytes"),
            pytest.param(lambda s: s.encode().hex(), id="hex"),
            pytest.param(lambda s: s.encode().hex().upper(), id="upper-case hex"),
        ],
    )
    def test_every_encoding_of_a_secret_is_masked_whole(self, secret, encode):
        encoded = encode(secret)

        masked = Redactor([secret]).redact_text(f"before {encoded} after")

        assert masked == f"before {stars(encoded)} after"

    def test_percent_codes_are_masked_in_lower_case_too(self):
        quoted = urllib.parse.quote(AWKWARD, safe="")
        lowered = "".join(c.lower() if quoted[max(0, i - 2) : i].find("%") >= 0 else c for i, c in enumerate(quoted))
        assert lowered != quoted

        assert Redactor([AWKWARD]).redact_text(lowered) == stars(lowered)

    @pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
    @pytest.mark.parametrize("before", ["", "u", "us", "user:", "user:x", "Ω=:"])
    @pytest.mark.parametrize("after", ["", "!", "!!", "!!!"])
    @pytest.mark.parametrize("secret", [KEY, OTHER_KEY, "~~~???>>>ÿÿÿ"])
    def test_no_byte_of_a_secret_can_be_decoded_from_base64(self, encode, before, after, secret):
        encoded = encode(f"{before}{secret}{after}".encode()).decode()

        masked = Redactor([secret]).redact_text(encoded)

        length = len(secret.encode())
        start = len(before.encode())
        left = [char for char in masked[start * 8 // 6 : (start + length) * 8 // 6 + 1] if char not in "*="]
        assert len(masked) == len(encoded)
        assert len(left) <= 2  # the two that hold bits of a neighbour as well
        assert masked[: start * 8 // 6] == encoded[: start * 8 // 6]

    def test_the_last_base64_character_is_masked_when_nothing_follows_the_secret(self):
        for secret in (KEY, KEY + "x", KEY + "xy"):
            encoded = base64.b64encode(secret.encode()).decode()
            assert Redactor([secret]).redact_text(encoded).strip("=") == stars(encoded.strip("="))

    def test_base64_inside_of_a_url_is_masked(self):
        secret = "~~~???>>>~~~???>>>"
        quoted = urllib.parse.quote_plus(base64.b64encode(secret.encode()).decode())
        assert "%2" in quoted

        assert set(Redactor([secret]).redact_text(quoted)) == {"*"}

    @pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
    def test_base64_wrapped_at_76_columns_keeps_its_line_breaks(self, line_break):
        secret = KEY * 5
        encoded = base64.encodebytes(secret.encode()).decode().replace("\n", line_break)

        masked = Redactor([secret]).redact_text(encoded)

        assert masked == "".join(c if c in "\r\n=" else "*" for c in encoded)

    def test_a_secret_wrapped_anywhere_is_masked_on_both_lines(self):
        redactor = Redactor([KEY])
        for at in range(1, len(KEY)):
            wrapped = f"key: {KEY[:at]}\r\n{KEY[at:]}\nend"
            assert redactor.redact_text(wrapped) == f"key: {'*' * at}\r\n{'*' * (len(KEY) - at)}\nend"

    @pytest.mark.parametrize("control", ["\0", "\a", "\b", "\x7f", "\x1b"])
    def test_a_control_character_inside_of_a_secret_does_not_hide_it(self, control):
        text = f"key: {KEY[:9]}{control}{KEY[9:]}"

        assert Redactor([KEY]).redact_text(text) == f"key: {'*' * 9}{control}{'*' * (len(KEY) - 9)}"

    def test_colour_inside_of_a_secret_does_not_hide_it_and_stays(self):
        block = f"\x1b[1mkey\x1b[0m \x1b[01;31m{KEY[:3]}\x1b[m{KEY[3:]} {OTHER_KEY}\n".encode()
        masked = f"\x1b[1mkey\x1b[0m \x1b[01;31m***\x1b[m{stars(KEY[3:])} {stars(OTHER_KEY)}\n".encode()
        clean = b"\x1b[1mall\x1b[0m is well\n"

        redactor = Redactor([KEY, OTHER_KEY])
        assert redactor.redact_coloured(block) == masked
        assert redactor.redact_coloured(clean) is clean
        assert redactor.redact_coloured(KEY.encode()) == stars(KEY).encode()
        assert Redactor().redact_coloured(block) is block

    def test_a_secret_of_several_lines_is_masked(self):
        secret = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----\n"
        assert set(Redactor([secret]).redact_text(secret)) == {"*", "\n"}
        escaped = json.dumps(secret)
        assert Redactor([secret]).redact_text(escaped) == '"' + stars(escaped[1:-3]) + r"\n" + '"'


class TestRedactor:
    def test_clean_data_comes_back_as_the_same_object(self):
        redactor = Redactor([KEY, OTHER_KEY])
        data = b"commit 3d31069a0b1c2d3e4f5061728394a5b6c7d8e9f0\n" * 50
        text = data.decode()

        assert redactor.redact(data) is data
        assert redactor.redact_text(text) is text

    def test_without_secrets_everything_passes(self):
        data = KEY.encode()
        stream = StreamRedactor(Redactor())

        assert Redactor().redact(data) is data
        assert Redactor().redact_text(KEY) is KEY
        assert stream.feed(data) is data
        assert (stream.flush_partial(), stream.flush(), stream.is_holding) == (b"", b"", False)

    def test_a_secret_that_begins_another_leaves_nothing_of_the_longer_one(self):
        longer = KEY + "tail99"
        redactor = Redactor([KEY, longer])

        assert redactor.redact_text(f"{longer} {KEY} {KEY}t") == f"{stars(longer)} {stars(KEY)} {stars(KEY)}t"

    def test_overlapping_secrets_are_masked_over_their_union(self):
        assert Redactor(["abcdefgh", "efghijkl"]).redact(b"xabcdefghijklx") == b"x" + b"*" * 12 + b"x"

    def test_a_secret_of_fewer_than_six_characters_is_left_alone(self):
        redactor = Redactor(["error", "", "  ", "\0" * 8, "a\n\n\n\nn"])

        assert redactor.redact_text("an error") == "an error"
        assert Redactor(["errors"]).redact_text("2 errors") == "2 ******"

    def test_white_space_around_a_secret_is_not_part_of_it(self):
        assert Redactor([f" {KEY}\n"]).redact_text(f"[{KEY}]") == f"[{stars(KEY)}]"

    def test_added_secrets_are_masked_and_old_ones_stay_masked(self):
        redactor = Redactor([KEY])
        redactor.add([OTHER_KEY])

        assert redactor.redact_text(KEY + " " + OTHER_KEY) == stars(KEY) + " " + stars(OTHER_KEY)

    def test_its_own_text_shows_no_secret(self):
        assert repr(Redactor([KEY])) == "<Redactor of 1 secrets>"

    def test_text_keeps_its_number_of_characters(self):
        assert Redactor(["geheimnis-äöü"]).redact_text("→geheimnis-äöü\ud800←") == "→*************\ud800←"

    def test_a_cut_text_does_not_end_in_a_beginning_of_a_secret(self):
        redactor = Redactor([KEY])

        assert redactor.redact_text("see " + KEY[:9], is_cut=True) == "see *********"
        assert redactor.redact_text("see " + KEY[:3], is_cut=True) == "see " + KEY[:3]
        assert redactor.redact_text("see " + KEY[:9]) == "see " + KEY[:9]

    def test_a_json_document_stays_valid(self):
        document = {"header": AWKWARD, "key": KEY, "n": [1, None]}
        redactor = Redactor([KEY, AWKWARD])

        for is_ascii in (True, False):
            encoded = json.dumps(document, ensure_ascii=is_ascii)
            masked = json.loads(redactor.redact_text(encoded))
            assert set(masked["header"]) == set(masked["key"]) == {"*"}
            assert masked["n"] == [1, None]

    @few
    @given(texts_with_secrets(), st.booleans())
    @example((["aaaaaa"], b"a" * 40), True)
    @example((["a-a-a-", "-a-a-a-a"], b"a-a-a-a-a\n-a-a-a"), True)
    def test_it_masks_exactly_what_the_definition_says(self, case, is_cut):
        secrets, data = case
        assert Redactor(secrets).redact(data, is_cut=is_cut) == masked_by_hand(secrets, data, is_cut=is_cut)

    @few
    @given(secret_sets, st.lists(st.text(alphabet, max_size=9), max_size=5), st.integers(0, 5))
    def test_text_is_masked_like_its_bytes(self, secrets, words, place):
        text = "".join([*words[:place], *secrets, *words[place:]])
        redactor = Redactor(secrets)

        masked = redactor.redact_text(text)

        assert len(masked) == len(text)
        squeezed = masked.replace("\n", "")
        assert not any(len(secret) >= 6 and secret in squeezed for secret in secrets)
        if text.isascii():
            assert masked.encode() == redactor.redact(text.encode())

    def test_clean_output_comes_back_as_the_very_same_bytes(self):
        chance = random.Random(7)
        keys = ["".join(chance.choices(string.ascii_letters + string.digits + "-_", k=45)) for _ in range(5)]
        redactor = Redactor(keys)
        line = b"2026-11-16 03:31:31,123 [COORDINATOR] INFO Started item LLD-42 with 3 workers, 2 keys are in use\n"
        data = line * 10_000

        # Not even copied: the fast path. `benchmarks/growth.py` says how fast.
        assert redactor.redact(data) is data


class TestStreamRedactor:
    @few
    @given(texts_with_secrets(), st.lists(st.integers(0, 1000), max_size=8))
    @example((["aaaaaa"], b"a" * 15), [1, 2, 3, 7, 9])
    @example((["a1b1a1b1", "b1a1b1b1"], b"a1b1a1b1b1\na1b1a1b1"), [4, 8, 9, 12])
    @example((["a1b1b1", "11-11-11"], b"a1b1b1"), [6])
    def test_the_pieces_add_up_to_the_redacted_whole(self, case, cuts):
        secrets, data = case
        redactor = Redactor(secrets)
        stream = StreamRedactor(redactor)

        out = b"".join([*map(stream.feed, pieces_of(data, cuts)), stream.flush()])

        assert out == redactor.redact(data, is_cut=True)

    @few
    @given(secret_texts, st.data())
    def test_with_prompts_shown_in_between_no_more_than_three_characters_get_out(self, secret, data):
        form = data.draw(st.sampled_from(sorted(forms_of(secret))))
        text = b"> " + form + b" <"
        stream = StreamRedactor(Redactor([secret]))
        out = b""
        for piece in pieces_of(text, data.draw(st.lists(st.integers(0, 1000), max_size=12))):
            out += stream.feed(piece) + (stream.flush_partial() if data.draw(st.booleans()) else b"")
        out += stream.flush()

        assert len(out) == len(text)
        assert sum(byte != ord("*") for byte in out[2:-2]) <= MOST_SHOWN

    def test_a_key_fed_byte_by_byte_with_a_prompt_after_each_shows_three_characters(self):
        stream = StreamRedactor(Redactor([KEY]))

        out = b"".join(stream.feed(bytes([byte])) + stream.flush_partial() for byte in KEY.encode())

        assert out + stream.flush() == KEY[:3].encode() + b"*" * (len(KEY) - 3)

    def test_text_that_cannot_begin_a_secret_passes_at_once(self):
        stream = StreamRedactor(Redactor([KEY]))

        assert stream.feed(b"Continue? [y/n] ") == b"Continue? [y/n] "
        assert not stream.is_holding

    def test_only_the_possible_beginning_is_held_back(self):
        stream = StreamRedactor(Redactor([KEY]))

        assert stream.feed(b"line\nkey: " + KEY[:7].encode()) == b"line\nkey: "
        assert stream.is_holding
        assert stream.flush_partial() == b""
        assert stream.feed(b"?\n") == KEY[:7].encode() + b"?\n"

    def test_a_held_line_end_is_shown_on_request(self):
        stream = StreamRedactor(Redactor([KEY]))

        assert stream.feed(b"2 keys\n") == b"2 key"
        assert stream.flush_partial() == b"s\n"
        assert stream.flush_partial() == b""
        assert stream.feed(KEY[1:].encode() + b" ") == b"*" * (len(KEY) - 1) + b" "

    def test_a_whole_secret_that_may_be_the_beginning_of_another_is_shown_masked_on_request(self):
        stream = StreamRedactor(Redactor([KEY, KEY + "tail99"]))

        assert stream.feed(KEY.encode() + b"\n") == b""
        assert stream.flush_partial() == b"*" * len(KEY) + b"\n"
        assert stream.feed(b"tail99.") == b"******."

    def test_at_the_end_of_the_stream_half_a_secret_is_masked(self):
        stream = StreamRedactor(Redactor([KEY]))

        assert stream.feed(KEY[:12].encode() + b"\n") + stream.flush() == b"*" * 12 + b"\n"
        assert stream.feed(b"again\n") + stream.flush() == b"again\n"

    def test_endless_line_breaks_after_half_a_secret_are_not_kept(self):
        stream = StreamRedactor(Redactor([KEY]))
        out = stream.feed(KEY[:12].encode()) + b"".join(stream.feed(b"\n" * 500) for _ in range(20))

        assert out == b"*" * 12 + b"\n" * (len(out) - 12)
        assert len(out) > 5000
        rest = stream.feed(KEY[12:].encode() + b"!") + stream.flush()
        assert rest.lstrip(b"\n") == b"*" * (len(KEY) - 12) + b"!"

    def test_secrets_added_during_the_stream_are_masked_from_then_on(self):
        redactor = Redactor()
        stream = StreamRedactor(redactor)
        before = stream.feed(KEY.encode())
        redactor.add([KEY])

        assert before == KEY.encode()
        assert stream.feed(KEY.encode()) + stream.flush() == b"*" * len(KEY)


class TestRecords:
    def test_texts_are_redacted_at_every_depth_and_all_else_stays(self):
        redactor = Redactor([KEY])
        record = {
            "message": f"key {KEY}",
            KEY: [KEY.encode(), (KEY, 1)],
            "seconds": 1.5,
            "flags": {"ok": True, "error": None},
        }

        assert redact_record(record, redactor) == {
            "message": f"key {stars(KEY)}",
            stars(KEY): [b"*" * len(KEY), (stars(KEY), 1)],
            "seconds": 1.5,
            "flags": {"ok": True, "error": None},
        }
        assert record["message"] == f"key {KEY}"


class TestMarks:
    """What a process is given that has to hide secrets and must not know them."""

    @few
    @given(texts_with_secrets())
    @example(([KEY, OTHER_KEY, AWKWARD], f"{KEY}{OTHER_KEY} {AWKWARD}\n{KEY[:9]}\n{KEY[9:]}".encode()))
    def test_the_same_is_masked_as_with_the_secrets_themselves(self, case):
        secrets, data = case

        assert MarkRedactor(Redactor(secrets).marks()).redact(data) == masked_by_hand(secrets, data)

    @few
    @given(texts_with_secrets())
    def test_text_is_masked_like_bytes(self, case):
        secrets, data = case
        text = data.decode(errors="replace")

        assert MarkRedactor(Redactor(secrets).marks()).redact_text(text) == Redactor(secrets).redact_text(text)

    def test_nothing_of_a_secret_is_in_them(self):
        told = repr(Redactor([KEY, OTHER_KEY, "correct horse battery"]).marks())

        for secret in (KEY, OTHER_KEY, "correct horse battery"):
            parts = [secret[place : place + 5] for place in range(len(secret) - 4)]
            assert not [part for part in parts if part in told or part.encode().hex() in told]

    def test_they_follow_the_secrets_that_are_added(self):
        redactor = Redactor([KEY])
        before = redactor.marks()
        redactor.add([OTHER_KEY])

        assert redactor.marks() is redactor.marks()
        assert MarkRedactor(before).redact_text(OTHER_KEY) == OTHER_KEY
        assert MarkRedactor(redactor.marks()).redact_text(KEY + OTHER_KEY) == stars(KEY + OTHER_KEY)

    def test_without_secrets_nothing_changes(self):
        assert MarkRedactor(Redactor().marks()).redact_text(KEY) == KEY
        assert MarkRedactor().redact(KEY.encode()) == KEY.encode()
