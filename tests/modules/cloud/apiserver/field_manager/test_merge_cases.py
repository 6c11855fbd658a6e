"""The published cases of structured-merge-diff (its package `merge`), and properties of the merge."""

from random import Random
from typing import Any, NamedTuple
from unittest.mock import Mock

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver.field_manager.managed_fields import ANCIENT, APPLY, UPDATE, Manager, capped, read_entries
from modules.cloud.apiserver.field_manager.paths import FieldSet, from_fields_v1, keyed, path_text, to_fields_v1
from modules.cloud.apiserver.field_manager.shapes import SchemaShape, shape_of
from modules.cloud.apiserver.field_manager.tracking import ApplyConflictError, Tracking
from modules.cloud.apiserver.field_manager.values import _merged_order, compared, fields_of, merged
from tests.support.presence import present

_TEXT: JsonObject = {"type": "string"}
_SET: JsonObject = {"type": "array", "x-kubernetes-list-type": "set", "items": _TEXT}
_ITEM: JsonObject = {"type": "object", "properties": {"name": _TEXT, "value": _TEXT, "other": _TEXT, "values": _SET}}
_KEYED: JsonObject = {
    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": _ITEM,
}  # fmt: skip
_STRUCT: JsonObject = {"type": "object", "properties": {"name": _TEXT, "value": _TEXT}}
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "list": _KEYED,
        "set": _SET,
        "atomic": {"type": "array", "items": _TEXT},
        "map": {"type": "object", "additionalProperties": _TEXT},
        "mapOfMaps": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": _TEXT}},
        "struct": _STRUCT,
        "atomicMap": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": _TEXT},
    },
}
SHAPE = SchemaShape(SCHEMA, is_root=True)


class Act(NamedTuple):
    """One request of a manager."""

    who: str
    obj: JsonObject
    verb: str = "apply"


def run(*acts: Act) -> JsonObject:
    """Carry out requests; the last state, with its managers."""
    live: JsonObject | None = None
    tracking = Tracking("", SHAPE, "2026-01-01T00:00:00Z", has_status=False)
    for who, obj, verb in acts:
        named = {**obj, "metadata": {"name": "x"}}
        if verb == "update":
            live = tracking.updated(live, named, Manager(who, UPDATE, "", "v1"))
        else:
            live = tracking.applied(live, named, Manager(who, APPLY, "", "v1"), force=verb == "force")
    assert live is not None
    return live


def content(obj: JsonObject) -> JsonObject:
    return {name: value for name, value in obj.items() if name != "metadata"}


def sets(obj: JsonObject) -> dict[str, set[str]]:
    """The fields of each manager, as texts."""
    return {one.manager.name: {path_text(path) for path in one.fields} for one in present(read_entries(obj)).values()}


def items(*names: str, **more: str) -> list[JsonObject]:
    return [{"name": name, **more} for name in names]


@pytest.mark.parametrize(
    ("acts", "left"),
    [
        pytest.param([Act("d", {"list": items("a", "c")}), Act("d", {"list": items("a", "aprime", "c", "cprime")})],
                     {"list": items("a", "aprime", "c", "cprime")}, id="append in the middle"),
        pytest.param([Act("d", {"list": items("a", "c")}), Act("d", {"list": items("a")})],
                     {"list": items("a")}, id="an element given up is removed"),
        pytest.param([Act("one", {"list": items("a", "b")}), Act("two", {"list": items("c", "d")})],
                     {"list": items("a", "b", "c", "d")}, id="elements of two managers"),
        pytest.param([Act("one", {"list": items("a", "b", "c")}), Act("two", {"list": items("c", "d", "e")}),
                      Act("one", {"list": items("a", "b")})],
                     {"list": items("a", "b", "c", "d", "e")}, id="a shared element stays with the other"),
        pytest.param([Act("one", {"list": items("a", "b")}), Act("two", {"list": items("b", "a")})],
                     {"list": items("b", "a")}, id="the manifest's order wins"),
        pytest.param([Act("one", {"list": [{"name": "a"}, {"name": "b", "values": ["c"]}]}),
                      Act("two", {"list": [{"name": "a", "values": ["b"]}]}),
                      Act("ctl", {"list": [{"name": "a", "values": ["b"]}, {"name": "b", "values": ["c", "d"]}]},
                          "update"),
                      Act("one", {"list": items("a")})],
                     {"list": [{"name": "a", "values": ["b"]}]}, id="remove_one_with_dangling_subitem_keep_one"),
        pytest.param([Act("one", {"list": [{"name": "a"}, {"name": "b", "values": ["c"]}]}),
                      Act("two", {"list": [{"name": "b", "values": ["d"]}]}),
                      Act("ctl", {"list": [{"name": "a"}, {"name": "b", "values": ["c", "d", "e"]}]}, "update"),
                      Act("one", {"list": items("a")})],
                     {"list": [{"name": "a"}, {"name": "b", "values": ["d", "e"]}]},
                     id="remove_one_keep_one_with_dangling_subitem"),
        pytest.param([Act("one", {"list": items("a", "b")}), Act("ctl", {"list": items("a", "b", "c")}, "update"),
                      Act("one", {"list": items("a")})],
                     {"list": items("a", "c")}, id="a controller's element stays"),
        pytest.param([Act("one", {"set": ["a", "b"]}), Act("two", {"set": ["b", "c"]}), Act("one", {"set": ["a"]})],
                     {"set": ["a", "b", "c"]}, id="set"),
        pytest.param([Act("one", {"set": ["a", "b"]}), Act("one", {"set": ["b"]})], {"set": ["b"]}, id="set removes"),
        pytest.param([Act("one", {"map": {"a": "1", "b": "1"}}), Act("one", {"map": {"a": "1"}})],
                     {"map": {"a": "1"}}, id="map removes"),
        pytest.param([Act("one", {"name": "a", "map": {"a": "1"}}), Act("one", {"name": "a"})],
                     {"name": "a"}, id="a map that becomes empty goes"),
        pytest.param([Act("one", {"mapOfMaps": {"a": {"b": "1"}}}), Act("two", {"mapOfMaps": {"a": {"c": "1"}}}),
                      Act("one", {})],
                     {"mapOfMaps": {"a": {"c": "1"}}}, id="nested maps of two managers"),
        pytest.param([Act("one", {"struct": {"name": "a", "value": "1"}}), Act("one", {"struct": {"name": "a"}})],
                     {"struct": {"name": "a"}}, id="a field of a struct"),
        pytest.param([Act("one", {"atomic": ["a", "b"]}), Act("one", {"atomic": ["b"]})], {"atomic": ["b"]},
                     id="an atomic list is replaced"),
        pytest.param([Act("one", {"atomicMap": {"a": "1"}}), Act("one", {"atomicMap": {"b": "1"}})],
                     {"atomicMap": {"b": "1"}}, id="an atomic map is replaced"),
        pytest.param([Act("one", {"name": "1"}), Act("two", {"name": "2"}, "force"), Act("one", {})],
                     {"name": "2"}, id="a field that was taken over stays"),
        pytest.param([Act("one", {"name": "1"}), Act("ctl", {"name": "2"}, "update"), Act("one", {})],
                     {"name": "2"}, id="a field that an update has taken stays"),
        pytest.param([Act("one", {"name": "1", "map": {"a": "1"}}), Act("ctl", {"name": "1"}, "update"),
                      Act("one", {"name": "1"})],
                     {"name": "1"}, id="an update removes"),
        pytest.param([Act("one", {"map": {}})], {"map": {}}, id="an empty map is a leaf"),
    ],
)  # fmt: skip
def test_a_published_case(acts: list[Act], left: JsonObject) -> None:
    assert content(run(*acts)) == left


@pytest.mark.parametrize(
    ("before", "acts", "said"),
    [
        ([Act("one", {"name": "1"})], Act("two", {"name": "2"}), 'conflict with "one": .name'),
        ([Act("one", {"atomic": ["a"]})], Act("two", {"atomic": ["b"]}), 'conflict with "one": .atomic'),
        ([Act("one", {"atomicMap": {"a": "1"}})], Act("two", {"atomicMap": {"b": "1"}}), ": .atomicMap"),
        ([Act("one", {"list": items("a", value="1")})], Act("two", {"list": items("a", value="2")}),
         '.list[name="a"].value'),
        ([Act("one", {"map": {"a": "1"}})], Act("two", {"map": {"a": "2"}}), ".map.a"),
    ],
)  # fmt: skip
def test_a_published_conflict(before: list[Act], acts: Act, said: str) -> None:
    with pytest.raises(ApplyConflictError) as caught:
        run(*before, acts)
    assert said in caught.value.message


def test_the_sets_of_managers() -> None:
    found = sets(run(Act("one", {"list": items("a", value="1"), "set": ["s"], "map": {"k": "v"}, "struct": {}})))
    assert found == {"one": {'.list[name="a"]', '.list[name="a"].name', '.list[name="a"].value', '.set[="s"]',
                             ".map.k", ".struct"}}  # fmt: skip


_NAMES = st.sampled_from(["a", "b", "c", "d"])
_VALUES = st.sampled_from(["1", "2"])
_LISTS = st.lists(st.fixed_dictionaries({"name": _NAMES}, optional={"value": _VALUES, "other": _VALUES}),
                  max_size=4, unique_by=lambda one: one["name"])  # fmt: skip
_MANIFESTS = st.fixed_dictionaries({}, optional={
    "name": _VALUES, "list": _LISTS, "set": st.lists(_NAMES, unique=True, max_size=4),
    "map": st.dictionaries(_NAMES, _VALUES, max_size=3),
    "struct": st.fixed_dictionaries({}, optional={"name": _VALUES, "value": _VALUES}),
    "mapOfMaps": st.dictionaries(_NAMES, st.dictionaries(_NAMES, _VALUES, max_size=2), max_size=2),
    "atomic": st.lists(_NAMES, max_size=3),
})  # fmt: skip
_ACTS = st.lists(st.builds(Act, st.sampled_from(["one", "two"]), _MANIFESTS, st.sampled_from(["force", "update"])),
                 max_size=4)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(_ACTS, _MANIFESTS)
@example([Act("one", {"set": ["a"]}, "force")], {"set": []})
def test_an_apply_is_idempotent(before: list[Act], manifest: JsonObject) -> None:
    """Also its managers; and what was applied is there, and nobody else's without a conflict.

    Only where it takes the last item out of a list or a map the field is gone, and is there, empty, after the next
    apply; and an empty list alone has no manager, so that another apply finds an object that none has. Both as in
    kube-apiserver 1.32.13 (tried).
    """
    last = Act("one", manifest, "force")
    once, twice, thrice, again = (run(*before, *[last] * number) for number in (1, 2, 3, 4))
    assert again == thrice
    assert thrice == twice == once or _has_empty(manifest)
    assert fields_of(manifest, SHAPE) <= fields_of(content(twice), SHAPE) | _composite(twice)


def _has_empty(value: Any) -> bool:
    return not value or (isinstance(value, dict) and any(map(_has_empty, value.values())))


def _composite(obj: JsonObject) -> FieldSet:
    """The fields that are leaves only where they are empty."""
    return frozenset((f"f:{name}",) for name in obj) | frozenset(
        ("f:mapOfMaps", f"f:{name}") for name in obj.get("mapOfMaps", {})
    )


@settings(max_examples=100, deadline=None)
@given(_MANIFESTS, _MANIFESTS)
def test_managers_with_other_fields_have_no_conflict_and_leave_nothing(one: JsonObject, two: JsonObject) -> None:
    """The last manager of a field removes it. An empty list has none."""
    one, two = ({name: value for name, value in each.items() if value != []} for each in (one, two))
    mine = {name: value for name, value in two.items() if name not in one}
    both = run(Act("one", one), Act("two", mine))
    assert all(both.get(name) == value for name, value in {**one, **mine}.items())
    left = content(run(Act("one", one), Act("two", mine), Act("one", {}), Act("two", {})))
    assert left == {}


@settings(max_examples=100, deadline=None)
@given(_MANIFESTS)
def test_a_set_is_read_as_it_was_written(manifest: JsonObject) -> None:
    fields = fields_of(manifest, SHAPE)
    assert from_fields_v1(msgspec.json.decode(msgspec.json.encode(to_fields_v1(fields)))) == fields


@pytest.mark.parametrize("fields", [[], {"name": {}}, {"k:[]": {}}, {"v:{": {}}, {"f:a": 1}, {"x:a": {}}])
def test_other_values_than_sets_are_refused(fields: Any) -> None:
    with pytest.raises(ValueError, match=r"wanted|no element|no keys"):
        from_fields_v1(fields)


def test_entries_of_several_versions_are_capped_by_version() -> None:
    made = [{"manager": f"m{n}", "operation": "Update", "apiVersion": f"v{n % 2}", "time": f"2026-01-01T00:00:{n:02}Z",
             "fieldsV1": {f"f:{n}": {}}} for n in range(14)]  # fmt: skip
    entries = present(read_entries({"metadata": {"managedFields": made}}))
    left = capped(entries)
    assert len(left) == 10
    assert len(frozenset().union(*(one.fields for one in left.values()))) == 14


def test_of_the_updates_of_one_second_those_of_the_first_names_become_one() -> None:
    """As the API server caps them, in whatever order they are stored."""
    made = [{"manager": name, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
             "fieldsV1": {f"f:{name}": {}}} for name in "lkjihgfedcba"]  # fmt: skip
    entries = present(read_entries({"metadata": {"managedFields": made}}))
    assert sorted(one.manager.name for one in capped(entries).values()) == [ANCIENT, *"defghijkl"]


def test_the_identity_of_an_entry() -> None:
    """An apply of another version is the same manager's, an update of a subresource another entry; the status of a kind
    without that subresource is a field like others.
    """
    tracking = Tracking("", SHAPE, "2026-01-01T00:00:00Z", has_status=False)
    live = tracking.applied(None, {"metadata": {"name": "x"}, "name": "1"}, Manager("a", APPLY, "", "v1"), force=False)
    live = tracking.applied(live, {"metadata": {"name": "x"}, "map": {}}, Manager("a", APPLY, "", "v2"), force=False)
    assert content(live) == {"map": {}}
    for subresource in ("", "scale"):
        live = tracking.updated(live, {**live, "name": subresource or "2"}, Manager("a", UPDATE, subresource, "v1"))
    live = tracking.updated(live, {**live, "status": {"x": 1}}, Manager("b", UPDATE, "", "v1"))
    entries = present(read_entries(live))
    assert {name: sorted(map(path_text, one.fields)) for name, one in entries.items()} == {
        ("a", APPLY, "", ""): [".map"],
        ("a", UPDATE, "scale", "v1"): [".name"],
        ("b", UPDATE, "", "v1"): [".status", ".status.x"],
    }


def test_few_updates_of_the_first_version_leave_the_rest_to_the_next() -> None:
    made: list[JsonObject] = [{"manager": f"m{n}", "operation": "Update", "apiVersion": "v1" if n < 2 else "v2",
             "time": f"2026-01-01T00:00:{n:02}Z", "fieldsV1": {f"f:{n}": {}}} for n in range(14)]  # fmt: skip
    entries = present(read_entries({"metadata": {"managedFields": made}}))
    left = capped(entries)
    assert len(left) == 10
    assert [len(left[ANCIENT, UPDATE, "", version].fields) for version in ("v1", "v2")] == [2, 4]


def test_entries_are_bounded() -> None:
    """In number, and in the depth of their paths."""
    made: list[JsonObject] = [
        {"manager": f"m{n}", "operation": "Update", "apiVersion": "v1", "fieldsV1": {}} for n in range(101)
    ]
    assert read_entries({"metadata": {"managedFields": made[:100]}}) is not None
    assert read_entries({"metadata": {"managedFields": made}}) is None
    deep: JsonObject = {}
    for _ in range(201):
        deep = {"f:a": deep}
    with pytest.raises(ValueError, match="wanted"):
        from_fields_v1(deep)


def test_keys_of_an_element_are_in_the_order_of_their_names_with_their_defaults() -> None:
    assert keyed({"b": 1, "a": "2"}) == 'k:{"a":"2","b":1}'
    port = ("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}')
    assert port in fields_of({"spec": {"ports": [{"port": 80}]}}, shape_of("Service"))


def test_lists_are_merged_by_the_schemas_keys_wherever_they_are() -> None:
    """In the values of a map, with a default of a key, in the metadata of a custom kind, and in conditions."""
    keyed_list: JsonObject = {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"],
        "items": {"type": "object", "properties": {"name": _TEXT, "port": {"type": "integer", "default": 80}}},
    }  # fmt: skip
    shape = SchemaShape({"type": "object", "additionalProperties": keyed_list}, is_root=True)
    assert ("f:x", 'k:{"name":"a","port":80}') in fields_of({"x": [{"name": "a"}]}, shape)
    assert fields_of({"metadata": {"finalizers": ["a/b"]}}, SHAPE) == {("f:metadata", "f:finalizers", 'v:"a/b"')}
    node = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert ("f:status", "f:conditions", 'k:{"type":"Ready"}') in fields_of(node, shape_of("Node"))


def test_the_conditions_of_a_job_are_merged_as_a_whole() -> None:
    job, other = ({"status": {"conditions": [{"type": kind, "status": "True"}]}} for kind in ("Complete", "Suspended"))
    assert fields_of(job, shape_of("Job")) == {("f:status", "f:conditions")}
    assert merged(other, job, shape_of("Job")) == job


def test_a_merged_object_has_the_manifests_order_and_shares_nothing_with_it() -> None:
    manifest: JsonObject = {"list": items("x", "a"), "atomic": ["1"]}
    found = merged({"list": items("a", "b")}, manifest, SHAPE)
    assert found == {"list": items("x", "a", "b"), "atomic": ["1"]}
    assert found["atomic"] is not manifest["atomic"]


def test_an_empty_field_of_a_lists_element_is_set_by_somebody() -> None:
    """Only the fields outside lists are there in every object of Go's types."""

    def pod(**fields: Any) -> JsonObject:
        return {"spec": {"containers": [{"name": "a", **fields}]}}

    found = compared(pod(), pod(resources={}), shape_of("Pod"))
    assert found.added == {("f:spec", "f:containers", 'k:{"name":"a"}', "f:resources")}
    assert not any(compared({}, {"spec": {}}, shape_of("Pod")))


def test_old_updates_are_added_to_a_later_entry_of_old_updates() -> None:
    """Its time is later where the clock was set back, or where a client has set the managers."""
    made = [{"manager": f"m{n}", "operation": "Update", "apiVersion": "v1", "time": f"2026-01-01T00:00:{n:02}Z",
             "fieldsV1": {f"f:{n}": {}}} for n in range(10)]  # fmt: skip
    later = {**made[0], "manager": ANCIENT, "time": "2026-01-01T00:00:30Z", "fieldsV1": {"f:old": {}}}
    entries = present(read_entries({"metadata": {"managedFields": [*made, later]}}))
    left = capped(entries)
    assert len(left) == 9
    assert left[ANCIENT, UPDATE, "", "v1"].fields == {("f:0",), ("f:1",), ("f:old",)}


def test_a_field_without_a_value_takes_nothing_away() -> None:
    """Null or empty: the elements of others stay."""
    first = Act("one", {"map": {"a": "1"}, "list": items("a"), "set": ["x"], "struct": {"name": "x"}})
    nulls: JsonObject = {"map": None, "list": None, "set": None, "struct": None}
    empty: JsonObject = {"map": {}, "list": [], "set": [], "struct": {}}
    for without_values in (nulls, empty):
        assert content(run(first, Act("two", without_values))) == first.obj
    assert content(run(Act("one", {"map": None}))) == {"map": None}


def _manifest(random: Random, *, some: bool) -> JsonObject:
    """A manifest of few names and values; with no empty lists and maps, which are leaves only while they are empty."""

    def chosen(*names: str) -> list[str]:
        return [name for name in names if not some or random.random() < 0.6]

    found: JsonObject = {
        "name": random.choice("12"), "map": {name: random.choice("12") for name in chosen("a", "b")},
        "list": [{"name": name, "value": random.choice("12")} for name in chosen("a", "b")],
        "set": chosen("a", "b"), "struct": {name: random.choice("12") for name in chosen("value")},
    }  # fmt: skip
    return {name: found[name] for name in chosen(*found) if found[name]}


def _leaves(fields: FieldSet) -> FieldSet:
    return frozenset(path for path in fields if len(path) > 1 or path == ("f:name",))


@pytest.mark.parametrize("seed", range(6))
def test_laws_of_managers(seed: int) -> None:
    """Who has set a field has it, nobody has one that is not there, and a conflict is a change of another's field."""
    random = Random(seed)  # noqa: S311 - reproducible
    live: JsonObject | None = None
    for second in range(100):
        now = f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"
        tracking = Tracking("", SHAPE, now, has_status=False)
        who = Manager(random.choice(("one", "two")), random.choice((APPLY, UPDATE)), "", "v1")
        named = {**_manifest(random, some=True), "metadata": {"name": "x"}}
        if who.operation == UPDATE:
            if live is not None and random.random() < 0.2:
                named = {**content(live), "metadata": {"name": "x"}}
            after = tracking.updated(live, named, who)
        else:
            after = tracking.applied(live, named, who, force=True)
        old, new = content(live or {}), content(after)
        before, entries = read_entries(live) or {}, read_entries(after) or {}
        if live is not None and not before:
            assert who.operation == APPLY or not entries, "an update of an object without managers notes none"
            live = after
            continue
        changed = compared(old, new, SHAPE)
        given = _leaves(changed.modified | changed.added)
        if who.operation == APPLY:
            owned = any(
                one.fields & (changed.modified | changed.added) for name, one in before.items() if name != who.identity
            )
            try:
                assert tracking.applied(live, named, who, force=False) == after
            except ApplyConflictError:
                assert owned, "who changes nothing of another's is not refused"
            else:
                assert not owned, "a field of another is changed only by force"
        there = _leaves(fields_of(new, SHAPE))
        for name, one in entries.items():
            assert one.fields and _leaves(one.fields) <= there, "nobody has a field that is not there"
            if name != who.identity:
                assert one == before[name] or one.fields < before[name].fields
                assert one.time == before[name].time and not one.fields & given
            else:
                is_same = name in before and before[name].fields == one.fields
                is_same = is_same and not (any(changed) if who.operation == APPLY else changed.modified | changed.added)
                assert one.time == (before[name].time if is_same else now), "the time is that of the last change"
        assert given <= (entries[who.identity].fields if who.identity in entries else frozenset())
        if second:
            assert there <= frozenset().union(*(one.fields for one in entries.values())), "each field has somebody"
        live = after


def test_an_element_that_a_live_list_has_twice_is_applied_once() -> None:
    """Objects of earlier versions may have such lists."""
    assert _merged_order(["a", "b", "a"], ["a"]) == [("a", -1), ("b", 1)]


def test_who_gives_up_nothing_has_no_other_field_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """An apply of one key to a ConfigMap of 24,000 took half a second of the processor; somebody may make many."""
    tracking = Tracking("", SHAPE, "2026-01-01T00:00:00Z", has_status=False)
    manager = Manager("one", APPLY, "", "v1")
    first = tracking.applied(None, {"metadata": {}, "spec": {"a": 1}}, manager, force=False)
    looked = Mock(side_effect=tracking._pruned)
    monkeypatch.setattr(tracking, "_pruned", looked)
    more = tracking.applied(first, {"metadata": {}, "spec": {"a": 2, "b": 3}}, manager, force=False)
    assert (more["spec"], looked.call_count) == ({"a": 2, "b": 3}, 0)
    less = tracking.applied(more, {"metadata": {}, "spec": {"b": 3}}, manager, force=False)
    assert (less["spec"], looked.call_count) == ({"b": 3}, 1)
