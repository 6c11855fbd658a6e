"""JSON patches, with the examples of RFC 6902's appendix, and what Kubernetes does otherwise."""

from copy import deepcopy
from typing import Any

import pytest

from beehive.nesting import LEVELS, is_nested_deeper
from modules.apimachinery.api_errors import BadRequestError, TooLargeError, UnprocessableError
from modules.apimachinery.json_patch import MOVED_VALUES, OPERATIONS, apply_json_patch


@pytest.mark.parametrize(
    ("document", "operations", "result"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
        ({"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}], {"foo": ["bar", "qux", "baz"]}),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
        ({"foo": {"bar": "baz", "waldo": "fred"}, "qux": {}},
         [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}], {"foo": {"bar": "baz"}, "qux": {"thud": "fred"}}),
        ({"foo": ["all", "grass", "cows", "eat"]}, [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
         {"foo": ["all", "cows", "eat", "grass"]}),
        ({"a": {"b": [1]}}, [{"op": "copy", "from": "/a/b", "path": "/c"}], {"a": {"b": [1]}, "c": [1]}),
        ({"baz": "qux", "foo": ["a", 2, "c"]},
         [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
         {"baz": "qux", "foo": ["a", 2, "c"]}),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["abc"]}], {"foo": ["bar", ["abc"]]}),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        ({"foo": "bar"}, [{"op": "add", "path": "", "value": {"x": 1}}], {"x": 1}),
        ({"foo": "bar"}, [{"op": "move", "from": "/foo", "path": "/foo"}], {"foo": "bar"}),
        ({"a": {"b": 1, "c": {}}}, [{"op": "move", "from": "/a/b", "path": "/a/c/d"}], {"a": {"c": {"d": 1}}}),
        ({}, [{"op": "add", "path": "/a", "value": {}}, {"op": "add", "path": "/a/b", "value": 1}], {"a": {"b": 1}}),
        ({"foo": None}, [{"op": "replace", "path": "/foo", "value": "truthy", "more": 1}], {"foo": "truthy"}),
        ({}, [{"op": "replace", "path": "/foo", "value": 1}], {"foo": 1}),
        ({"foo": 1}, [{"op": "replace", "path": "/foo"}, {"op": "add", "path": "/bar"}], {"foo": None, "bar": None}),
        ({}, [{"op": "test", "path": "/foo", "value": None}], {}),
        ({}, [{"op": "copy", "from": "/foo", "path": "/bar"}], {"bar": None}),
        ({"foo": [1, 2]}, [{"op": "replace", "path": "/foo/-1", "value": 3}], {"foo": [1, 3]}),
        ({"foo": [1, 2]}, [{"op": "remove", "path": "/foo/-2"}], {"foo": [2]}),
        ({"foo": [1, 2]}, [{"op": "add", "path": "/foo/-1", "value": 3}], {"foo": [1, 2, 3]}),
        ({"foo": [1, 2]}, [{"op": "add", "path": "/foo/-3", "value": 3}], {"foo": [3, 1, 2]}),
    ],
)  # fmt: skip
def test_an_operation(document: Any, operations: Any, result: Any) -> None:
    before = deepcopy((document, operations))
    assert apply_json_patch(document, operations) == result
    assert (document, operations) == before


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "add", "path": "/list/3", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "remove", "path": "/nothing"},
        {"op": "remove", "path": "/list/-"},
        {"op": "remove", "path": ""},
        {"op": "replace", "path": "/nothing/x", "value": 1},
        {"op": "replace", "path": "/text/x", "value": 1},
        {"op": "replace", "path": "/list/-2", "value": 1},
        {"op": "add", "path": "/list/-3", "value": 1},
        {"op": "replace", "path": "/list/1", "value": 1},
        {"op": "remove", "path": "/list/1"},
        {"op": "move", "from": "/list", "path": "/list/0"},
        {"op": "copy", "from": "/nothing/x", "path": "/x"},
        {"op": "move", "from": "/nothing", "path": "/x"},
        {"op": "test", "path": "/nothing", "value": 1},
        {"op": "test", "path": "/list/1", "value": None},
        {"op": "test", "path": "/list/0", "value": True},
        {"op": "add", "path": "/text/0", "value": "x"},
        {"op": "remove", "path": "/text/0"},
        {"op": "move", "from": "/text/0", "path": "/a"},
        {"op": "walk", "path": "/a"},
        {"op": ["add"], "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
    ],
)
def test_an_operation_that_does_not_fit(operation: Any) -> None:
    with pytest.raises(UnprocessableError):
        apply_json_patch({"list": [1], "text": "abc"}, [operation])


@pytest.mark.parametrize("member", ["x" * 1000, [{}] * 100])
def test_copies_of_copies_do_not_fill_the_memory(member: Any) -> None:
    """Values count as bytes do: of empty lists and objects there are a million in three megabytes."""
    copies = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 40
    with pytest.raises(UnprocessableError, match="copies"):
        apply_json_patch({"a": [member]}, copies)


def test_a_small_patch_makes_no_large_object() -> None:
    """One of 60 KB, of a node, took the cloud's only controller more than a second."""
    add = {"op": "add", "path": "/x", "value": [[]] * 4_000}
    copies = [{"op": "copy", "from": "/x", "path": f"/x{number}"} for number in range(3)]
    with pytest.raises(UnprocessableError, match="copies have more than 3145728 bytes or 10000 values"):
        apply_json_patch({}, [add, *copies])
    assert len(apply_json_patch({}, [add, *copies[:2]])) == 3


def _nested(levels: int) -> Any:
    return {"a": _nested(levels - 1)} if levels else {}


@pytest.mark.parametrize("op", ["add", "replace", "copy", "move"])
def test_a_patch_does_not_nest_deeper_than_a_text(op: str) -> None:
    """Whoever goes through the object would need more stack than there is."""
    path = "/x" + "/a" * 100
    for levels, is_too_deep in ((LEVELS - 102, False), (LEVELS - 101, True)):
        document = {"x": _nested(100), "y": _nested(levels)}
        operation = {"op": op, "path": path, "from": "/y", "value": _nested(levels)}
        if is_too_deep:
            with pytest.raises(BadRequestError, match="more than 256 levels"):
                apply_json_patch(document, [operation])
        else:
            assert is_nested_deeper(apply_json_patch(document, [operation]), LEVELS - 1)
    with pytest.raises(BadRequestError, match="more than 256 levels"):
        apply_json_patch({}, [{"op": "add", "path": "", "value": _nested(LEVELS)}])


@pytest.mark.parametrize("patch", [{}, [1], "x", None])
def test_other_values_than_json_patches(patch: Any) -> None:
    with pytest.raises(BadRequestError):
        apply_json_patch({}, patch)


def test_a_patch_whose_pointers_are_too_long_together() -> None:
    add = {"op": "add", "path": "/a" * 101, "value": 1}
    with pytest.raises(TooLargeError, match="at most 100000 parts"):
        apply_json_patch({}, [add] * 1000)
    with pytest.raises(UnprocessableError, match="nothing at"):
        apply_json_patch({}, [add] * 10)


def test_a_patch_of_too_many_operations() -> None:
    test = {"op": "test", "path": "", "value": {}}
    with pytest.raises(TooLargeError, match="maximum operations in a JSON patch is 10000, got 10001"):
        apply_json_patch({}, [test] * (OPERATIONS + 1))
    assert apply_json_patch({}, [test] * OPERATIONS) == {}


def test_a_patch_that_moves_too_much() -> None:
    """A move looks at all that is moved."""
    there, back = ({"op": "move", "from": f"/{one}", "path": f"/{other}"} for one, other in ("ab", "ba"))
    values = [0] * (MOVED_VALUES // 100 - 1)
    assert apply_json_patch({"a": values}, [there, back] * 50) == {"a": values}
    with pytest.raises(TooLargeError, match="moves"):
        apply_json_patch({"a": values}, [there, back] * 51)
