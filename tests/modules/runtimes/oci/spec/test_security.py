"""AppArmor, SELinux, masks and privilege as pure translation."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from modules.runtimes.engine.errors import BadRequestError, RequestRefusedError
from modules.runtimes.oci.spec import check_container
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.spec.samples import IMAGE, UNIFIED, linux, request, translated

_PROFILE = cri.SecurityProfile
_DEFAULT = _PROFILE(profile_type=_PROFILE.RuntimeDefault)


_LOADED = "docker-default (enforce)\n/usr/bin/man (complain)\nmine (kill)\n"


def _apparmor(tmp_path: Path, loaded: str | None, security: cri.LinuxContainerSecurityContext) -> Any:
    if loaded is not None:
        (tmp_path / "profiles").write_text(loaded)
    machine = replace(UNIFIED, apparmor_profiles=None if loaded is None else tmp_path / "profiles")
    config = linux(security)
    check_container(request(config, privileged=True), IMAGE, machine)
    return translated(config, tmp_path, machine=machine, privileged=True).config["process"].get("apparmorProfile")


def _named(name: str, **fields: Any) -> cri.LinuxContainerSecurityContext:
    return cri.LinuxContainerSecurityContext(
        apparmor=_PROFILE(profile_type=_PROFILE.Localhost, localhost_ref=name), **fields
    )


@pytest.mark.parametrize(
    ("security", "loaded", "expected"),
    [
        (cri.LinuxContainerSecurityContext(), _LOADED, "docker-default"),
        (cri.LinuxContainerSecurityContext(), "", None),
        (cri.LinuxContainerSecurityContext(), None, None),
        (cri.LinuxContainerSecurityContext(apparmor=_DEFAULT), None, None),
        (
            cri.LinuxContainerSecurityContext(apparmor=_DEFAULT),
            "edgecore-default (enforce)\n" + _LOADED,
            "edgecore-default",
        ),
        (cri.LinuxContainerSecurityContext(apparmor_profile="unconfined"), _LOADED, None),
        (cri.LinuxContainerSecurityContext(apparmor_profile="localhost/mine"), _LOADED, "mine"),
        (_named("mine"), _LOADED, "mine"),
        (_named("localhost/mine", apparmor_profile="unconfined"), _LOADED, "mine"),
        (_named("mine", privileged=True), _LOADED, "mine"),
        (cri.LinuxContainerSecurityContext(privileged=True), _LOADED, None),
    ],
)
def test_apparmor(
    tmp_path: Path, security: cri.LinuxContainerSecurityContext, loaded: str | None, expected: str | None
) -> None:
    """The structured field, the old text, the default if one is loaded; a privileged one has what it names only."""
    assert _apparmor(tmp_path, loaded, security) == expected


@pytest.mark.parametrize(
    ("security", "loaded", "told"),
    [
        (_named("other"), _LOADED, '"other" is not loaded'),
        (_named("mine"), None, "AppArmor is off"),
        (_named("a b"), _LOADED, "no name of an AppArmor profile"),
        (cri.LinuxContainerSecurityContext(apparmor=_DEFAULT), "", "no default AppArmor profile"),
        (cri.LinuxContainerSecurityContext(apparmor_profile="mine"), _LOADED, "there is no AppArmor profile"),
    ],
)
def test_apparmor_that_cannot_be_had(
    tmp_path: Path, security: cri.LinuxContainerSecurityContext, loaded: str | None, told: str
) -> None:
    """Refused when the container is made."""
    with pytest.raises(RequestRefusedError, match=told):
        _apparmor(tmp_path, loaded, security)


def test_privileged_only_in_a_privileged_sandbox() -> None:
    """containerd's sentence."""
    config = linux(cri.LinuxContainerSecurityContext(privileged=True))
    with pytest.raises(BadRequestError, match="no privileged container allowed in sandbox"):
        check_container(request(config), IMAGE, UNIFIED)


_LABELS: Any = {"type": "spc_t", "level": "s0:c1,c2"}


@pytest.mark.parametrize(
    ("options", "has_selinux", "process", "files"),
    [
        (_LABELS, True, "system_u:system_r:spc_t:s0:c1,c2", "system_u:object_r:container_file_t:s0:c1,c2"),
        ({"level": "s0:c9"}, True, "system_u:system_r:container_t:s0:c9", "system_u:object_r:container_file_t:s0:c9"),
        ({"user": "u"}, True, "u:system_r:container_t:s0", "system_u:object_r:container_file_t:s0"),
        ({}, True, None, None),
        (_LABELS, False, None, None),
    ],
)
def test_selinux_labels(
    tmp_path: Path, options: Any, has_selinux: bool, process: str | None, files: str | None
) -> None:
    """What is asked for, completed by container-selinux's usual; nothing on a kernel without SELinux."""
    config = linux(cri.LinuxContainerSecurityContext(selinux_options=cri.SELinuxOption(**options)))
    found = translated(config, tmp_path, machine=replace(UNIFIED, selinux=has_selinux)).config
    assert (found["process"].get("selinuxLabel"), found["linux"].get("mountLabel")) == (process, files)


@pytest.mark.parametrize("options", [{"type": "a b"}, {"level": "s0\n"}, {"user": "a:b"}, {"role": "x" * 300}])
def test_other_texts_than_labels(options: Any) -> None:
    """Not even where labels are left out."""
    config = linux(cri.LinuxContainerSecurityContext(selinux_options=cri.SELinuxOption(**options)))
    with pytest.raises(BadRequestError, match="is no SELinux"):
        check_container(request(config), IMAGE, UNIFIED)


@pytest.mark.parametrize("kind", ["masked_paths", "readonly_paths"])
def test_paths_that_cannot_be_masked(kind: str) -> None:
    """The OCI runtime would look for them outside of the container."""
    paths: Any = {kind: ["/proc/../../etc"]}
    with pytest.raises(BadRequestError, match="masked or read-only path"):
        check_container(request(linux(cri.LinuxContainerSecurityContext(**paths))), IMAGE, UNIFIED)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_privileged_container_has_the_devices_of_the_machine(tmp_path: Path) -> None:
    """But for terminals and the like, which belong to each container. A volume at /dev has its own."""
    (tmp_path / "pts").mkdir()
    for name in ("one", "console", "pts/0"):
        os.mknod(tmp_path / name, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    config = linux(cri.LinuxContainerSecurityContext(privileged=True))
    machine = replace(UNIFIED, devices=tmp_path)
    found = translated(config, tmp_path, machine=machine, privileged=True).config["linux"]
    assert [each["path"] for each in found["devices"]] == ["/dev/one"]
    config.mounts.add(container_path="/dev/", host_path="/dev")
    assert translated(config, tmp_path, machine=machine, privileged=True).config["linux"]["devices"] == []


def test_privileged_has_no_masks(tmp_path: Path) -> None:
    """Masked and read-only paths are exactly CRI's, none for a privileged container."""
    paths: Any = {"masked_paths": ["/proc/kcore"], "readonly_paths": ["/proc/sys"]}
    plain = translated(linux(cri.LinuxContainerSecurityContext(**paths)), tmp_path).config["linux"]
    assert (plain["maskedPaths"], plain["readonlyPaths"]) == (["/proc/kcore"], ["/proc/sys"])
    security = cri.LinuxContainerSecurityContext(privileged=True, no_new_privs=True, **paths)
    config = translated(linux(security), tmp_path, privileged=True).config
    assert (config["linux"]["maskedPaths"], config["linux"]["readonlyPaths"]) == ([], [])
    assert config["process"]["noNewPrivileges"], "which is another right"
