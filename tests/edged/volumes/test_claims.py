"""A claim leads to the volume that it was given, if the pod may use it on this node."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from edged.errors import MissingContentError
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.volumes import HostPath, MemoryMounts, PodVolumes, VolumeError, points_below
from edged.volumes.claims import LocalVolume, NodeIdentity, PodClaim, claim_of, inline_volume, persistent_plan, resolve
from edged.volumes.csi.model import CsiVolume
from modules.apimachinery.types import (
    ConfigMapVolumeSource,
    EphemeralVolumeSource,
    LocalObjectReference,
    Nanoseconds,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodSecurityContext,
    Secret,
    SecretVolumeSource,
    Volume,
)
from modules.apimachinery.types.persistent import (
    CSIPersistentVolumeSource,
    LocalVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    SecretReference,
    VolumeNodeAffinity,
)
from modules.apimachinery.types.scheduling import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from modules.apimachinery.types.volumes import CSIVolumeSource, HostPathVolumeSource
from modules.runtimes.shim import kernel
from tests.edged.pods.builders import UID, a_pod
from tests.edged.volumes.mounting import needs_mounts, nothing_mounted_at_the_end
from tests.edged.volumes.test_volumes import SEC, Known

MS_SHARED = 0x10_0000

HERE = NodeIdentity("n1", {"kubernetes.io/hostname": "n1"})
CLAIM = PersistentVolumeClaim(
    metadata=ObjectMeta(name="data", namespace="default", uid="c1"),
    spec=PersistentVolumeClaimSpec(volume_name="pv1"),
    status=PersistentVolumeClaimStatus(phase="Bound"),
)
OWNER = ObjectReference(namespace="default", name="data", uid="c1")


EPHEMERAL = Volume(name="v", ephemeral=EphemeralVolumeSource())


def only_on(*hosts: str) -> VolumeNodeAffinity:
    requirement = NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=hosts)
    term = NodeSelectorTerm(match_expressions=(requirement,))
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))


def a_volume(**spec: Any) -> PersistentVolume:
    given = {"claim_ref": OWNER, "local": LocalVolumeSource(path="/mnt/disk"), **spec}
    return PersistentVolume(metadata=ObjectMeta(name="pv1"), spec=PersistentVolumeSpec(**given))


class Cloud(Known):
    """One claim and one volume, as they are given; counts how often it is asked."""

    def __init__(self, claim: PersistentVolumeClaim | None = CLAIM, volume: PersistentVolume | None = None) -> None:
        self._claim, self._volume, self.asked = claim, volume, 0

    def claim(self, name: str) -> PersistentVolumeClaim | None:
        self.asked += 1
        return self._claim if name == "data" else None

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        return self._volume if name == "pv1" else None


def test_the_volume_of_a_claim_that_may_be_used_here() -> None:
    volume = a_volume(node_affinity=only_on("n0", "n1"))
    assert resolve("default", PodClaim("data"), Cloud(volume=volume), HERE) is volume


@pytest.mark.parametrize(
    ("claim", "volume", "message"),
    [
        (None, a_volume(), "persistentvolumeclaim not found: default/data"),
        (replace(CLAIM, status=PersistentVolumeClaimStatus(phase="Pending")), a_volume(), "not bound.*Pending"),
        (replace(CLAIM, spec=PersistentVolumeClaimSpec()), a_volume(), "not bound"),
        (
            replace(CLAIM, metadata=replace(CLAIM.metadata, deletion_timestamp="2026-01-01T00:00:00Z")),
            a_volume(),
            "PVC is being deleted",
        ),
        (CLAIM, None, "persistentvolume not found: pv1"),
        (CLAIM, a_volume(claim_ref=None), "not the claim's: pv1.*nobody's"),
        (CLAIM, a_volume(claim_ref=replace(OWNER, uid="c0")), "not the claim's: pv1.*uid c0"),
        (CLAIM, a_volume(claim_ref=replace(OWNER, uid="")), "not the claim's: pv1.*uid none"),
        (CLAIM, a_volume(node_affinity=only_on("n2")), "node affinity check failed: pv1"),
        (CLAIM, a_volume(volume_mode="Block"), "Block is not supported"),
    ],
)
def test_an_unusable_claim_is_an_error_with_the_reason(
    claim: PersistentVolumeClaim | None, volume: PersistentVolume | None, message: str
) -> None:
    with pytest.raises(VolumeError, match=message):
        resolve("default", PodClaim("data"), Cloud(claim, volume), HERE)


def test_an_ephemeral_volume_takes_only_the_claim_that_was_made_for_its_pod() -> None:
    """The claim is named after pod and volume; somebody else's of that name is another pod's data."""
    wanted = claim_of(replace(a_pod(), metadata=replace(a_pod().metadata, name="web")), EPHEMERAL)
    assert wanted == PodClaim("web-v", made_for=UID)
    with pytest.raises(MissingContentError, match="the cloud makes it"):
        resolve("default", wanted, Cloud(None), HERE)
    owner = OwnerReference(kind="Pod", name="web", uid=UID, controller=True)
    mine = replace(wanted, name="data")
    for others in ((), (replace(owner, uid="other"),), (replace(owner, controller=None),)):
        foreign = replace(CLAIM, metadata=replace(CLAIM.metadata, owner_references=others))
        with pytest.raises(VolumeError, match=r"PVC was not created for the pod: default/data") as raised:
            resolve("default", mine, Cloud(foreign, a_volume()), HERE)
        assert raised.value.retryable
        assert resolve("default", PodClaim("data"), Cloud(foreign, a_volume()), HERE), "any pod may name it"
    made = replace(CLAIM, metadata=replace(CLAIM.metadata, owner_references=(owner,)))
    assert resolve("default", mine, Cloud(made, a_volume()), HERE) == a_volume()


def test_an_ephemeral_volume_is_its_claims(tmp_path: Path) -> None:
    pod = a_pod(volumes=(EPHEMERAL,))
    cloud = Cloud(None)
    with pytest.raises(VolumeError, match=f"persistentvolumeclaim not found: default/{pod.metadata.name}-v"):
        PodVolumes(PodPaths(tmp_path), MemoryMounts(), node=lambda: HERE).prepare(pod, cloud, Nanoseconds(0))
    assert cloud.asked == 1


def plan(volume: PersistentVolume, *, read_only: bool = False) -> object:
    return persistent_plan(a_pod(), volume, PodPaths(Path("/root")), read_only=read_only)


def test_each_kind_of_volume_has_its_plan() -> None:
    place = Path(f"/root/pods/{UID}/volumes/kubernetes.io~local-volume/pv1")
    assert plan(a_volume()) == LocalVolume(place, Path("/mnt/disk"))
    given = HostPathVolumeSource(path="/data", type="Directory")
    assert plan(a_volume(local=None, host_path=given)) == HostPath(Path("/data"), "Directory")
    source = CSIPersistentVolumeSource(
        driver="d", volume_handle="h", fs_type="ext4", node_stage_secret_ref=SecretReference("s", "ns")
    )
    volume = a_volume(local=None, csi=source, access_modes=("ReadWriteOnce",), mount_options=("noatime",))
    expected = CsiVolume(
        name="pv1",
        driver="d",
        handle="h",
        access_modes=("ReadWriteOnce",),
        fs_type="ext4",
        mount_flags=("noatime",),
        read_only=True,
        stage_secret=SecretReference("s", "ns"),
    )
    assert plan(volume, read_only=True) == expected
    assert plan(a_volume(local=None, csi=replace(source, read_only=True))) == replace(
        expected, access_modes=(), mount_flags=()
    )
    with pytest.raises(VolumeError, match="csi, local and hostPath volumes are supported"):
        plan(a_volume(local=None))
    with pytest.raises(VolumeError, match="absolute path"):
        plan(a_volume(local=LocalVolumeSource(path="/mnt/../etc")))


def test_a_volume_of_one_pod_alone_has_a_handle_of_the_pods() -> None:
    source = CSIVolumeSource(driver="d", volume_attributes={"size": "1"})
    one, other = inline_volume(a_pod(), "v", source), inline_volume(a_pod(meta={"uid": "u2"}), "v", source)
    assert one.ephemeral
    assert one.handle != other.handle
    assert one.handle == f"csi-{sha256(f'{UID}v'.encode()).hexdigest()}", "a kubelet's: a driver finds its volume again"
    assert (one.fs_type, one.read_only, one.publish_secret) == ("", False, None)


@pytest.mark.parametrize(("stated", "read_only"), [(None, False), (False, False), (True, True)])
def test_a_volume_of_one_pod_alone_is_made_as_its_pod_wants_it(stated: bool | None, read_only: bool) -> None:
    """Its secret is one of the pod's namespace."""
    secret = LocalObjectReference(name="s")
    source = CSIVolumeSource(driver="d", fs_type="xfs", read_only=stated, node_publish_secret_ref=secret)
    made = inline_volume(a_pod(meta={"namespace": "team"}), "v", source)
    assert (made.fs_type, made.read_only) == ("xfs", read_only)
    assert made.publish_secret == SecretReference("s", "team")


def claiming_pod(*, read_only: bool = False, group: int | None = None) -> Pod:
    claim = PersistentVolumeClaimVolumeSource(claim_name="data", read_only=read_only)
    volume = Volume(name="v", persistent_volume_claim=claim)
    return a_pod(volumes=(volume,), security_context=PodSecurityContext(fs_group=group))


class Later(Known):
    """The configmap has been deleted since, and the secret changed."""

    def config_map(self, name: str) -> None:
        return None

    def secret(self, name: str) -> Secret:
        return Secret(data={"password": b"new"})


def test_a_volume_whose_configmap_was_deleted_keeps_its_files_and_nobody_waiting(tmp_path: Path) -> None:
    """Neither the other volumes of the pod, such as its token, nor a container that has crashed."""
    of_map = Volume(name="a", config_map=ConfigMapVolumeSource(name="cm"))
    pod = a_pod(volumes=(of_map, Volume(name="b", secret=SecretVolumeSource(secret_name=SEC))))
    volumes = PodVolumes(PodPaths(tmp_path), MemoryMounts())
    with pytest.raises(VolumeError, match='volume "a": configmap not found'):
        volumes.prepare(pod, Later(), Nanoseconds(0), starts=True)
    made = volumes.prepare(pod, Known(), Nanoseconds(0))
    with pytest.raises(VolumeError, match='volume "a": configmap not found'):
        volumes.prepare(pod, Later(), Nanoseconds(1))
    assert (made["b"] / "password").read_bytes() == b"new"
    assert volumes.prepare(pod, Later(), Nanoseconds(2), starts=True) == made
    assert (made["a"] / "greeting").read_bytes() == b"hello"


def test_the_cloud_is_asked_once_and_the_volume_is_named(tmp_path: Path) -> None:
    """Later syncs of a pod need no cloud; the error names the missing object."""
    directory = tmp_path / "disk"
    mounts = MemoryMounts()
    volumes = PodVolumes(PodPaths(tmp_path), mounts, node=lambda: HERE)
    cloud = Cloud(volume=a_volume(local=LocalVolumeSource(path=str(directory))))
    waits = r'MountVolume.SetUp failed for volume "v": .*disk \(a directory is wanted'
    with pytest.raises(VolumeError, match=waits) as raised:
        volumes.prepare(claiming_pod(), cloud, Nanoseconds(0))
    assert raised.value.retryable
    directory.mkdir()
    for _ in range(2):
        volumes.prepare(claiming_pod(), cloud, Nanoseconds(0))
    assert cloud.asked == 1
    assert [(kind, source) for kind, _, source in mounts.mounted] == [("bind", directory)]
    volumes.remove(PodUid(UID))
    assert mounts.mounted == []
    volumes.prepare(claiming_pod(), cloud, Nanoseconds(0))
    assert cloud.asked == 2, "a static pod that comes again has the same uid, and perhaps another volume"


def test_a_local_volume_is_bound_once_the_group_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound one is taken for given: a failure must come before. The disk of one that is read-only may be so, too."""
    mounts = MemoryMounts()
    volumes = PodVolumes(PodPaths(tmp_path), mounts, node=lambda: HERE)
    cloud = Cloud(volume=a_volume(local=LocalVolumeSource(path=str(tmp_path))))
    given = Mock(side_effect=[OSError("the disk is gone"), None])
    monkeypatch.setattr("edged.volumes.pod_volumes.set_volume_ownership", given)
    with pytest.raises(VolumeError, match="the disk is gone"):
        volumes.prepare(claiming_pod(group=7), cloud, Nanoseconds(0))
    volumes.prepare(claiming_pod(group=7), cloud, Nanoseconds(0))
    assert (given.call_count, len(mounts.mounted)) == (2, 1)
    volumes.remove(PodUid(UID))
    volumes.prepare(claiming_pod(group=7, read_only=True), cloud, Nanoseconds(0))
    assert (given.call_count, len(mounts.mounted)) == (2, 1)


def test_a_local_volume_at_a_block_device_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet makes a file system on it; here nothing is formatted, and waiting does not help."""
    monkeypatch.setattr(Path, "is_block_device", lambda path: path == tmp_path / "disk")
    volumes = PodVolumes(PodPaths(tmp_path), MemoryMounts(), node=lambda: HERE)
    cloud = Cloud(volume=a_volume(local=LocalVolumeSource(path=str(tmp_path / "disk"))))
    with pytest.raises(VolumeError, match=r"disk \(it is a block device.*: mount it, and name") as raised:
        volumes.prepare(claiming_pod(), cloud, Nanoseconds(0))
    assert not raised.value.retryable


def test_a_local_volume_may_be_named_by_a_link(tmp_path: Path) -> None:
    """As disks are: its directory is given to the group, and bound. Kubernetes' suite calls it `dir-link`."""
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("disk")
    mounts = MemoryMounts()
    volumes = PodVolumes(PodPaths(tmp_path), mounts, node=lambda: HERE)
    cloud = Cloud(volume=a_volume(local=LocalVolumeSource(path=str(tmp_path / "link"))))
    volumes.prepare(claiming_pod(group=os.getgid()), cloud, Nanoseconds(0))
    assert (tmp_path / "disk").stat().st_mode & 0o7777 == 0o2770
    assert [source for _, _, source in mounts.mounted] == [tmp_path / "disk"]


@needs_mounts
def test_a_local_volume_is_bound_and_outlives_the_pod(tmp_path: Path) -> None:
    """So do the node's own mounts in it, although the kernel would undo both ends of a shared mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with nothing_mounted_at_the_end(tmp_path) as mounts:
        mounts.tmpfs(disk, 0)
        kernel.mount("", str(disk), "", MS_SHARED)
        (disk / "file").write_text("kept")
        (disk / "sub").mkdir()
        mounts.tmpfs(disk / "sub", 0)
        volumes = PodVolumes(PodPaths(tmp_path), mounts, node=lambda: HERE)
        cloud = Cloud(volume=a_volume(local=LocalVolumeSource(path=str(disk))))
        (path,) = volumes.prepare(claiming_pod(), cloud, Nanoseconds(0)).values()
        assert (path / "file").read_text() == "kept"
        assert mounts.has(path / "sub")
        assert volumes.local_volumes() == {path: "v"}
        volumes.remove(PodUid(UID))
        assert (list(path.iterdir()), volumes.local_volumes()) == ([], {})
        assert (disk / "file").read_text() == "kept"
        own = points_below(mounts, tmp_path)
        assert own == [disk / "sub", disk]
        mounts.unmount(*own)
