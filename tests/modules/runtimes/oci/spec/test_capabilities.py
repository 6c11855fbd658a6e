"""Capabilities as pure translation."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from modules.runtimes.engine.errors import BadRequestError, WrongStateError
from modules.runtimes.oci.spec import Machine
from modules.runtimes.oci.spec.capabilities import DEFAULT, check_capabilities, container_capabilities
from modules.runtimes.oci.spec.capability_names import NAMES
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.spec.samples import UNIFIED


def _granted(add: list[str], drop: list[str], machine: Machine = UNIFIED, **fields: Any) -> set[str]:
    capabilities = cri.Capability(add_capabilities=add, drop_capabilities=drop)
    security = cri.LinuxContainerSecurityContext(capabilities=capabilities, **fields)
    return {name.removeprefix("CAP_") for name in container_capabilities(security, machine)["bounding"]}


@pytest.mark.parametrize(
    ("add", "drop", "expected"),
    [
        ([], [], DEFAULT),
        (["ALL"], [], set(NAMES)),
        ([], ["ALL"], set()),
        (["ALL"], ["ALL"], set()),
        (["SYS_ADMIN"], ["ALL"], {"SYS_ADMIN"}),
        (["ALL"], ["NET_RAW"], set(NAMES) - {"NET_RAW"}),
        (["cap_sys_time"], [], DEFAULT | {"SYS_TIME"}),
        (["CHOWN"], ["CHOWN"], DEFAULT - {"CHOWN"}),
    ],
)
def test_capabilities(add: list[str], drop: list[str], expected: set[str]) -> None:
    """ALL first, then additions, then removals."""
    assert _granted(add, drop) == expected


_SOME = st.lists(st.sampled_from((*NAMES, "ALL")), max_size=6)


@given(add=_SOME, drop=_SOME, own=st.frozensets(st.sampled_from(NAMES)), privileged=st.booleans())
def test_no_more_than_edgecore_has(add: list[str], drop: list[str], own: frozenset[str], privileged: bool) -> None:
    """Whatever is asked: nothing that edgecore does not have, and nothing that is dropped, but for privileged ones."""
    granted = _granted(add, drop, replace(UNIFIED, capabilities=own), privileged=privileged)
    assert granted <= own
    assert granted == own if privileged else not granted & set(drop)


def test_what_cannot_be_given() -> None:
    """A malformed name (the runtimes would drop it without a word), and what edgecore or the kernel lacks."""
    machine = replace(UNIFIED, capabilities=DEFAULT, known_capabilities=frozenset(NAMES) - {"BPF"})
    for asked in (cri.Capability(add_capabilities=["NET_ADMN"]), cri.Capability(drop_capabilities=["CAP_CAP_KILL"])):
        with pytest.raises(BadRequestError, match="there is no capability"):
            check_capabilities("create it", asked, machine)
    with pytest.raises(WrongStateError, match="edgecore itself does not have the capability SYS_ADMIN"):
        check_capabilities("create it", cri.Capability(add_capabilities=["SYS_ADMIN"]), machine)
    with pytest.raises(WrongStateError, match="this kernel does not have the capability BPF"):
        check_capabilities("create it", cri.Capability(add_ambient_capabilities=["BPF"]), machine)
    check_capabilities("create it", cri.Capability(add_capabilities=["ALL"]), machine)


def test_ambient_ones_are_inheritable_and_granted() -> None:
    """The kernel demands it; all others are neither."""
    asked = cri.Capability(drop_capabilities=["ALL"], add_ambient_capabilities=["CAP_SYS_TIME"])
    found = container_capabilities(cri.LinuxContainerSecurityContext(capabilities=asked), UNIFIED)
    assert found.keys() == {"bounding", "permitted", "effective", "inheritable", "ambient"}
    assert all(names == ["CAP_SYS_TIME"] for names in found.values())
    usual = container_capabilities(cri.LinuxContainerSecurityContext(), UNIFIED)
    assert usual["bounding"]
    assert usual["inheritable"] == usual["ambient"] == [], "a program of the image must not gain them (CVE-2022-24769)"
