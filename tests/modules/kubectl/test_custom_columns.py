"""Custom columns and --sort-by; the texts are kubectl 1.32.4's."""

from typing import Any, Final

import pytest

from modules.kubectl.custom_columns import ColumnsError, read_columns, read_columns_file, table_of
from modules.kubectl.get import sorted_by
from modules.kubectl.jsonpath import JsonPathError
from tests.modules.kubectl.fixed_server import real_kubectl
from tests.modules.kubectl.jsonpath_pods import PODS

SPECS: Final = (
    "NAME:.metadata.name",
    "NAME:metadata.name,IMAGE:{.spec.containers[0].image}",
    ":.metadata.name",
    "LONGTITLEHERE:.metadata.name,B:.metadata.namespace",
    "N:.metadata.name,L:.metadata.labels,C:.spec.containers[*].name,X:.nope,E:.spec.s,P:.spec.containers,F:.spec.f,"
    "B:.spec.big,T:.spec.containers[*].tty,S:.spec.containers[1].stdin",
)


def test_the_table_is_kubectls() -> None:
    assert table_of(read_columns("NAME:.metadata.name,C:.spec.containers[*].name,X:.x,S:.spec.m"), PODS) == [
        "NAME   C     X        S",
        "x      c,d   <none>   map[]",
        "y      c,d   <none>   map[]",
    ]


def test_the_table_can_do_without_headers() -> None:
    assert table_of(read_columns("NAME:.metadata.name"), PODS, headers=False) == ["x", "y"]
    assert table_of(read_columns("NAME:.metadata.name"), []) == ["NAME"]
    assert table_of(read_columns("NAME:.metadata.name"), [], headers=False) == []


def test_tables_equal_the_real_kubectls() -> None:
    with real_kubectl(PODS) as kubectl:
        for spec in SPECS:
            lines = table_of(read_columns(spec), PODS)
            assert kubectl.run("get", "pods", "-o", f"custom-columns={spec}") == "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("", "custom-columns format specified but no custom columns given"),
        ("foo", "unexpected custom-columns spec: foo, expected <header>:<json-path-expr>"),
        ("N:.metadata.name,", "unexpected custom-columns spec: , expected"),
        ("N:", "unexpected custom-columns spec: N:, expected"),
        (",".join(["N:.a"] * 257), "more than 256"),
    ],
)
def test_a_wrong_description_is_refused(spec: str, why: str) -> None:
    with pytest.raises(ColumnsError, match=why):
        read_columns(spec)


def test_a_wrong_path_is_refused() -> None:
    with pytest.raises(JsonPathError, match="unexpected path string"):
        read_columns("N:{.a}{.b}")


def test_columns_come_from_a_file() -> None:
    assert table_of(read_columns_file("A  B\n.metadata.name .kind\n"), PODS[:1]) == ["A     B", "x     Pod"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "missing header line"),
        ("\n", "missing header line"),
        ("A\n", "missing spec line"),
        ("A B\n.kind\n", r"number of headers \(2\) and field specifications \(1\) don't match"),
    ],
)
def test_a_wrong_file_is_refused(text: str, why: str) -> None:
    with pytest.raises(ColumnsError, match=why):
        read_columns_file(text)


def test_control_characters_of_objects_and_titles_are_harmless() -> None:
    lines = table_of(read_columns("N\x1b:.metadata.name"), [{"metadata": {"name": "\x1b[2J\n"}}])
    assert lines == [r"N\x1b", r"\x1b[2J\n"]


def _sorted(values: list[Any]) -> list[Any]:
    objects = [{"n": place} | ({} if value is ... else {"v": value}) for place, value in enumerate(values)]
    return [values[obj["n"]] for obj in sorted_by(objects, ".v")]


@pytest.mark.parametrize(
    "ordered",
    [
        [1, 2, 10],
        [-1.5, 0, 2],
        ["100m", "0.5", "1", "1Ki", "1Mi"],
        ["web-1", "web-2", "web-10", "web-010a"],
        ["2026-11-20T08:00:00Z", "2026-11-20T10:00:00Z"],
        [..., ..., "a", "b"],
        [None, 1],
        [False, True],
        ["a1b", "a1c", "a" + "9" * 5000],
    ],
)
def test_values_are_sorted_by_their_types(ordered: list[Any]) -> None:
    assert _sorted(ordered[::-1]) == ordered


def test_equal_values_keep_their_order() -> None:
    objects = [{"n": n, "v": 1} for n in range(5)]
    assert sorted_by(objects, "{.v}") == objects


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([{"a": 1}], "unsortable interface: map"),
        ([[1]], "unsortable interface: slice"),
        (["a", 1], "unsortable interface: texts among numbers"),
        ([...], 'couldn\'t find any field with path "{.v}" in the list of objects'),
    ],
)
def test_what_cannot_be_sorted_is_refused(values: list[Any], why: str) -> None:
    with pytest.raises(JsonPathError, match=why):
        _sorted(values)


def test_nothing_is_sorted_without_objects() -> None:
    assert sorted_by([], ".nope") == []
