"""Structural schemas: which are accepted, and what they do to values."""

import re
from typing import Any

import pytest

from modules.apimachinery.api_errors import TooLargeError
from modules.apimachinery.computed import ManyStepsError, in_few_steps
from modules.apimachinery.limits import VALUES
from modules.apimachinery.structural_schema import patterns
from modules.apimachinery.structural_schema import values as limited
from modules.apimachinery.structural_schema.formats import fits_format
from modules.apimachinery.structural_schema.patterns import Pattern, PatternError
from modules.apimachinery.structural_schema.rules import DEPTH, NODES, schema_faults
from modules.apimachinery.structural_schema.values import (
    Defaults,
    changed_faults,
    faults,
    pruned,
    unknown_fields,
    with_defaults,
    without_wrong_nulls,
)

TEXT = {"type": "string"}
NAMES = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def test_each_pair_of_values_is_compared() -> None:
    steps = limited.Steps()
    one, other = {"a": 1}, {"a": 2}
    pairs = [(one, one), (other, one), (one, other), (other, other)]
    assert [steps.is_same(value, former, {}) for value, former in pairs] == [True, False, False, True]


@pytest.mark.parametrize("text", [NAMES, "a{2,3}b?$", r"^\d+(ms|s)$", "^x{0,2}$", "^(a|b)*c{2,}$", "^.{3}$", "(?:ab)+"])
@pytest.mark.parametrize(
    "value", ["", "a", "aa", "aaab", "a.b-c", "-a", "5ms", "10s", "cc", "abcc", "x", "xxx", "abab"]
)
def test_patterns_match_as_re_does(text: str, value: str) -> None:
    """A pattern is found in a text exactly when Python's `re` finds it."""
    assert Pattern(text).search(value) is bool(re.search(text, value))


@pytest.mark.parametrize(
    ("text", "fitting", "others"),
    [
        (r"^[^\[\]]+$", ["a\\b", "a"], ["a[", "]"]),
        (r"^[\[\]]+$", ["[]"], ["\\"]),
        (r"^[\\[]+$", ["[", "\\"], ["a"]),
        (r"^[][]+$", ["[]"], ["\\"]),
        (r"^[[:alpha:]_[:^x]+$", ["a_", "[:^x"], ["1"]),
        (r"^[[:punct:][:space:]]+$", ["!-[`~ \t"], ["a"]),
    ],
)
def test_a_class_of_characters_may_have_brackets(text: str, fitting: list[str], others: list[str]) -> None:
    """Quoted or not; neither adds the backslash to the class."""
    assert [value for value in (*fitting, *others) if Pattern(text).search(value)] == fitting


@pytest.mark.parametrize(
    ("text", "fitting", "others"),
    [
        ("^(?i)(Drop|Accept)?$", ["", "DROP", "accept"], ["dropp"]),
        ("^a(?i:b[c-d])+e$", ["aBCbde"], ["Abce", "abcE"]),
        ("^(a(?i)b|c)d$", ["aBd", "Cd"], ["Ab", "cD"]),
        ("^(?i)a(?-i)b$", ["Ab"], ["aB"]),
        ("^(?s).$", ["\n", "a"], [""]),
        ("^(?U)a+$", ["aa"], ["b"]),
        ("(?m)^a$", ["a", "b\na\nb"], ["ab", "b\nab"]),
        (r"\bab\b", ["ab", "x ab-y"], ["xab", "ab1", "é"]),
        (r"a\Bb|^\B$", ["ab", ""], ["a b", "x"]),
        (r"^[[:^digit:]\x31]+$", ["a1", "é"], ["2"]),
        (r"^[\D]+$", ["a\n"], ["a1"]),
        (r"^\x41\x{e9}\101\0?$", ["AéA", "AéA\0"], ["A"]),
        (r"^\x{10FFFF}$", ["\U0010ffff"], ["A"]),
        (r"^\pL\P{Lu}[\p{Nd}\p{^L}]$", ["éa٣", "Aa-"], ["1a1", "aA1", "aab"]),
        ("^[[a&&b-c~~]+$", ["[&~", "ab"], ["d"]),
        ("^(?i)k+S$", ["K\u212aſ", "ks"], ["x"]),
    ],
)
def test_flags_count_to_the_end_of_their_group(text: str, fitting: list[str], others: list[str]) -> None:
    """As in Go: also in the middle of a pattern, as in those of Calico's definitions."""
    assert [value for value in (*fitting, *others) if Pattern(text).search(value)] == fitting


def test_a_pattern_takes_linear_time() -> None:
    """A pattern that takes a backtracking matcher for ever is answered immediately."""
    assert not Pattern("^(a+)+$").search("a" * 5000 + "!")


def test_what_is_known_of_a_pattern_is_bounded_and_right() -> None:
    """Its states come in thousands of sets, of which some are kept."""
    text = "a[ab]{8}c$"
    found = Pattern(text)
    for number in range(2000):
        value = f"{number:012b}".replace("0", "a").replace("1", "b") + "c"
        assert found.search(value) is bool(re.search(text, value))


def test_the_work_of_patterns_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A common pattern takes a long text and many texts. One whose states differ at each character, or one in many
    alternatives, takes no thousands: a request of 300 kB kept the API server busy for minutes. These have a tenth of
    its texts and of the steps.
    """
    common = {"type": "array", "items": {**TEXT, "pattern": NAMES}}
    assert faults(["a-" * 100_000 + "a", *["a-" * 125 + "a"] * 1000], common) == []
    value = "".join(f"{number:09b}".replace("0", "a").replace("1", "b") for number in range(512))
    hard = {"type": "array", "items": {**TEXT, "pattern": "a[ab]{30}c$"}}
    many = {"type": "array", "items": {**TEXT, "anyOf": [{"pattern": "a" * length + "b"} for length in range(200)]}}
    wide = {"type": "array", "items": {**TEXT, "pattern": "(" + "|" * 900 + ")x"}}
    others = ["".join(map(chr, range(0x3400, 0x3400 + 600)))]
    monkeypatch.setattr(limited, "VALUES", VALUES // 10)
    for values, schema in ((["a" + value] * 20, hard), (["a" * 300] * 200, many), (others * 20, wide)):
        with pytest.raises(TooLargeError):
            faults(values, schema)


def _many(word: str) -> dict[str, Any]:
    """Return a schema with 300 patterns of some 1,800 states each."""
    members = {f"f{at}": {**TEXT, "pattern": f"^|{word}{at}{{0,899}}"} for at in range(300)}
    return {"type": "object", "properties": members}


def test_the_compilation_of_patterns_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A definition, or an object of one, with hundreds of large patterns kept the API server's thread for seconds."""
    compiled: list[str] = []
    patterns.pattern.cache_clear()

    def counted(text: str) -> Pattern:
        compiled.append(text)
        return Pattern(text)

    monkeypatch.setattr(patterns, "Pattern", counted)
    wrong = schema_faults(_many("defined"), "s")
    assert (len(wrong), wrong[-1].field.endswith(".pattern"), "states in all" in wrong[-1].message) == (20, True, True)
    assert len(compiled) <= 30
    with pytest.raises(TooLargeError):
        faults({f"f{at}": "a" for at in range(300)}, _many("object"))
    assert len(compiled) <= 60
    few = {**TEXT, "pattern": "^later{0,899}"}
    with pytest.raises(ManyStepsError):
        in_few_steps(1000, faults, "later", few)
    assert faults("later", few) == in_few_steps(1000, faults, "later", few) == []


def test_a_repeated_class_of_a_pattern_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern of 2,000 characters whose class of 950 escapes is repeated took 0.2 seconds."""
    read: list[int] = []
    escaped = Pattern._escaped

    def counted(self: Pattern, at: int) -> tuple[int, int]:
        read.append(at)
        return escaped(self, at)

    monkeypatch.setattr(Pattern, "_escaped", counted)
    assert Pattern("[" + r"\." * 950 + "]{900}").states > 1800
    assert len(read) == 950


@pytest.mark.parametrize(
    "text",
    [
        "(",
        "a)",
        "[a",
        "*",
        "(?=a)",
        r"\1",
        r"\x{110000}",
        r"\Z",
        r"\é",
        r"[\b]",
        r"[a-\d]",
        r"\p{Greek}",
        "[z-a]",
        "[[:alfa:]]",
        "a{1001}",
        "a{3,1}",
        "a{2}{2}",
        "((a{1000}){1000})",
        r"\PL" * 600,
        "(" * 99,
        "a**",
    ],
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
        ({"type": "object", "properties": {"a": TEXT}, "additionalProperties": False}, "s.additionalProperties", "ex"),
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


def test_properties_and_any_others_may_stand_together() -> None:
    """As in Kubernetes, which refuses a schema, or none, of the others beside properties."""
    assert not schema_faults({"type": "object", "properties": {"a": TEXT}, "additionalProperties": True}, "s")


def test_a_schema_is_bounded_in_depth() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(DEPTH):
        schema = {"type": "object", "properties": {"a": schema}}
    assert not schema_faults(schema, "s")
    deeper = {"type": "object", "properties": {"a": schema}}
    assert "levels" in schema_faults(deeper, "s")[0].message


KEYED: Any = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "properties": {"k": TEXT}},
}


@pytest.mark.parametrize(
    ("format_", "fitting", "others"),
    [
        (
            "uri",
            ["http://a/b", "/b", "// x", "a:b c", "http://[::1]:80/?%", "http://u:p@h"],
            ["x", "", "a b:c", "http://a/%zz", "http://a b", "http://a:x/", "/\n"],
        ),
        (
            "email",
            ["a@b.c", "A b <a@b.c>", '"a b"@c.d', "a@[192.0.2.1]", " é@b "],
            ["a", "a@", "@b", "a..b@c", ".a@b", "a.@b", "a@[x]", "<a@b", "(a " * 1000],
        ),
        (
            "hostname",
            ["a", "a-b", "é", "a.bc", "a-1.b--c.de", "☃.example"],
            ["-", "a.b", "a..bc", "a" * 64, "ab-c", "a_b.cd", "a.b1", "é" * 32 + ".cd"],
        ),
        ("ipv4", ["192.0.2.1", "::ffff:192.0.2.1"], ["192.0.2", "::1", "010.0.0.1"]),
        ("ipv6", ["2001:db8::1"], ["192.0.2.1", "x"]),
        ("cidr", ["10.0.0.1/8", "2001:db8::/32"], ["10.0.0.1", "10.0.0.1/33"]),
        (
            "mac",
            ["00:11:22:33:44:55", "00-11-22-33-44-55-66-77", "0011.2233.4455"],
            ["00:11", "00:11-22:33:44:55", "0011.2233.44"],
        ),
        ("uuid", ["6f1d3a3e-6a63-4c6b-9d1f-3a7f4d6c1b2a", "6F1D3A3E6A634C6B9D1F3A7F4D6C1B2A"], ["x"]),
        ("uuid4", ["6f1d3a3e-6a63-4c6b-9d1f-3a7f4d6c1b2a"], ["6f1d3a3e-6a63-3c6b-9d1f-3a7f4d6c1b2a"]),
        ("byte", ["aGk="], ["%%", "a", "", "aGk"]),
        ("date", ["2024-02-29"], ["2023-02-29", "20240101"]),
        (
            "date-time",
            ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.5+01:00"],
            [
                "2024-01-01",
                "2024-01-01T25:00:00Z",
                "2024-01-01T00:00:00",
                "2024-01-01 00:00:00Z",
                "2024-01-01T00:00:60Z",
            ],
        ),
        (
            "duration",
            ["1h", "22 ns", "1m30s", "1.5h", "2 Weeks", "x 10 hours"],
            ["", "x", "1", "1h " * 2000, "9" * 20 + " h", "1 y"],
        ),
        ("hexcolor", ["#fff"], ["#ffff"]),
        ("rgbcolor", ["rgb(1, 2,255)"], ["rgb(1,2,256)", "rgb(1,2,03)", "rgb(1,2)"]),
        ("creditcard", ["4111 1111 1111 1111"], ["4111 1111 1111 1112", "1234"]),
        ("isbn", ["0-306-40615-2", "978-3-16-148410-0", "080442957X"], ["0-306-40615-3", "978-3-16-148410-1", "1"]),
        ("isbn10", ["0306406152"], ["9783161484100"]),
        ("isbn13", ["9783161484100"], ["0306406152"]),
        ("ssn", ["111-11-1111"], ["111111111", "11-111-1111"]),
        ("bsonobjectid", ["507f1f77bcf86cd799439011"], ["507f1f77bcf86cd79943901"]),
        ("password", ["x"], []),
        ("of-nobody", ["x"], []),
    ],
)
def test_a_text_has_its_format(format_: str, fitting: list[str], others: list[str]) -> None:
    """The answers are those of Kubernetes 1.32's code, but that of a zero before a number of an address."""
    assert [text for text in (*fitting, *others) if fits_format(format_, text)] == fitting


@pytest.mark.parametrize(
    ("value", "schema", "is_valid"),
    [
        ([False], {"type": "array", "items": TEXT, "enum": [[0]]}, False),
        (None, {**TEXT, "nullable": True, "enum": ["a"]}, False),
        (None, {**TEXT, "nullable": True}, True),
        (2**63 - 1, {"type": "integer", "multipleOf": 2}, False),
        (2**62, {"type": "integer", "multipleOf": 2}, True),
    ],
)
def test_values_are_compared_as_in_kubernetes(value: Any, schema: Any, is_valid: bool) -> None:
    found = [cause.message for cause in faults(value, schema) if "type" not in cause.message]
    assert (found == []) is is_valid


def test_other_members_of_any_type_lose_their_fields() -> None:
    """`additionalProperties: true` says nothing of the fields of an object: as in Kubernetes, they are unknown."""
    schema = {"type": "object", "additionalProperties": True}
    assert pruned({"a": 1, "b": {"c": 1}, "d": [{"e": 1}, 2]}, schema, is_object=False) == {
        "a": 1,
        "b": {},
        "d": [{}, 2],
    }


def test_a_null_in_a_list_or_a_map_gets_its_default() -> None:
    item: dict[str, Any] = {**TEXT, "default": "x"}
    schema = {
        "type": "object",
        "properties": {"l": {"type": "array", "items": item}, "m": {"additionalProperties": item}},
    }
    assert with_defaults({"l": [None, "a"], "m": {"a": None}}, schema) == {"l": ["x", "a"], "m": {"a": "x"}}
    item["nullable"] = True
    assert with_defaults({"l": [None], "m": {"a": None}}, schema) == {"l": [None], "m": {"a": None}}


def test_a_null_that_may_not_be_one_goes() -> None:
    schema = {"type": "object", "properties": {"a": TEXT, "b": {**TEXT, "nullable": True}, "c": {}}}
    assert without_wrong_nulls({"a": None, "b": None, "c": None}, schema) == {"b": None, "c": None}
    assert without_wrong_nulls([{"a": None}], {"type": "array", "items": schema}) == [{}]


@pytest.mark.parametrize(
    ("schema", "place", "message"),
    [
        ({**KEYED, "x-kubernetes-list-type": "foo"}, "x-kubernetes-list-type", "Unsupported value"),
        ({**KEYED, "x-kubernetes-list-map-keys": []}, "x-kubernetes-list-map-keys", "must not be empty if"),
        ({**KEYED, "x-kubernetes-list-map-keys": ["z"]}, "x-kubernetes-list-map-keys", "entries must all be names"),
        (KEYED, "items.properties[k].default", "so it must have a default or be a required property"),
        ({**KEYED, "items": TEXT}, "items.type", "must be object if parent array"),
        ({**TEXT, "x-kubernetes-list-type": "set"}, "type", "must be array if"),
        (
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"},
            "items.x-kubernetes-map-type",
            "must be atomic as item",
        ),
        ({**TEXT, "x-kubernetes-map-type": "atomic"}, "type", "must be object if"),
        ({"type": "object", "x-kubernetes-map-type": "foo"}, "x-kubernetes-map-type", "Unsupported value"),
        ({"type": "object", "x-kubernetes-embedded-resource": True}, "properties", "must not be empty if"),
        ({**TEXT, "x-kubernetes-embedded-resource": True}, "type", "must be object if"),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
            "x-kubernetes-preserve-unknown-fields",
            "must be true or undefined",
        ),
        ({"type": "object", "oneOf": [TEXT]}, "oneOf[0].type", "must be empty to be structural"),
        ({"type": "object", "not": {"default": 1}}, "not.default", "must be undefined to be structural"),
        ({"type": "object", "definitions": {}}, "definitions", "definitions is not supported"),
    ],
)
def test_a_schema_has_rules(schema: Any, place: str, message: str) -> None:
    found = schema_faults({"type": "object", "properties": {"a": schema}}, "s")
    assert any(each.field == f"s.properties[a].{place}" and message in each.message for each in found)


@pytest.mark.parametrize(
    ("properties", "place"),
    [
        ({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}, "properties[metadata]"),
        ({"kind": {"type": "integer"}}, "properties[kind].type"),
    ],
)
def test_common_fields_are_not_described_otherwise(properties: Any, place: str) -> None:
    assert [each.field for each in schema_faults({"type": "object", "properties": properties}, "s")] == [f"s.{place}"]


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (TEXT, 1, 'Invalid value: "integer": f in body must be of type string: "integer"'),
        (TEXT, None, 'Invalid value: "null": f in body must be of type string: "null"'),
        ({"type": "integer"}, True, 'Invalid value: "boolean": f in body must be of type integer: "boolean"'),
        ({"type": "integer", "minimum": 1}, 0, "Invalid value: 0: f in body should be greater than or equal to 1"),
        ({"type": "integer", "maximum": 1}, 2, "Invalid value: 2: f in body should be less than or equal to 1"),
        ({"type": "number", "multipleOf": 0.1}, 0.35, "Invalid value: 0.35: f in body should be a multiple of 0.1"),
        ({"type": "integer", "multipleOf": 3}, 10, "Invalid value: 10: f in body should be a multiple of 3"),
        ({**TEXT, "minLength": 2}, "a", 'Invalid value: "a": f in body should be at least 2 chars long'),
        ({**TEXT, "maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
        ({**TEXT, "pattern": "^a$"}, "b", "Invalid value: \"b\": f in body should match '^a$'"),
        ({**TEXT, "enum": ["a", "b"]}, "c", 'Unsupported value: "c": supported values: "a", "b"'),
        ({"type": "object", "required": ["a"]}, {}, "Required value"),
        ({**TEXT, "format": "ipv4"}, "x", 'Invalid value: "x": f in body must be of type ipv4: "x"'),
        ({"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}, ["a", "a"], 'Duplicate value: "a"'),
        (KEYED, [{"k": "a", "v": 1}, {"k": "b"}, {"k": "a"}], 'Duplicate value: map[string]string{"k":"a"}'),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            {"kind": "x"},
            "Required value: must not be empty",
        ),
        (
            {**TEXT, "minLength": 2, "pattern": "^b"},
            "a",
            'Invalid value: "a": f in body should be at least 2 chars long',
        ),
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
        ({"type": "number", "multipleOf": 0.1}, 0.3),
        ({"type": "integer", "multipleOf": 3}, 9_000_000_000_000),
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


NUMBER: Any = {"type": "number"}
ITEMS: Any = {"type": "array", "items": {"type": "integer"}}


def test_the_metadata_of_each_object_are_looked_into_by_somebody_else() -> None:
    """No schema has their fields."""
    schema = {"properties": {"inside": {"x-kubernetes-embedded-resource": True}, "plain": {"type": "object"}}}
    value = {"metadata": {"a": 1}, "inside": {"metadata": {"b": 2}}, "plain": {"metadata": {"c": 3}}}
    found = unknown_fields(value, schema, lambda metadata, path: [f"{path}.{name}" for name in metadata])
    assert found == ("metadata.a", "inside.metadata.b", "plain.metadata")


@pytest.mark.parametrize(
    ("schema", "fitting", "other"),
    [
        ({**NUMBER, "minimum": 1}, 1, 0.5),
        ({**NUMBER, "maximum": 1}, 1, 1.5),
        ({**NUMBER, "minimum": 1, "exclusiveMinimum": True}, 1.5, 1),
        ({**NUMBER, "maximum": 1, "exclusiveMaximum": True}, 0.5, 1),
        ({**TEXT, "minLength": 2}, "ab", "a"),
        ({**TEXT, "maxLength": 2}, "ab", "abc"),
        ({**ITEMS, "minItems": 1}, [1], []),
        ({**ITEMS, "maxItems": 1}, [1], [1, 2]),
        ({"type": "object", "minProperties": 1}, {"a": 1}, {}),
        ({"type": "object", "maxProperties": 1}, {"a": 1}, {"a": 1, "b": 1}),
        ({**NUMBER, "oneOf": [{"minimum": 1}, {"minimum": 2}]}, 1, 2),
        ({**NUMBER, "enum": [1]}, 1.0, 2),
        ({"x-kubernetes-preserve-unknown-fields": True, "enum": [1]}, 1, True),
    ],
)
def test_a_bound_itself_fits_unless_it_is_exclusive(schema: Any, fitting: Any, other: Any) -> None:
    assert faults(fitting, schema) == []
    assert len(faults(other, schema)) == 1


def test_what_is_to_be_preserved_loses_nothing() -> None:
    """Lists in a field of any form, and the metadata of an object in an object."""
    any_form: Any = {"x-kubernetes-preserve-unknown-fields": True}
    inner = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}}
    schema = {"type": "object", "properties": {"any": any_form, "one": inner, "all": {"type": "array", "items": inner}}}
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}
    value = {"any": [{"a": [{"b": 1}]}], "one": obj, "all": [obj]}
    assert pruned(value, schema) == value
    assert unknown_fields(value, schema) == ()
    more = {"one": obj | {"more": 1}, "all": [obj | {"more": 1}]}
    assert pruned(more, schema) == {"one": obj, "all": [obj]}
    assert unknown_fields(more, schema) == ("one.more", "all[0].more")


def test_elements_of_lists_have_defaults_and_few_unknown_fields_are_named() -> None:
    element = {"type": "object", "properties": {"a": {**TEXT, "default": "x"}}}
    schema = {"type": "object", "properties": {"list": {"type": "array", "items": element}}}
    assert with_defaults({"list": [{}, {"a": "y"}]}, schema) == {"list": [{"a": "x"}, {"a": "y"}]}
    assert len(unknown_fields({f"f{number}": 1 for number in range(50)}, schema)) == 20


def test_a_null_that_may_be_one_gets_no_default() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {**TEXT, "nullable": True, "default": "x"}, "b": {**TEXT, "default": "x"}},
    }
    assert with_defaults({"a": None, "b": None}, schema) == {"a": None, "b": "x"}
    assert with_defaults({}, schema) == {"a": "x", "b": "x"}


def test_rules_in_cel_are_refused_with_the_remedy() -> None:
    rules = [{"rule": "self.a <= self.b", "message": "a is too large"}]
    schema = {"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-validations": rules}}}
    (cause,) = schema_faults(schema, "s", takes_validations=False)
    assert cause.field == "s.properties[a].x-kubernetes-validations"
    assert cause.message.startswith("Forbidden: this API server evaluates no CEL")
    assert "minimum" in cause.message
    assert "--store-unevaluated-validations" in cause.message
    assert schema_faults(schema, "s") == []


@pytest.mark.parametrize("rules", [{}, ["self.a"], [{}], [{"rule": " "}], [{"rule": 1}]])
def test_rules_in_cel_have_a_text(rules: Any) -> None:
    (cause, *_) = schema_faults({"type": "object", "x-kubernetes-validations": rules}, "s")
    assert cause.field.startswith("s.x-kubernetes-validations")


def _numbers(count: int) -> Any:
    """The schema of a list whose items have a list of numbers by default."""
    inner = {"type": "object", "properties": {"x": {**ITEMS, "default": list(range(count))}}}
    return {"type": "object", "properties": {"l": {"type": "array", "items": inner}}}


def test_defaults_add_so_many_values_and_no_more() -> None:
    schema = _numbers(VALUES // 10 - 1)
    assert len(with_defaults({"l": [{}] * 10}, schema)["l"][9]["x"]) == VALUES // 10 - 1
    with pytest.raises(TooLargeError, match="defaults"):
        with_defaults({"l": [{}] * 11}, schema)
    whole = with_defaults({"l": [{}] * 10}, schema)
    assert with_defaults({"l": whole["l"] * 3}, schema) == {"l": whole["l"] * 3}, "what is there is not added"


def test_the_defaults_of_several_values_are_counted_together() -> None:
    schema, defaults = _numbers(4), Defaults(10)
    for _ in range(2):
        with_defaults({"l": [{}]}, schema, defaults)
    with pytest.raises(TooLargeError):
        with_defaults({"l": [{}]}, schema, defaults)


@pytest.mark.parametrize(
    "rules",
    [
        {"anyOf": [{"minimum": number} for number in range(100)]},
        {"oneOf": [{"minimum": number} for number in range(100)]},
        {"allOf": [{"minimum": -number} for number in range(100)]},
        {"not": {"allOf": [*({"minimum": -number} for number in range(100)), {"minimum": 1}]}},
        {"enum": list(range(4000))},
    ],
)
def test_a_schema_with_many_rules_has_few_values(rules: Any) -> None:
    """Each value costs as much as it has alternatives."""
    schema = {"type": "array", "items": {"type": "integer", **rules}}
    faults([0] * 100, schema)
    with pytest.raises(TooLargeError, match="rules"):
        faults([0] * 5000, schema)


def test_a_value_of_many_members_may_have_rules() -> None:
    """As many as the request has values, and some for each."""
    ported: Any = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert faults([1] * VALUES * 2, {"type": "array", "items": ported}) == []


@pytest.mark.parametrize("names", [10_000, 100])
def test_the_path_of_a_field_is_short(names: int) -> None:
    """A name may have a megabyte, and every field below it has a path."""
    value = {"a": {"n" * 1_000_000: {f"f{number}": {"x": 1} for number in range(names)}}}
    known = {"type": "object", "properties": {"x": {"type": "string"}}}
    schema = {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {
        "type": "object", "additionalProperties": known}}}}  # fmt: skip
    unknown = {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {"type": "object"}}}}
    paths = [*unknown_fields(value, unknown), *(cause.field for cause in faults(value, schema))]
    assert len(paths) == 40
    assert max(map(len, paths)) < 5000


def test_a_schema_has_a_bounded_number_of_schemas() -> None:
    fields = {f"f{each}": {"type": "string"} for each in range(NODES - 1)}
    schema = {"type": "object", "properties": fields}
    assert schema_faults(schema, "s") == []
    fields["last"] = {"type": "string"}
    assert [cause.field for cause in schema_faults(schema, "s")] == ["s.properties[last]"]


def test_the_defaults_of_a_schema_are_checked_within_one_bound() -> None:
    """Each of many defaults may need nearly as many steps as a request may take."""
    number = {"type": "integer", "anyOf": [{"minimum": each} for each in range(90)]}
    found = []
    for defaults in (2, 20):
        listed = {"type": "array", "items": number, "default": [0] * 200}
        schema = {"type": "object", "properties": {f"f{each}": listed for each in range(defaults)}}
        found.append(schema_faults(schema, "s"))
    assert found[0] == []
    assert "too many rules" in found[1][0].message


NAMED = {"type": "object", "properties": {"name": TEXT, "on": {"type": "boolean"}, "mode": {"enum": ["new"]}}}
RATCHETED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["needed"],
            "properties": {
                "a": {"type": "string", "enum": ["new"]},
                "b": TEXT,
                "needed": TEXT,
                "map": {"type": "array", "items": NAMED, "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"]},
                "atomic": {"type": "array", "items": NAMED},
                "set": {"type": "array", "items": {"type": "string", "maxLength": 1}, "x-kubernetes-list-type": "set"},
                "more": {"type": "object", "additionalProperties": {"type": "integer", "maximum": 1}},
                "all": {"allOf": [{"properties": {"x": {"maximum": 1}}}], "type": "object",
                        "properties": {"x": {"type": "integer"}, "y": TEXT}},
            },
        },
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("former", "spec", "broken"),
    [
        ({"a": "OLD", "b": "1"}, {"a": "OLD", "b": "1"}, []),
        ({"a": "OLD", "b": "1", "needed": ""}, {"a": "OLD", "b": "2", "needed": ""}, []),
        ({"a": "OLD", "b": "1"}, {"a": "OLD", "b": "2"}, ["spec.needed"]),
        ({"a": "OLD", "needed": ""}, {"a": "other", "needed": ""}, ["spec.a"]),
        ({"needed": ""}, {"a": "OLD", "needed": ""}, ["spec.a"]),
        ({"a": 1, "needed": ""}, {"a": True, "needed": ""}, ["spec.a", "spec.a"]),
        ({"map": [{"name": "x", "mode": "old"}], "needed": ""},
         {"map": [{"name": "w"}, {"name": "x", "mode": "old", "on": True}], "needed": ""}, []),
        ({"map": [{"name": "x", "mode": "old"}], "needed": ""},
         {"map": [{"name": "y", "mode": "old"}], "needed": ""}, ["spec.map[0].mode"]),
        ({"map": [{"name": "x", "mode": "old"}, {"name": "y"}], "needed": "1"},
         {"map": [{"name": "y"}, {"name": "x", "mode": "old"}], "needed": "2"}, []),
        ({"atomic": [{"mode": "old"}], "b": "1", "needed": ""}, {"atomic": [{"mode": "old"}], "needed": ""}, []),
        ({"atomic": [{"mode": "old"}], "needed": ""}, {"atomic": [{"mode": "old"}, {}], "needed": ""},
         ["spec.atomic[0].mode"]),
        ({"set": ["long"], "needed": ""}, {"set": ["long"], "needed": "1"}, []),
        ({"set": ["long"], "needed": ""}, {"set": ["long", "b"], "needed": "1"}, ["spec.set[0]"]),
        ({"set": ["b", "b"], "needed": ""}, {"set": ["b", "b", "c", "c"], "needed": ""}, []),
        ({"set": ["b"], "needed": ""}, {"set": ["b", "b"], "needed": ""}, ["spec.set[1]"]),
        ({"more": {"x": 9}, "needed": ""}, {"more": {"x": 9, "y": 9}, "needed": ""}, ["spec.more.y"]),
        ({"all": {"x": 9}, "needed": ""}, {"all": {"x": 9, "y": ""}, "needed": ""}, []),
        ({"all": {"x": 9}, "needed": ""}, {"all": {"x": 8, "y": ""}, "needed": ""}, ["spec.all.x"]),
    ],
)  # fmt: skip
def test_what_a_change_leaves_as_it_was_breaks_no_rule(
    former: dict[str, Any], spec: dict[str, Any], broken: list[str]
) -> None:
    """Of a definition that became stricter (KEP-4008): a member that lacks is one of its object."""
    causes = changed_faults({"metadata": {"a": 2}, "spec": spec}, RATCHETED, {"metadata": {"a": 1}, "spec": former})
    assert [cause.field for cause in causes] == broken
    assert {cause.field for cause in causes} <= {cause.field for cause in faults({"spec": spec}, RATCHETED)}


def test_metadata_change_whatever_the_object_lacks() -> None:
    """So that its last finalizer can be removed; other changes are held to the new definition."""
    schema = {**RATCHETED, "required": ["spec", "other"]}
    former = {"metadata": {"finalizers": ["f"]}, "spec": {}}
    assert changed_faults({"metadata": {}, "spec": {}}, schema, former) == []
    assert [cause.field for cause in changed_faults({"metadata": {}}, schema, former)] == ["spec", "other"]


def test_a_change_is_compared_in_linear_time() -> None:
    """Each value once, however deep it is, in lists with keys and beside alternatives."""
    schema: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "integer", "maximum": 1}}}
    value: dict[str, Any] = {"x": 9}
    former: dict[str, Any] = {"x": 8}
    for _ in range(60):
        items = {**schema, "properties": {**schema["properties"], "name": TEXT}}
        schema = {"type": "object", "anyOf": [{}, {}], "properties": {"list": {
            "type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        }}}  # fmt: skip
        others = [{"name": str(number)} for number in range(20)]
        value, former = ({"list": [*others, {**each, "name": "last"}]} for each in (value, former))
    (cause,) = in_few_steps(20_000, changed_faults, value, schema, former)
    assert cause.field.endswith(".x")
