"""What a call may ask of a model beside its words: tools, sampling, effort. Checked before anything is sent. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from agentos.errors import UsageError
from agentos.llm.conversation import Tool
from agentos.text.suggestions import did_you_mean

Effort = Literal["none", "minimal", "low", "medium", "high"]
EFFORTS: Final = get_args(Effort)
TOOL_CHOICES = ("auto", "required", "none")
_MOST_STOPS = 4
"""What the strictest of the providers takes."""

OnText = Callable[[str], object]


class UnsupportedOptionError(UsageError):
    """The model cannot do what the call asks for. Nothing was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for; None leaves it to the provider."""

    tools: tuple[Tool, ...] = ()
    tool_choice: str | None = None
    """`auto`, `required`, `none`, or the name of the tool that must be called."""
    temperature: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    reasoning_effort: Effort | None = None
    native_output: bool = False
    """Structured output by the provider's own means in the place of a tool."""
    on_text: OnText | None = None
    """Told of the answer's text piece by piece, as it comes."""

    @property
    def named(self) -> list[str]:
        """Which of them were asked for, by the names that callers use."""
        return [name for name in self.__slots__ if _is_asked_for(getattr(self, name))]


def _is_asked_for(value: object) -> bool:
    """A temperature or seed of 0 is, although 0 equals False."""
    return value is not None and value is not False and value != ()


def read_options(
    *,
    has_output_type: bool,
    tools: Sequence[Any] = (),
    tool_choice: str | None = None,
    temperature: float | None = None,
    seed: int | None = None,
    stop: str | Sequence[str] | None = None,
    reasoning_effort: Effort | None = None,
    native_output: bool = False,
    on_text: OnText | None = None,
) -> Options:
    """Raises UsageError for what no model could do."""
    options = Options(
        tools=tuple(_tool(tool) for tool in tools or ()),
        tool_choice=tool_choice,
        temperature=temperature,
        seed=seed,
        stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
        reasoning_effort=reasoning_effort,
        native_output=native_output,
        on_text=on_text,
    )
    _check_values(options)
    _check_tools(options)
    _check_together(options, has_output_type=has_output_type)
    return options


def _tool(tool: Any) -> Tool:
    match tool:
        case Tool():
            return tool
        case {"type": "function", "function": {"name": str(name), **rest}} | {"name": str(name), **rest}:
            schema: Any = rest.get("parameters") or rest.get("input_schema") or {"type": "object", "properties": {}}
            return Tool(name, str(rest.get("description") or ""), schema)
        case _ if callable(tool):
            return Tool.from_function(tool)
        case _:
            raise UsageError(f"{tool!r} is not a tool: give a function, agentos.llm.Tool or dict with its name.")


def _check_values(options: Options) -> None:
    temperature, effort = options.temperature, options.reasoning_effort
    if temperature is not None and not 0 <= temperature <= 2:
        raise UsageError(f"temperature is {temperature}: give a number from 0 to 2.")
    if effort is not None and effort not in EFFORTS:
        raise UsageError(f"reasoning_effort is {effort!r}: use one of {', '.join(EFFORTS)}.")
    if len(options.stop) > _MOST_STOPS or not all(options.stop):
        raise UsageError(f"stop takes up to {_MOST_STOPS} texts, none of them empty.")


def _check_tools(options: Options) -> None:
    names = [tool.name for tool in options.tools]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"Two tools have the name {twice!r}: give each its own.")
    choice = options.tool_choice
    if choice is None:
        return
    if not names:
        raise UsageError(f"tool_choice is {choice!r}, and there are no tools.")
    if choice not in TOOL_CHOICES and choice not in names:
        hint = did_you_mean(choice, [*names, *TOOL_CHOICES])
        raise UsageError(f"tool_choice is {choice!r}: use auto, required, none, or the name of a tool.{hint}")


def _check_together(options: Options, *, has_output_type: bool) -> None:
    if options.native_output and not has_output_type:
        raise UsageError("native_output=True says how structured output is made: give output_type as well.")
    if has_output_type and options.tools:
        raise UsageError("tools and output_type cannot be combined: ask for the structure when the tools are done.")
    if has_output_type and options.on_text is not None:
        raise UsageError("A structured answer counts when it is whole: stream without output_type.")


def refuse_unsupported(model: str, unsupported: Mapping[str, str], options: Options) -> None:
    """Raises UnsupportedOptionError if the call asks for one of those; each has a reason, which may be empty."""
    for name in options.named:
        if name in unsupported:
            why = f": {unsupported[name]}" if unsupported[name] else ""
            raise UnsupportedOptionError(f"{model} does not take {name}{why}. Leave it out, or choose another model.")
