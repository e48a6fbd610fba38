"""Small values that fit a schema."""

from __future__ import annotations

from typing import Any

import pytest

from agentos.llm.schema_example import example_value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "maxLength": 3}, "off"),
        ({"type": "string", "minLength": 9}, "offline.."),
        ({"type": "string", "format": "date"}, "2000-01-01"),
        ({"type": "integer", "minimum": 4}, 4),
        ({"type": "integer", "exclusiveMinimum": 4}, 5),
        ({"type": "integer", "maximum": -2}, -2),
        ({"type": "integer", "exclusiveMaximum": 0}, -1),
        ({"type": "integer", "minimum": 5, "multipleOf": 4}, 8),
        ({"type": "boolean"}, False),
        ({"type": ["null", "integer"]}, 0),
        ({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}, {"a": "offline"}),
        ({"properties": {"a": {"const": 1}}, "required": ["a"]}, {"a": 1}),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True},
            ["offline 1", "offline 2"],
        ),
        ({"allOf": [{"type": "number"}]}, 0.0),
        ({"default": 7, "type": "integer"}, 7),
        ({}, None),
    ],
)
def test_example_values_fit_their_schema(schema: dict[str, Any], value: Any) -> None:
    assert example_value(schema) == value


def test_a_schema_that_contains_itself_ends() -> None:
    node: dict[str, Any] = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
        "required": ["next"],
    }

    value = example_value({"$ref": "#/$defs/Node", "$defs": {"Node": node}})

    depth = 0
    while value["next"] is not None:
        value, depth = value["next"], depth + 1
    assert 0 < depth < 20
