"""YAML within bounds: what a few lines of it would stand for is refused before anything is built."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.apimachinery.yaml_reader import ALIASED_VALUES, DEPTH, LARGEST, YamlError, check, documents, json_documents

REPOSITORY = Path(__file__).parents[3]
BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
)
MERGES = "\n".join(
    ["m0: &m0 {a: 1, b: 2, c: 3}"] + [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}" for n in range(1, 10)]
)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        (BOMB, 5, "written out without aliases it has more than 20000 values"),
        (MERGES, 5, "written out without aliases it has more than 20000 values"),
        (f"a: &a {'x' * 1000}\nb: [{', '.join(['*a'] * 5000)}]", 2, "written out without aliases"),
        ("a: &a [1, *a]", 1, "*a is a part of what it refers to"),
        ("[" * (DEPTH + 1), 1, "nested more than 100 levels deep"),
        ("[" * 1_000_000, 1, "nested more than 100 levels deep"),
        ("\n".join("  " * n + "a:" for n in range(200)), 101, "nested more than 100 levels deep"),
        ("x" * (LARGEST + 1), 1, "longer than"),
        ("a: 1\nb: [", 3, "did not find expected node content"),
        ("a: \x01", 1, "control characters"),
        ("a: *nobody", 1, "undefined alias"),
    ],
    ids=[
        "aliases",
        "merges",
        "text",
        "itself",
        "depth",
        "more depth",
        "blocks",
        "size",
        "syntax",
        "control",
        "unknown",
    ],
)
def test_values_beyond_the_bounds_are_refused_with_their_line(text: str, line: int, why: str) -> None:
    with pytest.raises(YamlError) as refused:
        list(documents(text))
    assert why in refused.value.why
    assert refused.value.line == line


def test_aliases_within_the_bounds_are_written_out() -> None:
    text = "a: &a {x: 1}\nb: [*a, *a]\nc: {<<: *a, y: 2}\n---\nd: 2020-01-01\n"
    assert list(documents(text)) == [
        ({"a": {"x": 1}, "b": [{"x": 1}] * 2, "c": {"x": 1, "y": 2}}, 1),
        ({"d": "2020-01-01"}, 5),
    ]
    check(f"a: &a [1]\nb: [{', '.join(['*a'] * (ALIASED_VALUES // 2))}]")


def test_anchors_of_another_document_are_unknown() -> None:
    with pytest.raises(YamlError, match="undefined alias"):
        list(documents("a: &a 1\n---\nb: *a\n"))


@given(st.text(alphabet="[]{}&*abc:,- \n<#\"'", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        list(documents(text))
    except YamlError:
        return


def test_nothing_else_constructs_values_of_yaml() -> None:
    """Configuration builds its values from the reader's events; static pods are checked first, and CDI's files have no
    aliases.
    """
    names = ("load", "load_all", "safe_load", "safe_load_all", "unsafe_load", "decode", "parse", "compose", "scan")
    reading = {f"{module}.{name}" for module in ("yaml", "msgspec.yaml") for name in names}
    found = set()
    for package in ("beehive", "edgecore_mapper", "edged", "edgehub", "metamanager", "modules", "protos"):
        for path in (REPOSITORY / package).rglob("*.py"):
            text = path.read_text()
            for node in ast.walk(ast.parse(text if "yaml" in text else "")):
                if isinstance(node, ast.Attribute) and node.attr in names and ast.unparse(node) in reading:
                    found.add(f"{path.relative_to(REPOSITORY)}: {ast.unparse(node)}")
    assert found == {
        "modules/apimachinery/yaml_reader.py: yaml.parse",
        "modules/processes/edgecore/config/editing.py: yaml.compose",
        "edged/static_pods/manifest.py: msgspec.yaml.decode",
        "modules/runtimes/oci/spec/cdi_changes.py: yaml.parse",
        "modules/runtimes/oci/spec/cdi_changes.py: yaml.load",
    }


def test_documents_of_manifests_have_jsons_types() -> None:
    """Keys are text as Kubernetes has them; a type that JSON lacks is refused."""
    found = json_documents("a: {2: x, true: [1.5, null], 1.5: 2026-01-01}\n---\n[false]\n")
    assert list(found) == [({"a": {"2": "x", "true": [1.5, None], "1.5": "2026-01-01"}}, 1), ([False], 3)]
    for text in ("a: !!binary aGk=", "null: 1"):
        with pytest.raises(TypeError):
            list(json_documents(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12:30", "12:30"),
        ("190:20:30", "190:20:30"),
        ("52:54:00:12:34:56", "52:54:00:12:34:56"),
        ("2026-01-01", "2026-01-01"),
        ("=", "="),
        ("<<", "<<"),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        ("1_0.5", 10.5),
        ("._5", "._5"),
        ("1e400", "1e400"),
        ("08", 8.0),
        ("0777", 511),
        ("0o17", 15),
        ("-0b11", -3),
        ("0x_", "0x_"),
        ("1_000", 1000),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", float(2**64)),
        (f"0.{'1' * 62}", float(f"0.{'1' * 62}")),
        (f"0.{'1' * 63}", f"0.{'1' * 63}"),
        ("y", "y"),
        ("off", False),
        ("~", None),
        ('"12"', "12"),
        ("!!str 12", "12"),
        ("!!float 1", 1.0),
        ("!!int '12'", 12),
    ],
)
def test_a_plain_value_is_what_kubernetes_reads(text: str, value: object) -> None:
    """In YAML 1.1 a time of day and some addresses of network cards are numbers with the base 60."""
    [(found, _)] = json_documents(f"a: {text}")
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


@pytest.mark.parametrize(
    ("key", "name"), [("1.0", "1"), ("1.5", "1.5"), ("1e3", "1000"), ("y", "y"), ("on", "true"), ("08", "8")]
)
def test_a_key_is_a_text(key: str, name: str) -> None:
    assert [content for content, _ in json_documents(f"{key}: a")] == [{name: "a"}]


@pytest.mark.parametrize("text", [".inf", "-.INF", ".nan", "[.inf]", "{b: +.Inf}"])
def test_a_number_without_an_end_has_no_place_in_json(text: str) -> None:
    with pytest.raises(TypeError, match="is no number in JSON"):
        list(json_documents(f"a: {text}"))


@pytest.mark.parametrize(
    "text", ["!!int x", "!!bool 1", "!!null x", "!!float x", "!!timestamp x", "!!timestamp 2026-01-01"]
)
def test_a_value_has_the_type_of_its_tag(text: str) -> None:
    with pytest.raises(YamlError, match=r"line 2 \(.*(has not the type of its tag|has no timestamps)"):
        list(json_documents(f"b: 1\na: {text}"))
