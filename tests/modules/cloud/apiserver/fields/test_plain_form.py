"""A value that is taken for one in its stored form is one: no reader would refuse or change it."""

import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modules.apimachinery.conversion import copied, validate_schema
from modules.apimachinery.kinds import kind_named
from modules.apimachinery.protobuf.empty_members import without_empty_members
from modules.cloud.apiserver.fields.plain_form import is_in_stored_form
from modules.cloud.apiserver.fields.types import decoded
from modules.lab.load.documents import whole_patch

_POD: Final = kind_named("Pod")
_TYPE: Final = ("V1PodStatus", "core.v1.PodStatus")
_TIMES = ["2026-11-27T10:00:00Z", "2026-02-30T10:00:00Z", "2026-11-27T10:00:00Z\n", "soon"]
_VALUES: st.SearchStrategy[Any] = st.sampled_from([
    None, "", "a", *_TIMES, True, False, 0, 1, -1, 1 << 31, -(1 << 31) - 1, 1 << 63, 1 << 70, 0.0, 1.0, [], ["a"],
    [None], {}, {"a": "b"}, {"a": None}, {"a": 1}, [{}], [{"ip": ""}], [{"name": "a", "resources": [{}]}],
])  # fmt: skip
_OTHERS = (
    "reason", "resize", "observedGeneration", "lastProbeTime", "signal", "exitCode", "user", "linux", "gid", "uid",
    "supplementalGroups", "volumeMounts", "readOnly", "resources", "limits", "allocatedResources", "waiting",
    "terminated", "unknown", "allocatedResourcesStatus", "initContainerStatuses",
)  # fmt: skip


def _status(number: int = 1) -> dict[str, Any]:
    """Return a whole status without nulls, as a merge leaves it."""
    patch = json.loads(whole_patch("u", number, is_steady=True))["status"]
    return {name: value for name, value in patch.items() if not name.startswith("$")}


def _structs(value: Any) -> list[dict[str, Any]]:
    """Return the structs in a value."""
    if isinstance(value, list):
        return [struct for each in value for struct in _structs(each)]
    return [value, *_structs(list(value.values()))] if isinstance(value, dict) else []


def test_a_whole_status_is_in_its_stored_form() -> None:
    assert is_in_stored_form(*_TYPE, _status())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reason", ""), ("hostIPs", []), ("reason", None), ("phase", 1), ("startTime", "soon"), ("unknown", "a"),
        ("startTime", "2026-02-30T10:00:00Z"), ("podIPs", [None]), ("podIPs", [{"ip": "10.0.0.1", "other": 1}]),
    ],
)  # fmt: skip
def test_what_a_reader_would_change_or_refuse_is_not(name: str, value: Any) -> None:
    assert not is_in_stored_form(*_TYPE, {**_status(), name: value})


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_reader_changes_what_is_taken_for_the_stored_form(data: st.DataObject) -> None:
    status = copied(_status())
    for _ in range(data.draw(st.integers(1, 3))):
        struct = data.draw(st.sampled_from(_structs(status)))
        struct[data.draw(st.sampled_from([*struct, *_OTHERS]))] = copied(data.draw(_VALUES))
    if is_in_stored_form(*_TYPE, status):
        pod = {"apiVersion": "v1", "kind": "Pod", "status": status}
        assert decoded(_POD, pod) is pod
        assert without_empty_members(pod) is pod
        validate_schema(pod)
