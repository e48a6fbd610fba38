"""What somebody who mistyped a name may have meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_MOST = 3


def nearest(name: str, known: Iterable[str], most: int = _MOST, likeness: float = 0.6) -> list[str]:
    """The known names that are most like this one, the likeliest first; case does not count. 1 is the same name."""
    import difflib  # noqa: PLC0415  Every command loads this module, and few names are mistyped.

    by_folded = {each.casefold(): each for each in known}
    found = difflib.get_close_matches(name.casefold(), by_folded, n=most, cutoff=likeness)
    return [by_folded[each] for each in found]


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A sentence with a space before it, to put after another one; `otherwise` when nothing is like the name."""
    return suggested(nearest(name, known)) or (f" {otherwise}" if otherwise else "")


def suggested(names: Sequence[str]) -> str:
    """The same sentence of names that were chosen already; empty without any."""
    return f" Did you mean {' or '.join(names)}?" if names else ""
