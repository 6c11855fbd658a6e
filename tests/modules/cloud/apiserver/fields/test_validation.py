"""Unknown and duplicate fields."""

from typing import Any

import pytest

from modules.apimachinery.api_errors import BadRequestError, InvalidError
from modules.apimachinery.kinds import KINDS, kind_named
from modules.cloud.apiserver.fields import generate
from modules.cloud.apiserver.fields.validation import (
    check_faults,
    duplicate_fields,
    faults_of_object,
    field_types,
    objects_of_patch,
    operation_faults,
    unknown_fields,
    unknown_paths,
    untyped_faults,
)

POD = kind_named("Pod")


@pytest.mark.parametrize(
    ("obj", "paths"),
    [
        ({"spec": {"containers": [{"name": "c", "comand": ["x"]}]}}, ["spec.containers[0].comand"]),
        ({"spce": {}, "metadata": {"nane": "x", "labels": {"any": "label"}}}, ["spce", "metadata.nane"]),
        ({"spec": {"containers": [{"env": [{"valueFrom": {"fieldRef": {"field": 1}}}]}]}},
         ["spec.containers[0].env[0].valueFrom.fieldRef.field"]),
        ({"spec": {"$patch": "replace", "volumes": [{"$patch": "delete"}]}}, ["spec.$patch", "spec.volumes[0].$patch"]),
        ({"spec": {"nodeSelector": {"any": "key"}, "overhead": {"cpu": 1}, "containers": "nonsense"}}, []),
    ],
)  # fmt: skip
def test_unknown_fields(obj: dict[str, Any], paths: list[str]) -> None:
    assert list(unknown_fields(POD, obj)) == [f'unknown field "{path}"' for path in paths]


def test_no_more_are_named_than_anybody_reads() -> None:
    assert len(unknown_fields(POD, {f"x{number}": 1 for number in range(100)})) == 20


def test_faults_of_an_object_are_told_in_the_order_of_its_text() -> None:
    """As Go's decoder finds them, and nothing inside an unknown field."""
    text = (
        b'{"top":{"a":1,"a":2},"spec":{"nodeName":"a","comand":1,"nodeName":"b","comand":2,"containers":[{"name":"c",'
        b'"env":[{"name":"e","vaule":"x","name":"f"}]}]},"metadata":{"labels":{"x":"1","x":"2"}},"spec":{"dns":1}}'
    )
    assert faults_of_object(POD, {}, text, ('duplicate field "spec"',)).told == (
        'unknown field "top"',
        'unknown field "spec.comand"',
        'duplicate field "spec.nodeName"',
        'unknown field "spec.containers[0].env[0].vaule"',
        'duplicate field "spec.containers[0].env[0].name"',
        'duplicate field "metadata.labels.x"',
        'duplicate field "spec"',
        'unknown field "spec.dns"',
    )


def test_duplicate_fields_of_an_untyped_body_are_told_first() -> None:
    obj = {"spec": {"comand": 1}, "bogus": 1}
    assert faults_of_object(POD, obj, b"", ()).told == ('unknown field "spec.comand"', 'unknown field "bogus"')
    of_lines = ('line 3: key "a" already set in map', 'line 9: key "b" already set in map')
    faults = faults_of_object(POD, obj, b"", of_lines)
    assert faults.told == (*of_lines, 'unknown field "bogus"', 'unknown field "spec.comand"')
    with pytest.raises(BadRequestError) as refused:
        check_faults(POD, faults, None)
    assert refused.value.message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: yaml: unmarshal errors:\n'
        '  line 3: key "a" already set in map\n  line 9: key "b" already set in map, unknown field "bogus", '
        'unknown field "spec.comand"'
    )


def test_a_patch_is_refused_as_an_invalid_object() -> None:
    check_faults(POD, untyped_faults((), ()), "{}")
    with pytest.raises(InvalidError) as refused:
        check_faults(POD, untyped_faults(('duplicate field "a"',), ["b"]), '"{}"')
    assert refused.value.message == (
        ' "" is invalid: patch: Invalid value: "{}": strict decoding error: duplicate field "a", unknown field "b"'
    )


def test_a_json_patch_has_fields_of_its_own_and_adds_others() -> None:
    patch = [
        {"op": "add", "path": "/spec/containers/1/bogus", "value": 1, "valeu": 2},
        {"op": "replace", "path": "/metadata/labels/a~1b", "value": "x"},
        {"op": "add", "path": "/spec/containers/-", "value": {"comand": 1}},
        {"op": "remove", "path": "/spec/bogus"},
    ]
    assert operation_faults(patch, b'[{"op":"add","op":"add"}]') == (
        'json patch duplicate field "[0].op"',
        'json patch unknown field "[0].valeu"',
    )
    objects = objects_of_patch(patch)
    assert objects[0] == {"spec": {"containers": [None, {"bogus": 1}]}}
    assert objects[1] == {"metadata": {"labels": {"a/b": "x"}}}
    paths = [path for each in objects for path in unknown_paths(POD, each)]
    assert paths == ["spec.containers[1].bogus", "spec.containers[0].comand"]


@pytest.mark.parametrize("patch", ["x", {}, [1, {"op": "add"}, {"op": "add", "path": 1}]])
def test_what_is_no_json_patch_has_no_fields(patch: Any) -> None:
    assert (operation_faults(patch, b""), objects_of_patch(patch)) == ((), [])


def test_a_long_json_patch_is_looked_at_in_part() -> None:
    patch = [{"op": "add", "path": "/999999" * 99, "value": 1}] * 1000
    objects = objects_of_patch(patch)
    assert len(objects) == 100
    assert str(objects[0]) == "[" * 20 + "1" + "]" * 20


def test_duplicate_fields() -> None:
    assert duplicate_fields(b'{"a":{"b":1,"b":2},"c":[{"d":1},{"d":2}]}') == ("a.b",)
    assert duplicate_fields(b'{"c":[{"d":1},{"d":2,"d":3}],"c":[]}') == ("c[1].d", "c")
    assert duplicate_fields(b"nonsense") == ()


def test_every_kind_has_its_fields() -> None:
    for kind in KINDS:
        types = field_types(kind.name)
        assert {"apiVersion", "kind", "metadata"} <= set(next(iter(types.values()))), kind.name
    assert field_types("Pod")["V1Container"]["command"] == "[str"


def test_the_file_agrees_with_the_packages() -> None:
    if why := generate.missing():
        pytest.skip(why)
    assert generate.text() == generate.TARGET.read_text()
