"""The smallest value that fits a JSON schema: offline answers and the test server fill structured output with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_DEPTH_LIMIT = 12
"""Recursive schemas end here: deeper optional parts are left out."""

_STRINGS_BY_FORMAT = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def example_value(schema: Schema, *, text: str = "offline") -> Any:
    """A small value valid for `schema`; free strings become `text`. The same schema gives the same value."""
    return _value(schema, definitions=schema.get("$defs", {}), text=text, depth=0)


def _value(schema: Schema, *, definitions: Schema, text: str, depth: int) -> Any:
    schema = _resolve(schema, definitions)
    if "default" in schema:
        return schema["default"]
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for choice in ("anyOf", "oneOf"):
        if schema.get(choice):
            return _value(_simplest(schema[choice], depth), definitions=definitions, text=text, depth=depth + 1)
    if schema.get("allOf"):
        return _value(schema["allOf"][0], definitions=definitions, text=text, depth=depth + 1)
    match _type_of(schema):
        case "object":
            return _object(schema, definitions=definitions, text=text, depth=depth)
        case "array":
            return _array(schema, definitions=definitions, text=text, depth=depth)
        case "string":
            return _string(schema, text)
        case "integer":
            return int(_number(schema, step=1))
        case "number":
            return float(_number(schema, step=0.5))
        case "boolean":
            return False
        case _:
            return None


def _resolve(schema: Schema, definitions: Schema) -> Schema:
    while "$ref" in schema:
        schema = definitions[str(schema["$ref"]).rsplit("/", 1)[-1]]
    return schema


def _type_of(schema: Schema) -> str:
    declared = schema.get("type")
    if isinstance(declared, list):
        declared = next((name for name in declared if name != "null"), "null")
    if declared is None:
        return "object" if "properties" in schema else "null"
    # Gemini's own dialect spells types in capitals.
    return str(declared).lower()


def _simplest(choices: list[Schema], depth: int) -> Schema:
    """The first choice that says something, or null once the schema recurses too deep."""
    null = [choice for choice in choices if choice.get("type") == "null"]
    if null and depth >= _DEPTH_LIMIT:
        return null[0]
    return next((choice for choice in choices if choice.get("type") != "null"), choices[0])


def _object(schema: Schema, *, definitions: Schema, text: str, depth: int) -> dict[str, Any]:
    properties: Schema = schema.get("properties", {})
    required = schema.get("required", [])
    return {
        name: _value(properties[name], definitions=definitions, text=text, depth=depth + 1)
        for name in required
        if name in properties
    }


def _array(schema: Schema, *, definitions: Schema, text: str, depth: int) -> list[Any]:
    prefix = schema.get("prefixItems", [])
    values = [_value(item, definitions=definitions, text=text, depth=depth + 1) for item in prefix]
    for number in range(len(values), int(schema.get("minItems", 0))):
        # Items of a set must differ: their place is part of their text.
        item_text = f"{text} {number + 1}" if schema.get("uniqueItems") else text
        values.append(_value(schema.get("items", {}), definitions=definitions, text=item_text, depth=depth + 1))
    return values


def _string(schema: Schema, text: str) -> str:
    if schema.get("format") in _STRINGS_BY_FORMAT:
        return _STRINGS_BY_FORMAT[schema["format"]]
    shortest = int(schema.get("minLength", 0))
    longest = schema.get("maxLength")
    padded = text if len(text) >= shortest else text + "." * (shortest - len(text))
    return padded if longest is None else padded[: int(longest)]


def _number(schema: Schema, *, step: float) -> float:
    low = schema.get("minimum")
    if low is None and "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + step
    high = schema.get("maximum")
    if high is None and "exclusiveMaximum" in schema:
        high = schema["exclusiveMaximum"] - step
    multiple = schema.get("multipleOf", step)
    if low is None:
        return 0.0 if high is None or high >= 0 else float(high)
    rounded: float = -(-low // multiple) * multiple
    return rounded if high is None or rounded <= high else float(low)
