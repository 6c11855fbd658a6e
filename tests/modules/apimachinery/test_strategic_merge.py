"""Strategic merge patches: Kubernetes' rules one by one, laws, and the patches that a real edge sent."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.conversion import without_null_members
from modules.apimachinery.merge_schema import MergeSchema
from modules.apimachinery.strategic_merge import merge_json, merge_strategic
from modules.cloud.apiserver.fields.merge_schemas import schema_of
from tests.modules.traces import recordings, steps_of

POD = schema_of("Pod")
NODE = schema_of("Node")


def types(*names: str) -> list[dict[str, str]]:
    return [{"type": name} for name in names]


@pytest.mark.parametrize(
    ("original", "patch", "expected"),
    [
        pytest.param({"a": 1}, {}, {"a": 1}, id="an empty patch changes nothing"),
        pytest.param({"a": 1}, {"a": 2, "b": 3}, {"a": 2, "b": 3}, id="values are replaced and added"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null removes"),
        pytest.param({}, {"a": None}, {}, id="null for a missing field adds nothing"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}, id="objects merge"),
        pytest.param({"a": 1}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}, id="an object replaces a value"),
        pytest.param({"l": [1, 2]}, {"l": [3]}, {"l": [3]}, id="an unknown list is replaced"),
        pytest.param({"a": {"b": 1}}, {"a": {"$patch": "delete"}}, {"a": {}}, id="$patch delete empties an object"),
        pytest.param({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2}}, {"a": {"c": 2}}, id="$patch replace"),
        pytest.param(
            {"a": {"b": 1, "c": 2}}, {"a": {"$retainKeys": ["b"]}}, {"a": {"b": 1}}, id="$retainKeys drops others"
        ),
        pytest.param(
            {"a": {"b": 1, "c": 2}}, {"a": {"$retainKeys": ["b"], "c": None}}, {"a": {"b": 1}}, id="a null is not kept"
        ),
    ],
)
def test_objects(original: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]) -> None:
    assert merge_strategic(original, patch, MergeSchema()) == expected


def conditions(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": name, "status": value} for name, value in pairs]}}


@pytest.mark.parametrize(
    ("original", "patch", "expected"),
    [
        pytest.param(
            conditions(("A", "1"), ("B", "1")),
            conditions(("B", "2")),
            conditions(("A", "1"), ("B", "2")),
            id="an element is merged where it stands",
        ),
        pytest.param(
            conditions(("A", "1")),
            conditions(("B", "1")),
            conditions(("B", "1"), ("A", "1")),
            id="a new element comes first",
        ),
        pytest.param(
            conditions(("A", "1"), ("B", "1")),
            {"status": {"conditions": [{"type": "A", "$patch": "delete"}]}},
            conditions(("B", "1")),
            id="$patch delete removes an element",
        ),
        pytest.param(
            conditions(("A", "1"), ("B", "1")),
            {"status": {"conditions": [{"$patch": "replace"}, {"type": "C", "status": "1"}]}},
            conditions(("C", "1")),
            id="$patch replace replaces the list",
        ),
        pytest.param(
            conditions(("A", "1"), ("B", "1")),
            {"status": {"$setElementOrder/conditions": types("B", "A")}},
            conditions(("B", "1"), ("A", "1")),
            id="an order alone sorts",
        ),
        pytest.param(
            conditions(("A", "1"), ("X", "1"), ("B", "1")),
            {
                "status": {
                    "$setElementOrder/conditions": types("C", "A", "B"),
                    "conditions": [{"type": "C", "status": "1"}],
                }
            },
            conditions(("C", "1"), ("A", "1"), ("X", "1"), ("B", "1")),
            id="what only the original has keeps its place",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c", "b"]}},
            {"metadata": {"finalizers": ["c", "b"]}},
            id="a set loses and gains values",
        ),
        pytest.param(
            {"status": {"containerStatuses": [{"name": "a", "ready": True}, {"name": "b"}]}},
            {"status": {"containerStatuses": [{"name": "a", "lastState": {"x": None}}]}},
            {"status": {"containerStatuses": [{"name": "a", "lastState": {}}]}},
            id="container statuses are replaced whole",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}], "image": "i"}]}},
            {"spec": {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]}},
            {
                "spec": {
                    "containers": [
                        {"name": "a", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}], "image": "i"}
                    ]
                }
            },
            id="lists inside merged elements follow the schema too",
        ),
    ],
)
def test_lists_of_a_pod(original: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]) -> None:
    assert merge_strategic(original, patch, POD) == expected


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"$patch": "explode"}, id="an unknown directive"),
        pytest.param({"$retainKeys": ["a"], "b": 1}, id="a set key that is not retained"),
        pytest.param({"$retainKeys": "a"}, id="$retainKeys that is no list"),
        pytest.param({"status": {"$setElementOrder/conditions": [], "conditions": {}}}, id="an object for a list"),
        pytest.param({"status": {"conditions": ["A"]}}, id="a string in a merged list"),
        pytest.param({"status": {"conditions": [{"status": "True"}]}}, id="an element without its key"),
        pytest.param({"status": {"conditions": [{"type": "A", "$patch": "merge"}]}}, id="a directive of objects"),
        pytest.param({"status": {"conditions": [{"type": ["A"]}]}}, id="a key that is no plain value"),
        pytest.param({"$setElementOrder": []}, id="an order of no list"),
        pytest.param({"$deleteFromPrimitiveList": []}, id="values of no list"),
    ],
)
def test_a_patch_that_means_nothing_is_refused(patch: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError):
        merge_strategic({"status": {"conditions": [{"type": "A"}]}}, patch, POD)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text("abc", max_size=2), json_values, max_size=4)
condition_lists = st.lists(st.sampled_from("ABCDE"), unique=True, max_size=5)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(json_objects, json_objects)
def test_a_patch_without_directives_is_idempotent_and_changes_no_argument(
    original: dict[str, Any], patch: dict[str, Any]
) -> None:
    """Applying a patch twice gives what applying it once gives (RFC 7386's law, which holds here too)."""
    before = json.dumps([original, patch])
    once = merge_strategic(original, patch, MergeSchema())
    assert merge_strategic(once, patch, MergeSchema()) == once
    assert json.dumps([original, patch]) == before


@given(condition_lists, condition_lists)
def test_a_merged_list_has_every_element_once_and_the_patch_in_its_order(old: list[str], new: list[str]) -> None:
    patch = {"status": {"conditions": types(*new), "$setElementOrder/conditions": types(*new)}} if new else {}
    merged = merge_strategic({"status": {"conditions": types(*old)}}, patch, POD)
    names = [condition["type"] for condition in merged["status"]["conditions"]]
    assert sorted(names) == sorted({*old, *new})
    assert [name for name in names if name in new] == new


@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.stem)
def test_recorded_patches_give_the_recorded_status(path: Path) -> None:
    """Each patch of a real edge, applied to the object as the cloud last sent it, gives the status that the real API
    server answered.
    """
    objects: dict[str, dict[str, Any]] = {}
    patches: dict[str, dict[str, Any]] = {}
    compared = 0
    for step in steps_of(path):
        if step.from_edge and step.operation == "patch":
            patches[step.id] = json.loads(step.content)
        elif not step.from_edge and isinstance(step.content, dict):
            obj = step.content.get("Object", step.content)
            if step.content.get("Err") or not obj:
                continue
            name = step.resource.replace("podpatch", "pod").replace("nodepatch", "node")
            if step.parent in patches and name in objects:
                schema = NODE if "/node/" in name else POD
                merged = merge_strategic(objects[name], patches[step.parent], schema)
                assert without_null_members(merged["status"]) == without_null_members(obj["status"])
                compared += 1
            if step.parent or step.operation in ("insert",):
                objects[name] = obj
            else:
                objects.setdefault(name, obj)
    assert compared or not patches or path.stem.startswith("13")


READY = {"type": "Ready", "status": "True", "reason": "Started"}


@pytest.mark.parametrize(
    ("old", "part", "is_same"),
    [
        pytest.param(READY, READY, True, id="all of it"),
        pytest.param(READY, {"type": "Ready", "status": "True", "lastProbeTime": None}, True, id="a part, and a null"),
        pytest.param(READY, {"type": "Ready", "status": "False"}, False, id="another text"),
        pytest.param(READY, {"type": "Ready", "reason": None}, False, id="a null for a text"),
        pytest.param({"type": "Ready", "status": True}, {"type": "Ready", "status": 1}, False, id="1 for true"),
        pytest.param({"type": "Ready", "status": None}, {"type": "Ready", "status": None}, False, id="a stored null"),
    ],
)
def test_an_element_that_a_patch_leaves_as_it_is_stays_the_same_object(
    old: dict[str, Any], part: dict[str, Any], *, is_same: bool
) -> None:
    """So that what follows need not look at it again; otherwise its values have the types of the patch's."""
    given: dict[str, Any] = {**old}
    (merged,) = merge_strategic({"conditions": [given]}, {"conditions": [{**part}]}, POD.field("status").schema)[
        "conditions"
    ]
    assert (merged is given) == is_same
    wanted = without_null_members({**old, **part})
    assert json.dumps(merged, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def test_a_directive_of_an_element_is_read_when_its_texts_are_the_same() -> None:
    given = {"conditions": [READY]}
    with pytest.raises(BadRequestError):
        merge_strategic(given, {"conditions": [{**READY, "$retainKeys": None}]}, POD.field("status").schema)


def test_a_json_merge_patch_stores_no_null_below_a_list() -> None:
    """A null element stays; a custom resource has no schema that would drop the others."""
    patch = {"new": [{"a": None, "b": [{"c": None}]}, None, [{"d": None, "e": 1}]], "gone": None, "x": {"y": None}}
    merged = merge_json({"gone": 1, "kept": [{"z": None}]}, patch)
    assert merged == {"kept": [{"z": None}], "new": [{"b": [{}]}, None, [{"e": 1}]], "x": {}}
