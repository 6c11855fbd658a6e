"""Containers see the volumes of their pod where it says, and nothing beyond them."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from edged.errors import TooLargeError
from edged.volumes import VolumeError, container_mounts, host_hosts_file, hosts_file, resolve_sub_path
from modules.apimachinery.types import ConfigMapVolumeSource, Pod, Volume, VolumeMount
from modules.apimachinery.types.volumes import CSIVolumeSource
from protos.cri.v1 import api_pb2 as cri
from tests.edged.pods.builders import a_container, a_pod


def mounts(*wanted: VolumeMount, pod: Pod | None = None, **more: Any) -> list[tuple[str, str, bool]]:
    volumes = more.pop("volumes", {"v": Path("/vols/v"), "cm": Path("/vols/cm")})
    container = a_container(volume_mounts=wanted, termination_message_path="/dev/termination-log")
    made = container_mounts(pod or a_pod(container), container, volumes, {"A": "sub", "EMPTY": ""}, **more)
    return [(m.container_path, m.host_path, m.readonly) for m in made]


def test_mounts_are_made_parents_first() -> None:
    """The order of the pod does not hide a mount under another."""
    deep, top = VolumeMount(name="v", mount_path="/data/x"), VolumeMount(name="cm", mount_path="/data", read_only=True)
    assert mounts(deep, top) == [("/data", "/vols/cm", True), ("/data/x", "/vols/v", False)]


@pytest.mark.parametrize(
    ("volume", "read_only"),
    [
        (Volume(config_map=ConfigMapVolumeSource(name="cm")), True),
        (Volume(csi=CSIVolumeSource(driver="d", read_only=True)), True),
        (Volume(csi=CSIVolumeSource(driver="d")), False),
    ],
)
def test_volumes_of_files_and_those_that_the_pod_declares_so_are_read_only(volume: Volume, read_only: bool) -> None:
    """Even if the container does not say so."""
    pod = a_pod(volumes=(replace(volume, name="cm"),))
    assert mounts(VolumeMount(name="cm", mount_path="/c"), pod=pod) == [("/c", "/vols/cm", read_only)]


def test_hosts_and_the_termination_message_are_mounted() -> None:
    """The pod's /etc/hosts and the file for the last message come along, unless the container brings its own
    hosts.
    """
    extra: dict[str, Any] = {"etc_hosts": Path("/p/etc-hosts"), "termination_message": Path("/p/0")}
    assert mounts(**extra) == [("/dev/termination-log", "/p/0", False), ("/etc/hosts", "/p/etc-hosts", False)]
    own = VolumeMount(name="v", mount_path="/etc/hosts")
    assert ("/etc/hosts", "/vols/v", False) in mounts(own, **extra)
    assert len(mounts(own, **extra)) == 2


def test_propagation_is_passed_on() -> None:
    """Each word of Kubernetes has its value of the CRI; an unknown one is refused."""
    container = a_container(
        volume_mounts=(VolumeMount(name="v", mount_path="/v", mount_propagation="HostToContainer"),)
    )
    (mount,) = container_mounts(a_pod(container), container, {"v": Path("/v")}, {})
    assert mount.propagation == cri.PROPAGATION_HOST_TO_CONTAINER
    with pytest.raises(VolumeError, match="propagation"):
        mounts(VolumeMount(name="v", mount_path="/v", mount_propagation="Sideways"))


@pytest.mark.parametrize(
    ("mode", "recursive"), [("Enabled", True), ("IfPossible", True), ("Disabled", False), (None, False)]
)
def test_a_read_only_mount_is_recursive_where_it_may_be(mode: str | None, recursive: bool) -> None:
    """Where the runtime cannot do that, it is refused if it has to be, and not recursive otherwise."""
    mount = VolumeMount(name="v", mount_path="/v", read_only=True, recursive_read_only=mode)
    container = a_container(volume_mounts=(mount,))
    (made,) = container_mounts(a_pod(container), container, {"v": Path("/v")}, {}, has_recursive=True)
    assert (made.readonly, made.recursive_read_only) == (True, recursive)
    with pytest.raises(VolumeError, match="Enabled is not supported") if mode == "Enabled" else nullcontext():
        (made,) = container_mounts(a_pod(container), container, {"v": Path("/v")}, {})
        assert (made.readonly, made.recursive_read_only) == (True, False)


def test_unknown_volume_is_refused() -> None:
    """A mount of a volume that the pod does not have names it."""
    with pytest.raises(VolumeError, match="cannot mount the volume: x"):
        mounts(VolumeMount(name="x", mount_path="/x"))


def test_sub_paths(tmp_path: Path) -> None:
    """A path within the volume is mounted, made if need be; variables in it are replaced."""
    volumes = {"v": tmp_path}
    plain = VolumeMount(name="v", mount_path="/m", sub_path="a/b")
    assert mounts(plain, volumes=volumes) == [("/m", str(tmp_path / "a/b"), False)]
    assert (tmp_path / "a/b").is_dir()
    by_name = VolumeMount(name="v", mount_path="/m", sub_path_expr="$(A)/x")
    assert mounts(by_name, volumes=volumes) == [("/m", str(tmp_path / "sub/x"), False)]
    literal = VolumeMount(name="v", mount_path="/m", sub_path_expr="$$(A)")
    assert mounts(literal, volumes=volumes) == [("/m", str(tmp_path / "$(A)"), False)]


@pytest.mark.parametrize("expression", ["$(NOPE)", "$(EMPTY)", "a/$(EMPTY)", "$(A)/$(NOPE)", "$()"])
def test_a_sub_path_of_a_variable_without_a_value_is_refused(tmp_path: Path, expression: str) -> None:
    """Its container would get the whole volume, with the directories of others."""
    with pytest.raises(VolumeError, match="is not set"):
        mounts(VolumeMount(name="v", mount_path="/m", sub_path_expr=expression), volumes={"v": tmp_path})


def test_a_sub_path_is_no_longer_than_a_path_can_be(tmp_path: Path) -> None:
    """subPathExpr grows by its variables."""
    expression = "$(A)/" * 2000
    with pytest.raises(TooLargeError, match="more than 4095 bytes"):
        mounts(VolumeMount(name="v", mount_path="/m", sub_path_expr=expression), volumes={"v": tmp_path})


@pytest.mark.parametrize("sub_path", ["..", "/etc", "a/../../x", "link", "link/x"])
def test_sub_path_stays_in_its_volume(tmp_path: Path, sub_path: str) -> None:
    """Neither dots nor a link that a container planted lead out."""
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "link").symlink_to("/etc")
    with pytest.raises(VolumeError, match="cannot mount the subPath"):
        resolve_sub_path(tmp_path / "volume", sub_path)


def test_hosts_file() -> None:
    """The pod's own addresses and names, its domain, and its aliases are there."""
    text = hosts_file("web", "sub.default.svc", ["10.0.0.1"], [("1.2.3.4", ("a", "b"))])
    assert "10.0.0.1\tweb.sub.default.svc\tweb\n" in text
    assert text.endswith("# Entries added by HostAliases.\n1.2.3.4\ta\tb\n")
    assert "10.0.0.1\tweb\n" in hosts_file("web", "", ["10.0.0.1"], [])


def test_hosts_file_of_a_pod_on_the_hosts_network() -> None:
    """The host's own as it is, and the pod's aliases (kubelet's Test_nodeHostsFileContent)."""
    header = b"# Kubernetes-managed hosts file (host network).\n"
    host = b"127.0.0.1 localhost\n\xff no text"
    assert host_hosts_file(host, []) == header + host
    added = b"\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n5.6.7.8\tc\n"
    assert host_hosts_file(host, [("1.2.3.4", ("a", "b")), ("5.6.7.8", ("c",))]) == header + host + added
