"""Model calls: one function for any model, with a key leased for each attempt.

Names are loaded on first use, so that importing this package costs nothing until a model is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentos.errors import CallCancelledError
    from agentos.llm.broker_choice import current_broker, set_broker
    from agentos.llm.calls import agenerate, close, generate, preload
    from agentos.llm.cancellation import cancel_calls
    from agentos.llm.context import set_call_context
    from agentos.llm.conversation import Image, Message, Tool, ToolCall
    from agentos.llm.errors import (
        InvalidOutputError,
        ModelNotServedError,
        ModelRequestError,
        ProviderUnavailableError,
        RecordingMissingError,
    )
    from agentos.llm.offline import OfflineRequest, register_offline
    from agentos.llm.options import UnsupportedOptionError
    from agentos.llm.streams import astream, stream
    from agentos.llm.types import Reply

__all__ = [
    "CallCancelledError",
    "Image",
    "InvalidOutputError",
    "Message",
    "ModelNotServedError",
    "ModelRequestError",
    "OfflineRequest",
    "ProviderUnavailableError",
    "RecordingMissingError",
    "Reply",
    "Tool",
    "ToolCall",
    "UnsupportedOptionError",
    "agenerate",
    "astream",
    "cancel_calls",
    "close",
    "current_broker",
    "generate",
    "preload",
    "register_offline",
    "set_broker",
    "set_call_context",
    "stream",
]

_MODULE_OF = {
    **dict.fromkeys(("current_broker", "set_broker"), "broker_choice"),
    **dict.fromkeys(("agenerate", "close", "generate", "preload"), "calls"),
    **dict.fromkeys(("CallCancelledError", "cancel_calls"), "cancellation"),
    **dict.fromkeys(("set_call_context",), "context"),
    **dict.fromkeys(("InvalidOutputError", "ModelRequestError", "ProviderUnavailableError"), "errors"),
    **dict.fromkeys(("ModelNotServedError", "RecordingMissingError"), "errors"),
    **dict.fromkeys(("OfflineRequest", "register_offline"), "offline"),
    **dict.fromkeys(("Image", "Message", "Tool", "ToolCall"), "conversation"),
    **dict.fromkeys(("UnsupportedOptionError",), "options"),
    **dict.fromkeys(("astream", "stream"), "streams"),
    **dict.fromkeys(("Reply",), "types"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'agentos.llm' has no attribute '{name}'")
    value = getattr(import_module(f"agentos.llm.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
