"""Markdown of models and people as HTML that is safe in the page: no script, no style, no request to others."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

import nh3
from markdown_it import MarkdownIt

_TAGS: Final = (
    *("h3", "h4", "h5", "h6", "p", "br", "hr", "strong", "em", "del", "s", "code", "pre", "blockquote"),
    *("ul", "ol", "li", "a", "table", "thead", "tbody", "tr", "th", "td"),
)
_HEADING: Final = re.compile(r"h([1-6])")
_LANGUAGE: Final = re.compile(r"language-[A-Za-z0-9_+-]{1,30}")


def as_html(text: str) -> str:
    """Sanitised twice over: the parser takes no HTML, and whatever it makes is cleaned against a short list."""
    return nh3.clean(
        _parser().render(text),
        tags=set(_TAGS),
        attributes={"a": {"href"}, "code": {"class"}, "th": {"align"}, "td": {"align"}, "ol": {"start"}},
        attribute_filter=_attribute,
        url_schemes={"http", "https"},
        link_rel="noopener noreferrer nofollow",
    )


def _attribute(tag: str, name: str, value: str) -> str | None:
    if (tag, name) == ("code", "class"):
        return value if _LANGUAGE.fullmatch(value) else None
    if (tag, name) == ("a", "href"):
        is_ours = value.startswith("#") or value.casefold().startswith(("http://", "https://"))
        return value if is_ours else None
    return None if name in ("title", "lang") else value


@cache
def _parser() -> MarkdownIt:
    # Images are left as links: a page that makes no request to others shows none.
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    parser.disable("image")
    for name in ("heading_open", "heading_close"):
        parser.add_render_rule(name, _heading)
    return parser


def _heading(renderer: Any, tokens: Any, index: int, options: Any, _env: Any) -> str:
    """The page has headings of its own: a document's begin at the third level."""
    token = tokens[index]
    found = _HEADING.fullmatch(token.tag)
    token.tag = f"h{min(6, int(found[1]) + 2)}" if found else token.tag
    return str(renderer.renderToken(tokens, index, options, _env))
