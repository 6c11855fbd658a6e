"""Filters of system calls: the default profile, and profiles of the node."""

import ctypes
import ctypes.util
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from modules.runtimes.engine.errors import BadRequestError, WrongStateError
from modules.runtimes.oci.spec import Machine
from modules.runtimes.oci.spec.capabilities import DEFAULT
from modules.runtimes.oci.spec.capability_names import NAMES
from modules.runtimes.oci.spec.seccomp import container_seccomp, read_profile, runtime_default
from modules.runtimes.oci.spec.seccomp_calls import ALLOWED, BY_ARCHITECTURE, BY_CAPABILITY
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.spec.samples import UNIFIED

_PROFILE = cri.SecurityProfile
_DEFAULT = _PROFILE(profile_type=_PROFILE.RuntimeDefault)


def _rules(
    capabilities: frozenset[str] = DEFAULT, architecture: str = "x86_64", kernel: tuple[int, int] = (6, 1)
) -> Any:
    return runtime_default(capabilities, architecture, kernel)["syscalls"]


def _allowed(rules: Any) -> set[str]:
    return {
        name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" and "args" not in rule for name in rule["names"]
    }


def test_the_default_profile_names_each_call_once() -> None:
    """The data has no name twice, and none both for all and for a capability."""
    assert len(ALLOWED) == len(set(ALLOWED))
    special = {name for names in (*BY_CAPABILITY.values(), *BY_ARCHITECTURE.values()) for name in names.split()}
    assert not special & set(ALLOWED)


def test_a_call_that_the_kernel_lets_a_program_make_is_allowed() -> None:
    """Where the machine's tools trace the end of functions (Linux 6.11), a refusal would kill the program."""
    assert "uretprobe" in _allowed(_rules())


def test_calls_that_the_default_profile_never_allows() -> None:
    """Not even with all capabilities: calls that have led out of containers."""
    never = {"keyctl", "add_key", "request_key", "userfaultfd", "kexec_load", "kexec_file_load", "pivot_root", "swapon"}
    never |= {"io_uring_setup", "io_uring_enter", "io_uring_register", "nfsservctl", "uselib", "create_module"}
    assert not never & _allowed(_rules(frozenset(NAMES)))


def test_the_default_profile_by_capability() -> None:
    """What a capability permits is allowed with it; without SYS_ADMIN there are no new namespaces."""
    plain, admin = _rules(), _rules(DEFAULT | {"SYS_ADMIN"})
    assert "mount" not in _allowed(plain)
    assert {"mount", "clone", "clone3", "sethostname"} <= _allowed(admin)
    assert {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38} in plain
    (clone,) = [rule for rule in plain if rule["names"] == ["clone"]]
    assert clone["args"] == [{"index": 0, "value": 0x7E020000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]
    assert "chroot" in _allowed(plain)
    assert "chroot" not in _allowed(_rules(DEFAULT - {"SYS_CHROOT"}))


def test_the_default_profile_by_kernel_and_architecture() -> None:
    """ptrace since Linux 4.8; the calls of an architecture on it; one condition for each rule of socket."""
    assert "ptrace" in _allowed(_rules())
    assert "ptrace" not in _allowed(_rules(kernel=(4, 7)))
    assert "arch_prctl" in _allowed(_rules())
    assert "arch_prctl" not in _allowed(_rules(architecture="aarch64"))
    assert "set_tls" in _allowed(_rules(architecture="aarch64"))
    assert [len(rule["args"]) for rule in _rules() if rule["names"] == ["socket"]] == [1, 1, 1]
    assert runtime_default(DEFAULT, "mystery", (6, 1))["architectures"] == []


def test_the_default_profile_refuses_two_families_of_sockets() -> None:
    """AF_ALG and AF_VSOCK: the kernel's cryptography, and the machine that the machine runs on."""
    tests = {"SCMP_CMP_LT": int.__lt__, "SCMP_CMP_EQ": int.__eq__, "SCMP_CMP_GT": int.__gt__}
    conditions = [rule["args"][0] for rule in _rules() if rule["names"] == ["socket"]]
    refused = [
        family for family in range(64) if not any(tests[each["op"]](family, each["value"]) for each in conditions)
    ]
    assert refused == [38, 40]


def test_who_administers_the_system_may_make_namespaces() -> None:
    profile = runtime_default(DEFAULT | {"SYS_ADMIN"}, "x86_64", (6, 1))
    assert not [rule for rule in profile["syscalls"] if rule["names"] == ["clone3"]]


_NEWER = """
    riscv_hwprobe cachestat fchmodat2 map_shadow_stack futex_requeue futex_wait futex_wake listmount statmount mseal
    getxattrat listxattrat removexattrat setxattrat set_mempolicy_home_node futex_waitv uretprobe
    lsm_get_self_attr lsm_list_modules lsm_set_self_attr
"""


def test_the_names_are_system_calls() -> None:
    """libseccomp knows them, but for those newer than itself."""
    found = ctypes.util.find_library("seccomp")
    if found is None:
        pytest.skip("libseccomp is not installed")
    resolve = ctypes.CDLL(found).seccomp_syscall_resolve_name
    names = (*ALLOWED, *" ".join((*BY_CAPABILITY.values(), *BY_ARCHITECTURE.values())).split())
    newer = set(_NEWER.split())
    assert {name for name in names if resolve(name.encode()) == -1} <= newer


def _seccomp(security: cri.LinuxContainerSecurityContext, machine: Machine = UNIFIED) -> Any:
    return container_seccomp("create it", security, machine)


@pytest.mark.parametrize(
    ("security", "is_filtered"),
    [
        (cri.LinuxContainerSecurityContext(), False),
        (cri.LinuxContainerSecurityContext(seccomp=_DEFAULT), True),
        (cri.LinuxContainerSecurityContext(seccomp=_DEFAULT, privileged=True), False),
        (cri.LinuxContainerSecurityContext(seccomp_profile_path="runtime/default"), True),
        (cri.LinuxContainerSecurityContext(seccomp_profile_path="unconfined"), False),
        (
            cri.LinuxContainerSecurityContext(
                seccomp=_PROFILE(profile_type=_PROFILE.Unconfined), seccomp_profile_path="runtime/default"
            ),
            False,
        ),
    ],
)
def test_which_containers_are_filtered(security: cri.LinuxContainerSecurityContext, is_filtered: bool) -> None:
    """The ones that ask for it, unless they are privileged; the new field counts before the old."""
    assert (_seccomp(security) is not None) is is_filtered


def test_the_default_profile_is_made_once() -> None:
    """Containers with the same capabilities share it."""
    security = cri.LinuxContainerSecurityContext(seccomp=_DEFAULT)
    assert _seccomp(security) is _seccomp(security)


def test_a_kernel_without_seccomp() -> None:
    """A filter that cannot be had is refused, not left out."""
    with pytest.raises(WrongStateError, match="no seccomp"):
        _seccomp(cri.LinuxContainerSecurityContext(seccomp=_DEFAULT), replace(UNIFIED, has_seccomp=False))


def _written(path: Path, profile: Any) -> str:
    path.write_text(profile if isinstance(profile, str) else json.dumps(profile))
    return str(path)


def _read(path: Path, profile: Any, capabilities: frozenset[str] = DEFAULT) -> Any:
    return read_profile("create it", _written(path, profile), capabilities, (5, 10), "x86_64")


def test_a_profile_in_ocis_form(tmp_path: Path) -> None:
    """It is passed on as it is."""
    argument = {"index": 0, "value": 2**64 - 1, "valueTwo": 0, "op": "SCMP_CMP_EQ"}
    profile = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": [{"names": ["read", "write"], "action": "SCMP_ACT_ALLOW", "errnoRet": 1, "args": [argument]}],
        "defaultErrnoRet": 38,
        "flags": ["SECCOMP_FILTER_FLAG_LOG"],
    }
    assert _read(tmp_path / "p", profile) == profile


def test_a_profile_in_dockers_form_is_reduced(tmp_path: Path) -> None:
    """The conditions are decided for this container and machine, the architectures are the machine's."""

    def rule(name: str, **conditions: Any) -> Any:
        return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": None, "comment": "", **conditions}

    below = {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}
    profile = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "archMap": [below, {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]}],
        "syscalls": [
            {"name": "old", "action": "SCMP_ACT_ALLOW", "args": []},
            rule("plain", includes={}, excludes={}),
            rule("chroot", includes={"caps": ["CAP_SYS_CHROOT"]}),
            rule("mount", includes={"caps": ["CAP_SYS_CHROOT", "CAP_SYS_ADMIN"]}),
            rule("no_admin", excludes={"caps": ["CAP_SYS_ADMIN"]}),
            rule("no_chroot", excludes={"caps": ["CAP_SYS_CHROOT", "CAP_SYS_ADMIN"]}),
            rule("here", includes={"arches": ["amd64", "x32"]}),
            rule("there", includes={"arches": ["arm64"]}),
            rule("not_here", excludes={"arches": ["amd64"]}),
            rule("young", includes={"minKernel": "5.11"}),
            rule("old_enough", includes={"minKernel": "4.8"}),
        ],
    }
    reduced = _read(tmp_path / "p", profile)
    assert [rule["names"][0] for rule in reduced["syscalls"]] == [
        "old",
        "plain",
        "chroot",
        "no_admin",
        "here",
        "old_enough",
    ]
    assert reduced["architectures"] == ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"]


@pytest.mark.parametrize(
    "profile",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"defaultAction": "SCMP_ACT_NOTIFY"}',
        '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"action": "SCMP_ACT_ALLOW"}]}',
        '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["a b"], "action": "SCMP_ACT_ALLOW"}]}',
        '{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["Z80"]}',
        '{"defaultAction": "SCMP_ACT_ALLOW", "flags": ["F"]}',
        '{"defaultAction": "SCMP_ACT_ALLOW", "defaultErrnoRet": -1}',
        '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["a"], "action": "SCMP_ACT_ALLOW", "args": '
        '[{"index": 6, "value": 0, "op": "SCMP_CMP_EQ"}]}]}',
        '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["a"], "action": "SCMP_ACT_ALLOW", "args": '
        '[{"index": 0, "value": -1, "op": "SCMP_CMP_EQ"}]}]}',
        "[" * 100_000,
        " " * (1 << 20) + "{}",
    ],
)
def test_a_file_that_is_no_profile(tmp_path: Path, profile: str) -> None:
    """Refused when the container is made, with the path of the file."""
    with pytest.raises(BadRequestError, match="seccomp profile"):
        _read(tmp_path / "p", profile)


@pytest.mark.parametrize("path", ["", "relative", "/no/such", "/a/../b", "/dev/zero", "/tmp", "/a\0b"])
def test_a_path_that_is_no_profile(path: str) -> None:
    """Missing, no regular file, or not absolute: no device is opened."""
    security = cri.LinuxContainerSecurityContext(seccomp=_PROFILE(profile_type=_PROFILE.Localhost, localhost_ref=path))
    with pytest.raises(BadRequestError, match="seccomp profile"):
        _seccomp(security)


_WORDS = ("defaultAction", "syscalls", "names", "action", "args", "archMap", "includes")
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=200) | _VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_file(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """A profile or a refusal, nothing else."""
    path = tmp_path_factory.getbasetemp() / "profile"
    path.write_bytes(content)
    with suppress(BadRequestError):
        assert "defaultAction" in read_profile("create it", str(path), DEFAULT, (6, 1), "x86_64")
