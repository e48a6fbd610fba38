"""What users may ask for as a worker's memory."""

from __future__ import annotations

import pytest

from agentos.engine.limits import memory_limit, refuse_too_little
from agentos.errors import UsageError


def test_no_text_is_no_limit() -> None:
    assert memory_limit("") is None
    refuse_too_little(None, 10_000)


def test_a_number_of_megabytes_is_taken() -> None:
    assert memory_limit("2000") == 2000


@pytest.mark.parametrize("text", ["0", "-5", "2.5", "lots", " 2000", "2_000", "\u0663", "9" * 21, "9" * 5_000])
def test_anything_else_is_refused_in_one_short_line(text: str) -> None:
    with pytest.raises(UsageError, match="expected a number of megabytes") as caught:
        memory_limit(text)
    assert len(str(caught.value)) < 200


def test_a_limit_below_what_is_loaded_is_refused_with_the_least_that_would_do() -> None:
    with pytest.raises(UsageError, match=r"AGENTOS_MEMORY_LIMIT_MB=300: too little .* at least (\d+)") as caught:
        refuse_too_little(300, 220)
    least = int(str(caught.value).partition("at least ")[2].partition(",")[0])
    assert least > 220
    refuse_too_little(least, 220)
