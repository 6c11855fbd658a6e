"""Filters that crun has compiled serve the next containers with the same profile."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from modules.runtimes.oci.seccomp_programs import ANNOTATION, SeccompPrograms
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.node import OciNode

_FORBIDDEN = "unshare -U true 2>/dev/null && echo allowed || echo refused; grep -h Seccomp: /proc/self/status"


def _config(**profile: Any) -> dict[str, Any]:
    return {"annotations": {"kept": "too"}, "linux": {"seccomp": {"defaultAction": "SCMP_ACT_ERRNO", **profile}}}


def _compiled(states: Path, container: str, program: bytes = b"\0" * 16) -> None:
    (states / container).mkdir()
    (states / container / "seccomp.bpf").write_bytes(program)


def test_a_filter_is_for_equal_profiles_only(tmp_path: Path) -> None:
    """Another profile, none, and one whose calls a program listens to are compiled as before."""
    programs = SeccompPrograms(tmp_path)
    _compiled(tmp_path, "a")
    programs.learn("a", _config())
    applied = programs.applied(_config())
    assert applied["annotations"] == {"kept": "too", ANNOTATION: base64.b64encode(b"\0" * 16).decode()}
    assert applied["linux"] == _config()["linux"]
    _compiled(tmp_path, "b")
    listened = _config(listenerPath="/run/listener.sock")
    programs.learn("b", listened)
    others: list[dict[str, Any]] = [_config(defaultErrnoRet=1), listened, {"linux": {}}]
    for other in others:
        assert programs.applied(other) is other


@pytest.mark.parametrize("program", [b"", b"\0" * 15, b"\0" * (4097 * 8)])
def test_other_bytes_than_filters_are_not_kept(tmp_path: Path, program: bytes) -> None:
    """Nor a missing one: runc leaves none."""
    programs = SeccompPrograms(tmp_path)
    programs.learn("missing", _config())
    _compiled(tmp_path, "a", program)
    programs.learn("a", _config())
    assert ANNOTATION not in programs.applied(_config())["annotations"]


def test_the_least_used_filter_makes_room(tmp_path: Path) -> None:
    """Eight are kept, however many profiles pods bring."""
    programs = SeccompPrograms(tmp_path)
    _compiled(tmp_path, "a")
    for number in range(9):
        programs.learn("a", _config(defaultErrnoRet=number))
        programs.applied(_config(defaultErrnoRet=0))
    kept = [ANNOTATION in programs.applied(_config(defaultErrnoRet=number))["annotations"] for number in range(9)]
    assert kept == [True, False, *[True] * 7]


def test_the_second_container_has_the_filter_of_the_first(node: OciNode) -> None:
    """Byte by byte, in its first process and in commands; the first is compiled, the second gets it ready-made."""
    config = cri.ContainerConfig()
    config.linux.security_context.seccomp.profile_type = cri.SecurityProfile.RuntimeDefault
    containers = [node.shell(f"{_FORBIDDEN}; exec sleep 1000", config) for _ in range(2)]
    filters = [next((node.state / "runtime").glob(f"*/{each}/seccomp.bpf")).read_bytes() for each in containers]
    assert filters[0] == filters[1]
    bundles = [node.state / "containers" / each / "bundle" / "config.json" for each in containers]
    given = [json.loads(each.read_text())["annotations"].get(ANNOTATION) for each in bundles]
    assert given == [None, base64.b64encode(filters[0]).decode()]
    for each in containers:
        node.logged(each, "refused")
        node.logged(each, "Seccomp:\t2")
        assert node.execute(each, "sh", "-c", _FORBIDDEN).stdout == b"refused\nSeccomp:\t2\n"
