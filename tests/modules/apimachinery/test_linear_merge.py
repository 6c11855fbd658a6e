"""Strategic merges of lists as long as a node likes: the results of the plain definition, in linear time."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from modules.apimachinery.api_errors import InvalidError
from modules.apimachinery.strategic_merge import merge_strategic
from modules.apimachinery.validation.objects import validate_object
from modules.cloud.apiserver.fields.merge_schemas import schema_of

_NODE = schema_of("Node")
_names = st.lists(st.sampled_from("abcdef"), max_size=7)


def ordered_by_definition(values: list[str], order: list[str], before: list[str]) -> list[str]:
    """What `$setElementOrder` means, said with lists alone."""
    listed = sorted((value for value in values if value in order), key=order.index)
    others = sorted((value for value in values if value not in order), key=before.index)
    result: list[str] = []
    while listed and others:
        in_front = others[0] in before and listed[0] in before and before.index(others[0]) < before.index(listed[0])
        result.append((others if in_front else listed).pop(0))
    return result + listed + others


@given(_names, _names, _names, _names)
def test_a_set_is_merged_as_it_is_defined(old: list[str], new: list[str], removed: list[str], more: list[str]) -> None:
    assume(old or new)
    patch = {
        "finalizers": new,
        "$deleteFromPrimitiveList/finalizers": removed,
        "$setElementOrder/finalizers": [*new, *more],
    }
    merged = merge_strategic({"metadata": {"finalizers": old}}, {"metadata": patch}, _NODE)
    values = ordered_by_definition(list(dict.fromkeys([*old, *new])), [*new, *more], old)
    assert merged["metadata"]["finalizers"] == [value for value in values if value not in removed]


@given(_names, _names, _names, _names)
def test_a_list_with_a_key_is_merged_as_it_is_defined(
    old: list[str], new: list[str], deleted: list[str], more: list[str]
) -> None:
    assume(old or new or deleted)
    elements: list[dict[str, Any]] = [{"type": name, "status": "new"} for name in new]
    elements += [{"type": name, "$patch": "delete"} for name in deleted]
    patch = {"conditions": elements, "$setElementOrder/conditions": [{"type": name} for name in [*new, *more]]}
    original = {"status": {"conditions": [{"type": name} for name in old]}}
    merged = merge_strategic(original, {"status": patch}, _NODE)["status"]["conditions"]
    kept = [name for name in old if name not in deleted]
    names = [*kept, *(name for name in dict.fromkeys(new) if name not in kept)]
    arranged = ordered_by_definition(names, new, kept)
    assert [one["type"] for one in merged] == ordered_by_definition(arranged, [*new, *more], names[: len(old)])


class Counted(str):
    """Text that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def comparisons_of(patch: dict[str, Any], original: dict[str, Any]) -> int:
    Counted.compared = 0
    merge_strategic(original, patch, _NODE)
    return Counted.compared


def counted(size: int, prefix: str) -> list[str]:
    return [Counted(f"{prefix}{number}") for number in range(size)]


@pytest.mark.parametrize(
    "directive", ["finalizers", "$deleteFromPrimitiveList/finalizers", "$setElementOrder/finalizers"]
)
def test_comparisons_grow_with_the_length_of_a_set_and_not_with_its_square(directive: str) -> None:
    for size in (500, 2000):
        original = {"metadata": {"finalizers": counted(size, "old")}}
        new = counted(size, "new")
        of_directive = [*(new if "Order" in directive else []), *counted(size, "old")]
        patch: dict[str, Any] = {"metadata": {"finalizers": new, directive: of_directive}}
        assert comparisons_of(patch, original) <= 20 * size


def test_comparisons_grow_with_the_length_of_a_list_with_a_key() -> None:
    for size in (500, 2000):
        old = [{"type": name} for name in counted(size, "t")]
        order = [{"type": name} for name in counted(size, "t")[::-1]]
        patch = {"status": {"conditions": old[::-1], "$setElementOrder/conditions": order}}
        assert comparisons_of(patch, {"status": {"conditions": old}}) <= 40 * size


def test_numbers_are_not_looked_up_by_a_hash_that_a_node_can_choose() -> None:
    """Python hashes these 3,000 numbers to one value; a set of them would compare each with each."""
    same = [7 + number * (2**61 - 1) for number in range(3000)]
    merged = merge_strategic({"metadata": {"finalizers": same}}, {"metadata": {"finalizers": same[::-1]}}, _NODE)
    assert merged["metadata"]["finalizers"] == same[::-1]


def test_a_pod_of_many_containers_is_checked_in_linear_time() -> None:
    """The names of 3,000 containers, with the last one twice."""
    names = [*counted(3000, "c"), Counted("c0")]
    containers = [{"name": name, "image": "i"} for name in names]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    with pytest.raises(InvalidError, match='Duplicate value: "c0"'):
        validate_object(pod)
