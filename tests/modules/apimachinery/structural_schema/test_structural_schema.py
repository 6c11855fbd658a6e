"""Structural schemas: which are accepted, and what they do to values."""

import re
from typing import Any

import pytest

from modules.apimachinery.structural_schema.patterns import Pattern, PatternError
from modules.apimachinery.structural_schema.rules import schema_faults
from modules.apimachinery.structural_schema.values import faults, pruned, unknown_fields, with_defaults

TEXT = {"type": "string"}
NAMES = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


@pytest.mark.parametrize("text", [NAMES, "a{2,3}b?$", r"^\d+(ms|s)$", "^x{0,2}$", "^(a|b)*c{2,}$", "^.{3}$", "(?:ab)+"])
@pytest.mark.parametrize(
    "value", ["", "a", "aa", "aaab", "a.b-c", "-a", "5ms", "10s", "cc", "abcc", "x", "xxx", "abab"]
)
def test_patterns_match_as_re_does(text: str, value: str) -> None:
    """A pattern is found in a text exactly when Python's `re` finds it."""
    assert Pattern(text).search(value) is bool(re.search(text, value))


def test_a_pattern_takes_linear_time() -> None:
    """A pattern that takes a backtracking matcher for ever is answered immediately."""
    assert not Pattern("^(a+)+$").search("a" * 5000 + "!")


@pytest.mark.parametrize(
    "text", ["(", "a)", "[a", "*", "(?=a)", r"\1", "a{1001}", "((a{1000}){1000})", "(" * 99, "a**"]
)
def test_other_patterns_are_refused(text: str) -> None:
    """What is no regular expression, not linear or too large is refused."""
    with pytest.raises(PatternError):
        Pattern(text)


@pytest.mark.parametrize(
    ("schema", "field", "word"),
    [
        ({"properties": {}}, "s.type", "Required value"),
        ({"type": "string"}, "s.type", "must be object at the root"),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, "s.properties[a].items", "Required value"),
        ({"type": "object", "properties": {"a": {}}}, "s.properties[a].type", "Required value"),
        ({"type": "object", "$ref": "x"}, "s.$ref", "Forbidden"),
        ({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}, "s.properties[a].pattern", "reg"),
        ({"type": "object", "properties": {"a": TEXT}, "additionalProperties": TEXT}, "s.additionalProperties", "excl"),
        ({"type": "object", "properties": {"a": {**TEXT, "default": 1}}}, "s.properties[a].default", "of type string"),
        ({"type": "object", "required": "a"}, "s.required", "must be a list"),
        ({"type": "object", "properties": {"a": {**TEXT, "maxLength": -1}}}, "s.properties[a].maxLength", "whole"),
    ],
)  # fmt: skip
def test_schemas_that_are_not_structural(schema: Any, field: str, word: str) -> None:
    """A schema that breaks a rule is refused, and the refusal names the place."""
    (cause,) = schema_faults(schema, "s")
    assert cause.field == field
    assert word in cause.message


def test_a_schema_is_bounded_in_depth() -> None:
    """A schema of a thousand levels is refused."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(100):
        schema = {"type": "object", "properties": {"a": schema}}
    assert "levels" in schema_faults(schema, "s")[0].message


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (TEXT, 1, 'Invalid value: "integer": f in body must be of type string: "integer"'),
        (TEXT, None, 'Invalid value: "null": f in body must be of type string: "null"'),
        ({"type": "integer"}, True, 'Invalid value: "boolean": f in body must be of type integer: "boolean"'),
        ({"type": "integer", "minimum": 1}, 0, "Invalid value: 0: f in body should be greater than or equal to 1"),
        ({"type": "integer", "maximum": 1}, 2, "Invalid value: 2: f in body should be less than or equal to 1"),
        ({**TEXT, "minLength": 2}, "a", 'Invalid value: "a": f in body should be at least 2 chars long'),
        ({**TEXT, "maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
        ({**TEXT, "pattern": "^a$"}, "b", "Invalid value: \"b\": f in body should match '^a$'"),
        ({**TEXT, "enum": ["a", "b"]}, "c", 'Unsupported value: "c": supported values: "a", "b"'),
        ({"type": "object", "required": ["a"]}, {}, "Required value"),
        ({"type": "array", "items": TEXT, "maxItems": 1}, ["a", "b"], "Too many: 2: must have at most 1 items"),
    ],
)
def test_faults_have_the_api_servers_words(schema: Any, value: Any, message: str) -> None:
    """A value that breaks a rule gets kube-apiserver's words."""
    assert [cause.message for cause in faults(value, schema, "f")] == [message]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({**TEXT, "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True}, 1),
        ({"x-kubernetes-int-or-string": True}, "1"),
        ({"type": "number"}, 1),
        ({"type": "object", "additionalProperties": TEXT}, {"a": "b"}),
    ],
)
def test_values_that_fit(schema: Any, value: Any) -> None:
    """A value that keeps the rules has no faults."""
    assert faults(value, schema, "f") == []


def test_unknown_fields_are_pruned_and_defaults_set() -> None:
    """Unknown fields go, except where they are to be preserved; missing fields get their defaults."""
    spec = {"type": "object", "properties": {"n": {"type": "integer", "default": 3},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}  # fmt: skip
    schema = {"type": "object", "properties": {"spec": spec}}
    value = {"kind": "K", "metadata": {"name": "a"}, "spec": {"x": 1, "any": {"y": 2}}, "z": 3}
    assert unknown_fields(value, schema) == ("spec.x", "z")
    assert with_defaults(pruned(value, schema), schema) == {
        "kind": "K", "metadata": {"name": "a"}, "spec": {"n": 3, "any": {"y": 2}},
    }  # fmt: skip


def test_rules_in_cel_are_refused_with_what_to_do() -> None:
    rules = [{"rule": "self.a <= self.b", "message": "a is too large"}]
    schema = {"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-validations": rules}}}
    (cause,) = schema_faults(schema, "s")
    assert cause.field == "s.properties[a].x-kubernetes-validations"
    assert cause.message.startswith("Forbidden: this API server evaluates no CEL")
    assert "minimum" in cause.message
