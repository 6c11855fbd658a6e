"""Unknown and duplicate fields."""

from __future__ import annotations

from typing import Any

import pytest

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.kinds import KINDS, kind_named
from modules.cloud.apiserver.fields import generate
from modules.cloud.apiserver.fields.validation import check_fields, duplicate_fields, field_types, unknown_fields

POD = kind_named("Pod")


@pytest.mark.parametrize(
    ("obj", "paths"),
    [
        ({"spec": {"containers": [{"name": "c", "comand": ["x"]}]}}, ["spec.containers[0].comand"]),
        ({"spce": {}, "metadata": {"nane": "x", "labels": {"any": "label"}}}, ["spce", "metadata.nane"]),
        ({"spec": {"containers": [{"env": [{"valueFrom": {"fieldRef": {"field": 1}}}]}]}},
         ["spec.containers[0].env[0].valueFrom.fieldRef.field"]),
        ({"spec": {"$patch": "replace", "volumes": [{"$patch": "delete", "name": "v"}]}}, []),
        ({"spec": {"nodeSelector": {"any": "key"}, "overhead": {"cpu": 1}, "containers": "nonsense"}}, []),
    ],
)  # fmt: skip
def test_unknown_fields(obj: dict[str, Any], paths: list[str]) -> None:
    assert list(unknown_fields(POD, obj)) == [f'unknown field "{path}"' for path in paths]


def test_no_more_are_named_than_anybody_reads() -> None:
    assert len(unknown_fields(POD, {f"x{number}": 1 for number in range(100)})) == 20


def test_strict_refuses_warn_tells_and_ignore_does_neither() -> None:
    obj = {"spec": {"comand": 1}}
    with pytest.raises(
        BadRequestError, match=r'strict decoding error: unknown field "spec\.comand", duplicate field "a"'
    ):
        check_fields(POD, obj, "Strict", ("a",))
    assert check_fields(POD, obj, "") == check_fields(POD, obj, "Warn") == ('unknown field "spec.comand"',)
    assert check_fields(POD, obj, "Ignore", ("a",)) == ()
    with pytest.raises(BadRequestError) as refused:
        check_fields(POD, obj, "Strict", ("a",))
    assert refused.value.message == 'strict decoding error: unknown field "spec.comand", duplicate field "a"'
    assert check_fields(POD, obj, "") == check_fields(POD, obj, "Warn") == ('unknown field "spec.comand"',)
    assert check_fields(POD, obj, "Ignore", ("a",)) == ()
    with pytest.raises(BadRequestError, match="fieldValidation: Unsupported value"):
        check_fields(POD, obj, "strict")


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
