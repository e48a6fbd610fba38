"""How handlers answer: JSON that is masked, errors with what to do about them."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from agentos.page.guard import Role
from agentos.page.mask import Mask, encoded
from agentos.page.refused import Refused


def answer(request: Request, document: Any, status: int = 200) -> Response:
    mask: Mask = request.app.state.mask
    return Response(encoded(document, mask), status, media_type="application/json")


def refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return answer(request, error.document, error.status)


def may_control(request: Request) -> bool:
    return request.scope["agentos.role"] is Role.CONTROL


def parameter(request: Request, name: str) -> str:
    """A value of the query that has to be there."""
    value = request.query_params.get(name, "")
    if not value:
        raise Refused(400, f"The request does not say which {name}.")
    return value


def whole_number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    try:
        return int(text[:20])
    except ValueError:
        raise Refused(400, f"{name} is a whole number.") from None
