"""What a node without root refuses, with the words that a person reads in the pod's status."""

import os
from pathlib import Path

import pytest

from modules.runtimes.engine.errors import WrongStateError
from modules.runtimes.oci.spec import without_root
from modules.runtimes.oci.spec.without_root import check_container_without_root, check_sandbox_without_root
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.spec.samples import DELEGATED, ROOTLESS

_PROFILE = cri.SecurityProfile
_ATTEMPT = 'create container "main"'


def _security(**fields: object) -> cri.ContainerConfig:
    security = cri.LinuxContainerSecurityContext(**fields)  # type: ignore[arg-type]
    return cri.ContainerConfig(linux=cri.LinuxContainerConfig(security_context=security))


def _adding(name: str) -> cri.ContainerConfig:
    return _security(capabilities=cri.Capability(add_capabilities=[name]))


_LIMITED = cri.LinuxContainerConfig(resources=cri.LinuxContainerResources(memory_limit_in_bytes=1 << 20))
_UNIFIED = cri.LinuxContainerConfig(resources=cri.LinuxContainerResources(unified={"memory.high": "1"}))
_REFUSED = {
    "runAsUser": (_security(run_as_user=cri.Int64Value(value=65536)), "the user or group 65536 needs root"),
    "runAsGroup": (_security(run_as_group=cri.Int64Value(value=70000)), "with those up to 65535"),
    "supplementalGroups": (_security(supplemental_groups=[1, 99999]), "the user or group 99999 needs root"),
    "SYS_TIME": (_adding("SYS_TIME"), "the capability SYS_TIME acts on the machine"),
    "CAP_SYS_MODULE": (_adding("CAP_SYS_MODULE"), "the capability SYS_MODULE acts on the machine"),
    "sys_nice": (_adding("sys_nice"), "the capability SYS_NICE acts on the machine"),
    "ambient": (_security(capabilities=cri.Capability(add_ambient_capabilities=["IPC_LOCK"])), "IPC_LOCK acts on"),
    "appArmorProfile": (_security(apparmor=_PROFILE(profile_type=_PROFILE.RuntimeDefault)), "AppArmor profile needs"),
    "seLinuxOptions": (_security(selinux_options=cri.SELinuxOption(level="s0")), "SELinux labels need root"),
    "unified": (cri.ContainerConfig(linux=_UNIFIED), "need the controller memory, which this node has not"),
}  # fmt: skip
_ALLOWED = {
    "the last user": _security(run_as_user=cri.Int64Value(value=65535), supplemental_groups=[0, 65535]),
    "all capabilities": _adding("ALL"),
    "NET_ADMIN": _adding("NET_ADMIN"),
    "SYS_ADMIN": _adding("SYS_ADMIN"),
    "SYS_TIME taken away": _security(capabilities=cri.Capability(drop_capabilities=["SYS_TIME"])),
    "privileged": _security(privileged=True),
    "no AppArmor": _security(apparmor=_PROFILE(profile_type=_PROFILE.Unconfined)),
    "limits": cri.ContainerConfig(linux=_LIMITED),
}


@pytest.fixture(autouse=True)
def _selinux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with SELinux."""
    (tmp_path / "enforce").touch()
    monkeypatch.setattr(without_root, "SELINUX", tmp_path / "enforce")


@pytest.mark.parametrize(("config", "words"), _REFUSED.values(), ids=_REFUSED)
def test_what_needs_root_is_refused(config: cri.ContainerConfig, words: str) -> None:
    """With the reason, and never ignored."""
    with pytest.raises(WrongStateError, match=words):
        check_container_without_root(_ATTEMPT, config, ROOTLESS)


@pytest.mark.parametrize("config", _ALLOWED.values(), ids=_ALLOWED)
def test_what_needs_no_root_is_not(config: cri.ContainerConfig) -> None:
    """It counts in the pod's own namespaces; limits of memory are ignored, and the node says so."""
    check_container_without_root(_ATTEMPT, config, ROOTLESS)


def test_unified_limits_of_delegated_controllers() -> None:
    """Those of others are refused by name, and so are files that limit nothing."""
    check_container_without_root(_ATTEMPT, cri.ContainerConfig(linux=_UNIFIED), DELEGATED)
    for name in ("cpuset.cpus", "io.weight", "cgroup.freeze"):
        linux = cri.LinuxContainerConfig(resources=cri.LinuxContainerResources(unified={name: "1"}))
        with pytest.raises(WrongStateError, match=f"the controller {name.partition('.')[0]}, which this node has not"):
            check_container_without_root(_ATTEMPT, cri.ContainerConfig(linux=linux), DELEGATED)


def test_labels_where_there_is_no_selinux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They are left out, as on root's node."""
    monkeypatch.setattr(without_root, "SELINUX", tmp_path / "none")
    check_container_without_root(_ATTEMPT, _REFUSED["seLinuxOptions"][0], ROOTLESS)


@pytest.mark.parametrize(("kind", "words"), [("pid", "hostPID needs root"), ("ipc", "hostIPC needs root")])
def test_namespaces_of_the_machine(kind: str, words: str) -> None:
    """Its network alone may be shared."""
    options = cri.NamespaceOption(network=cri.NODE)
    check_sandbox_without_root(_ATTEMPT, options)
    setattr(options, kind, cri.NODE)
    with pytest.raises(WrongStateError, match=words):
        check_sandbox_without_root(_ATTEMPT, options)


@pytest.mark.parametrize(
    ("mode", "permissions", "is_refused"),
    [(0o660, "rw", True), (0o660, "", True), (0o664, "r", False), (0o664, "rw", True), (0o666, "rwm", False)],
)
def test_a_device_of_a_group_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, permissions: str, is_refused: bool
) -> None:
    """The command that opens it to the pod's root is named, which is a sub-id."""
    device, users = tmp_path / "ttyUSB0", tmp_path / "uid_map"
    device.touch()
    device.chmod(mode)
    users.write_text("         0       1001          1\n         1     100000      65536\n")
    monkeypatch.setattr(without_root, "_USERS", users)
    config = cri.ContainerConfig(devices=[cri.Device(host_path=str(device), permissions=permissions)])
    if is_refused:
        with pytest.raises(WrongStateError, match=f"is closed to the pod.*setfacl --modify u:100000:rw {device}"):
            check_container_without_root(_ATTEMPT, config, ROOTLESS)
    else:
        check_container_without_root(_ATTEMPT, config, ROOTLESS)


def test_a_device_with_an_acl_is_let_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel decides."""
    device = tmp_path / "ttyUSB0"
    device.touch()
    device.chmod(0o660)
    monkeypatch.setattr(os, "listxattr", lambda _: ["system.posix_acl_access"])
    check_container_without_root(_ATTEMPT, cri.ContainerConfig(devices=[cri.Device(host_path=str(device))]), ROOTLESS)
