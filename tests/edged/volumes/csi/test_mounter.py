"""Volumes of a storage driver: staged once, published to each pod, undone with the last, after any failure."""

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock, patch

import grpc
import pytest

from beehive import Actor
from beehive.files.reading import list_directory, read_file
from beehive.runtime import Threads
from edged.errors import PluginError
from edged.plugins.socket import PluginSocket
from edged.plugins.watcher import Plugin
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.volumes import MemoryMounts, VolumeError
from edged.volumes.csi.drivers import CsiDrivers
from edged.volumes.csi.model import CsiVolume, attachment_name
from edged.volumes.csi.mounter import CsiMounter
from edged.volumes.ownership import VolumeOwner
from modules.apimachinery.types import Pod, PodSecurityContext, Secret
from modules.apimachinery.types.persistent import (
    CSIDriver,
    CSIDriverSpec,
    SecretReference,
    VolumeAttachment,
    VolumeAttachmentStatus,
    VolumeProblem,
)
from tests.edged.pods.builders import a_pod
from tests.edged.volumes.mounting import needs_mounts, nothing_mounted_at_the_end
from tests.support.crash import Crash, crash_after
from tests.support.csi_driver import NAME, CsiDriver
from tests.support.patience import PATIENCE

VOLUME = CsiVolume("pv1", NAME, "disk-1", access_modes=("ReadWriteOnce",), attributes={"tier": "fast"})
_CALL = PluginSocket.call
FREE = CSIDriver(spec=CSIDriverSpec(attach_required=False))


class Sources:
    """The cloud's objects."""

    def __init__(self, driver: CSIDriver | None = FREE) -> None:
        self.driver = driver
        self.attachments: dict[str, VolumeAttachment] = {}

    def csi_driver(self, name: str) -> CSIDriver | None:
        return self.driver if name == NAME else None

    def attachment(self, name: str) -> VolumeAttachment | None:
        return self.attachments.get(name)

    def secret_of(self, reference: SecretReference) -> Secret | None:
        return Secret(data={"key": b"very secret", "bin": b"\xff"}) if reference.name == "s" else None


class Node:
    """A node with one driver. `agent` makes another agent on the same files."""

    def __init__(self, directory: Path, **driver: Any) -> None:
        self.root = directory / "root"
        self.paths = PodPaths(self.root)
        self.left = list[str]()
        self.mounts = driver.get("mounts") or MemoryMounts()
        self.driver = CsiDriver(directory, **driver)
        self.driver.start()
        self.sources = Sources()
        self.agent()

    def agent(self) -> None:
        self.drivers = CsiDrivers()
        self.drivers.register(Plugin(NAME, self.driver.socket, ("1.0.0",)))
        left = partial(self.left.append, "a volume")
        self.mounter = CsiMounter(self.paths, self.drivers, self.mounts, "n1", left)

    def publish(self, uid: str = "u1", volume: CsiVolume = VOLUME, owner: VolumeOwner | None = None) -> Path:
        return self.mounter.publish(pod(uid), volume, self.sources, owner)

    def close(self) -> None:
        self.drivers.close()
        self.driver.stop()


class _Publisher(Actor):
    def __init__(self, node: Node) -> None:
        super().__init__()
        self._node = node

    def on_receive(self, message: Any) -> Path:
        return self._node.publish(message)


def pod(uid: str) -> Pod:
    return a_pod(meta={"uid": uid}, security_context=PodSecurityContext())


@pytest.fixture
def node(directory: Path) -> Iterator[Node]:
    made = Node(directory)
    yield made
    made.close()


def test_staged_once_published_to_each_pod_and_undone_with_the_last(node: Node) -> None:
    """May be repeated: nothing is done twice."""
    places = [node.publish(uid) for uid in ("u1", "u2", "u1")]
    assert (places[0], places[0] == places[1]) == (places[2], False)
    assert node.driver.made() == ["NodeStageVolume", "NodePublishVolume", "NodePublishVolume"]
    assert node.mounter.in_use() == (f"kubernetes.io/csi/{NAME}^disk-1",)
    node.mounter.tear_down(PodUid("u1"))
    assert node.driver.made()[3:] == ["NodeUnpublishVolume"]
    node.mounter.tear_down(PodUid("u2"))
    node.mounter.tear_down(PodUid("u2"))
    assert node.driver.made()[4:] == ["NodeUnpublishVolume", "NodeUnstageVolume"]
    assert (node.driver.staged, node.driver.published, node.mounter.in_use()) == ({}, {}, ())
    assert [path for path in (node.root / "plugins").rglob("*") if path.is_file()] == []
    node.publish("u1")
    assert node.driver.made()[6:] == ["NodeStageVolume", "NodePublishVolume"], "a static pod comes again with its uid"


def test_where_things_are_is_a_kubelets_layout(node: Node) -> None:
    place = node.publish()
    assert place == node.root / "pods/u1/volumes/kubernetes.io~csi/pv1/mount"
    assert json.loads((place.parent / "vol_data.json").read_text()) == {
        "driverName": NAME,
        "volumeHandle": "disk-1",
        "specVolID": "pv1",
        "nodeName": "n1",
        "volumeLifecycleMode": "Persistent",
    }
    staged = node.driver.request("NodePublishVolume").staging_target_path
    assert staged.startswith(str(node.root / "plugins/kubernetes.io/csi" / NAME))
    assert staged.endswith("/globalmount")


def test_the_driver_gets_the_volume_and_its_parameters(node: Node) -> None:
    forged = {"tier": "fast", "csi.storage.k8s.io/pod.uid": "another's"}
    volume = CsiVolume(
        "pv1", NAME, "disk-1", ("ReadWriteMany", "ReadWriteOnce"), forged, "ext4", ("noatime",), read_only=True,
        stage_secret=SecretReference("s", "ns"),
    )  # fmt: skip
    node.sources.driver = CSIDriver(spec=CSIDriverSpec(attach_required=False, pod_info_on_mount=True))
    node.publish(volume=volume)
    stage, publish = node.driver.request("NodeStageVolume"), node.driver.request("NodePublishVolume")
    assert (dict(stage.secrets), dict(publish.secrets)) == ({"key": "very secret", "bin": "\ufffd"}, {})
    assert publish.volume_capability.mount.fs_type == "ext4"
    assert list(publish.volume_capability.mount.mount_flags) == ["noatime"]
    assert publish.volume_capability.access_mode.mode == 5  # MULTI_NODE_MULTI_WRITER
    assert publish.readonly
    assert dict(stage.volume_context) == forged
    assert publish.volume_context["tier"] == "fast"
    assert publish.volume_context["csi.storage.k8s.io/pod.uid"] == "u1"


def counted(socket: PluginSocket, *call: Any, **options: Any) -> Any:
    """As `PluginSocket.call`; before it and after it is a step of `crash_after`."""
    sys.audit("open")
    answer = _CALL(socket, *call, **options)
    sys.audit("open")
    return answer


def test_whatever_step_an_agent_is_killed_at_the_next_one_undoes_all(node: Node) -> None:
    """Every change of a file and every call, in making a volume available and in taking it away, for pods that share
    it and a driver that cannot unstage it at first. What the agents undo is never what a pod has, nor what a pod gets
    that comes then.
    """

    def life() -> None:
        for uid in ("u1", "u2"):
            node.publish(uid)
        for uid in ("u1", "u2"):
            node.mounter.tear_down(PodUid(uid))
        node.mounter.unstage_unused()

    survived, steps = False, 0
    while not survived:
        node.driver.fail("NodeUnstageVolume", grpc.StatusCode.INTERNAL, "busy")
        try:
            with crash_after(steps), patch("edged.plugins.socket.PluginSocket.call", counted):
                life()
            survived = True
        except Crash:
            steps += 1
        node.driver.fail("NodeUnstageVolume", grpc.StatusCode.INTERNAL, "busy", times=0)
        node.agent()
        published = dict(node.driver.published)
        node.mounter.unstage_unused()
        assert node.driver.published == published, steps
        node.publish("u2")
        node.mounter.unstage_unused()
        for uid in ("u1", "u2"):
            node.mounter.tear_down(PodUid(uid))
        assert (node.driver.staged, node.driver.published, node.mounter.in_use()) == ({}, {}, ()), steps
        assert [path for path in node.root.glob("plugins/**/*") if path.is_file()] == [], steps
        assert node.driver.refused == [], steps
        shutil.rmtree(node.root, ignore_errors=True)  # the next life begins with nothing
    assert steps > 60


@pytest.mark.parametrize(
    ("first", "undone"),
    [
        ([grpc.StatusCode.INVALID_ARGUMENT], []),
        ([grpc.StatusCode.DEADLINE_EXCEEDED], ["NodeUnpublishVolume", "NodeUnstageVolume"]),
        ([grpc.StatusCode.ABORTED, grpc.StatusCode.INTERNAL], ["NodeUnpublishVolume", "NodeUnstageVolume"]),
    ],
)
def test_a_stage_that_the_driver_refused_is_not_undone(
    node: Node, first: list[grpc.StatusCode], undone: list[str]
) -> None:
    """One that it may go on with is, also when it refused the next. A pod that shares the volume keeps it."""
    for code in first:
        node.driver.fail("NodeStageVolume", code, "no")
        with pytest.raises(PluginError):
            node.publish()
    assert bool(list(node.mounter._stages())) is bool(undone), "nothing is left of one that never was there"
    made = len(node.driver.made())
    node.mounter.tear_down(PodUid("u1"))
    assert (node.driver.made()[made:], node.mounter.in_use()) == (undone, ())
    node.publish("u2")
    node.agent()
    node.driver.fail("NodeStageVolume", grpc.StatusCode.INTERNAL, "it is staged since before the restart")
    with pytest.raises(PluginError):
        node.publish("u3")
    node.mounter.tear_down(PodUid("u3"))
    assert node.mounter.in_use() != ()
    node.mounter.tear_down(PodUid("u2"))
    assert (node.driver.staged, node.mounter.in_use()) == ({}, ())


def test_a_pod_does_not_wait_for_its_volume_to_be_unstaged(node: Node) -> None:
    """That is tried again until it succeeds, also by the next agent, and not while another pod has the volume, or a
    record that cannot be read. Until then the cloud does not detach it.
    """
    node.publish()
    node.driver.fail("NodeUnstageVolume", grpc.StatusCode.INTERNAL, "busy", times=2)
    node.mounter.tear_down(PodUid("u1"))
    assert (len(node.left), list(node.paths.volume_kind(PodUid("u1"), "csi").iterdir())) == (1, [])
    node.agent()
    with pytest.raises(PluginError, match=r"NodeUnstageVolume failed: disk-1 \(busy; INTERNAL\)"):
        node.mounter.unstage_unused()
    assert node.mounter.in_use() != ()
    with patch.object(node.drivers, "get", Mock(wraps=node.drivers.get)) as asked:

        def place_another(_: str) -> Any:
            asked.side_effect = None
            node.publish("u2")
            return DEFAULT

        asked.side_effect = place_another
        node.mounter.unstage_unused()
    assert node.driver.made()[-2:] == ["NodeStageVolume", "NodePublishVolume"], "it may have been unstaged"
    node.driver.fail("NodeUnstageVolume", grpc.StatusCode.INTERNAL, "busy")
    record = node.paths.volume(PodUid("u2"), "csi", "pv1") / "vol_data.json"
    whole = record.read_bytes()
    for text in (b"damaged", whole):
        record.write_bytes(text)
        node.mounter.unstage_unused()
    node.mounter.tear_down(PodUid("u2"))
    assert (list(node.driver.staged), len(node.left)) == (["disk-1"], 2), "it was not asked before"
    node.mounter.unstage_unused()
    assert (node.driver.staged, node.mounter.in_use()) == ({}, ())


def test_a_volume_that_cannot_be_unpublished_keeps_no_other_published(node: Node) -> None:
    """Its driver may be away for days, and the cloud waits to detach the others."""
    for volume in (VOLUME, CsiVolume("pv2", NAME, "disk-2")):
        node.publish(volume=volume)
    node.driver.fail("NodeUnpublishVolume", grpc.StatusCode.INTERNAL, "busy", times=2)
    with pytest.raises(PluginError, match="NodeUnpublishVolume failed: disk-1"):
        node.mounter.tear_down(PodUid("u1"))
    assert sorted(node.driver.published.values()) == ["disk-1", "disk-2"]
    node.driver.fail("NodeUnpublishVolume", grpc.StatusCode.INTERNAL, "busy")
    with pytest.raises(PluginError, match="NodeUnpublishVolume failed: disk-1"):
        node.mounter.tear_down(PodUid("u1"))
    assert (list(node.driver.published.values()), list(node.driver.staged)) == (["disk-1"], ["disk-1"])
    node.mounter.tear_down(PodUid("u1"))
    assert (node.driver.published, node.driver.staged) == ({}, {})


def test_a_pod_that_comes_again_gets_its_volume_though_the_record_of_the_first_was_damaged(node: Node) -> None:
    place = node.publish()
    record = place.parent / "vol_data.json"
    record.write_text("{")
    node.mounter.tear_down(PodUid("u1"))
    assert not record.exists(), "the next removal has nothing to report"
    node.publish()
    assert node.driver.made().count("NodePublishVolume") == 2


def test_the_record_is_of_the_volume_that_is_published(node: Node) -> None:
    """Whatever was in its place: a directory, or the volume that had the name before."""
    record = node.publish().parent / "vol_data.json"
    record.unlink()
    record.mkdir()
    node.agent()
    node.publish()
    assert json.loads(record.read_text())["volumeHandle"] == "disk-1"
    node.agent()
    node.publish(volume=CsiVolume("pv1", NAME, "disk-2"))
    assert json.loads(record.read_text())["volumeHandle"] == "disk-2"


def test_volumes_in_use_are_named_of_all_drivers(node: Node) -> None:
    node.publish()
    stages = node.root / "plugins/kubernetes.io/csi"
    shutil.copytree(stages / NAME, stages / "another")
    (record,) = stages.glob("another/*/vol_data.json")
    record.write_text(record.read_text().replace(NAME, "another"))
    assert node.mounter.in_use() == tuple(sorted(f"kubernetes.io/csi/{name}^disk-1" for name in (NAME, "another")))


def test_nothing_is_left_of_a_volume_that_its_group_never_got(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark beside the volume would keep its directory, and the pod's removal would report it for ever."""
    with monkeypatch.context() as patch, pytest.raises(OSError, match="the disk is gone"):
        patch.setattr("os.chown", Mock(side_effect=OSError(errno.EIO, "the disk is gone")))
        node.publish(volume=CsiVolume("pv1", NAME, "disk-1", ("ReadWriteOnce",), fs_type="ext4"), owner=VolumeOwner(7))
    node.mounter.tear_down(PodUid("u1"))
    assert list_directory(node.root / "pods/u1/volumes/kubernetes.io~csi") == []


def read_without_descriptors(unreadable: str) -> Callable[[Path, int], bytes]:
    """As `read_file`, while there is no descriptor for some paths."""

    def read(path: Path, most: int) -> bytes:
        if unreadable in str(path):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return read_file(path, most)

    return read


def list_failing(unlisted: str, number: int = errno.EMFILE) -> Callable[[Path], list[Path]]:
    """As `list_directory`, while some paths cannot be listed."""

    def listed(path: Path) -> list[Path]:
        if unlisted in str(path) and "/u1/" not in str(path):
            raise OSError(number, os.strerror(number), str(path))
        return list_directory(path)

    return listed


def test_a_record_that_no_descriptor_is_left_for_is_not_damaged(node: Node) -> None:
    """The driver would never undo it."""
    node.publish()
    with (
        patch("edged.volumes.csi.mounter.read_file", read_without_descriptors("vol_data")),
        pytest.raises(VolumeError, match="Too many open files"),
    ):
        node.mounter.tear_down(PodUid("u1"))
    node.mounter.tear_down(PodUid("u1"))
    assert (node.driver.published, node.driver.staged) == ({}, {})


def test_a_volume_is_not_unstaged_while_the_records_of_other_pods_cannot_be_read(node: Node) -> None:
    """Nor is it left out of the volumes in use: the cloud would detach it."""
    node.publish()
    node.publish("u2")
    with patch("edged.volumes.csi.mounter.read_file", read_without_descriptors("u2")), pytest.raises(VolumeError):
        node.mounter.tear_down(PodUid("u1"))
    assert list(node.driver.staged) == ["disk-1"]
    with (
        patch("edged.volumes.csi.mounter.read_file", read_without_descriptors("plugins")),
        pytest.raises(VolumeError) as short,
    ):
        node.mounter.in_use()
    assert short.value.retryable
    node.mounter.tear_down(PodUid("u1"))
    (node.paths.volume(PodUid("u2"), "csi", "pv1") / "vol_data.json").write_text("damaged")
    node.publish("u1")
    node.mounter.tear_down(PodUid("u1"))
    assert (list(node.driver.staged), len(node.left)) == (["disk-1"], 1)
    node.mounter.tear_down(PodUid("u2"))
    assert len(node.left) == 2, "nobody knows whose last pod that was"
    node.driver.published.clear()  # unmounted with the pod's directory
    node.mounter.unstage_unused()
    assert (node.driver.staged, node.driver.refused) == ({}, [])


@pytest.mark.parametrize("unlisted", ["/pods/u2/volumes", "/pods"])
def test_a_volume_is_not_unstaged_while_directories_of_other_pods_cannot_be_listed(
    node: Node, monkeypatch: pytest.MonkeyPatch, unlisted: str
) -> None:
    """`Path.glob` of Python 3.13 finds nothing in them."""
    node.publish()
    node.publish("u2")
    with monkeypatch.context() as patched, pytest.raises(VolumeError, match="Too many open files"):
        patched.setattr("edged.volumes.csi.mounter.list_directory", list_failing(unlisted))
        node.mounter.tear_down(PodUid("u1"))
    assert list(node.driver.staged) == ["disk-1"]
    node.mounter.tear_down(PodUid("u1"))
    node.mounter.tear_down(PodUid("u2"))
    assert (node.driver.published, node.driver.staged) == ({}, {})


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
def test_volumes_in_use_are_not_told_without_those_of_a_directory_that_cannot_be_listed(
    node: Node, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Of a worn disk, too; what inspects the node goes on."""
    node.publish()
    with monkeypatch.context() as patched, pytest.raises(VolumeError, match=os.strerror(number)):
        patched.setattr("edged.volumes.csi.mounter.list_directory", list_failing("plugins", number))
        node.mounter.in_use()
    assert len(node.mounter.in_use()) == 1


def test_after_the_agents_restart_volumes_are_published_again_and_once(node: Node) -> None:
    """A reboot has removed the mounts, and a driver accepts a repeated call."""
    node.publish()
    node.agent()
    node.publish()
    node.publish()
    assert node.driver.made() == ["NodeStageVolume", "NodePublishVolume"] * 2


def test_errors_have_the_volume_and_the_drivers_words_but_no_secret(node: Node) -> None:
    volume = CsiVolume("pv1", NAME, "disk-1", stage_secret=SecretReference("s", "ns"))
    node.driver.fail("NodeStageVolume", grpc.StatusCode.NOT_FOUND, "no disk for key very secret")
    with pytest.raises(PluginError, match=r"NodeStageVolume failed: disk-1 \(no disk for key <redacted>") as raised:
        node.publish(volume=volume)
    assert raised.value.retryable
    node.publish(volume=volume)
    with pytest.raises(VolumeError, match="secret not found: ns/missing"):
        node.publish("u2", CsiVolume("pv2", NAME, "disk-2", stage_secret=SecretReference("missing", "ns")))


def test_a_driver_that_is_not_there_is_waited_for(node: Node) -> None:
    with pytest.raises(PluginError, match="driver name other not found in the list of registered CSI drivers") as error:
        node.publish(volume=CsiVolume("pv1", "other", "h"))
    assert error.value.retryable


def test_two_operations_on_one_volume_never_run_beside_each_other(node: Node) -> None:
    """The second fails immediately and can be tried again; other volumes go on."""
    going_on = node.driver.hang("NodeStageVolume")
    threads = Threads()
    first = threads.start(_Publisher, node)
    try:
        answer = first.ref.ask("u1", block=False)
        assert node.driver.called["NodeStageVolume"].wait(PATIENCE)
        with pytest.raises(VolumeError, match="disk-1 already exists") as raised:
            node.publish("u2")
        assert raised.value.retryable
        going_on.set()
        assert answer.get(timeout=PATIENCE) is not None
        node.publish("u2")
    finally:
        going_on.set()
        first.ref.stop()


def test_edged_ends_although_a_driver_hangs(node: Node) -> None:
    """Its call ends with the connection, long before its two minutes are over."""
    going_on = node.driver.hang("NodePublishVolume")
    first = Threads().start(_Publisher, node)
    try:
        answer = first.ref.ask("u1", block=False)
        assert node.driver.called["NodePublishVolume"].wait(PATIENCE)
        node.drivers.close()
        with pytest.raises(PluginError, match="NodePublishVolume failed: disk-1"):
            answer.get(timeout=PATIENCE)
    finally:
        going_on.set()
        first.ref.stop()


def test_a_driver_that_does_not_stage(directory: Path) -> None:
    """It publishes immediately; the volume is still marked as in use."""
    with closing(Node(directory, capabilities=())) as node:
        node.publish()
        assert node.driver.made() == ["NodePublishVolume"]
        assert node.mounter.in_use() == (f"kubernetes.io/csi/{NAME}^disk-1",)
        node.mounter.tear_down(PodUid("u1"))
        assert node.driver.made() == ["NodePublishVolume", "NodeUnpublishVolume"]
        assert node.mounter.in_use() == ()


def test_a_volume_of_one_pod_alone(node: Node) -> None:
    """It is not attached, not staged and not in use; the driver must declare such volumes."""
    volume = CsiVolume("v", NAME, "csi-1", ("ReadWriteOnce",), ephemeral=True)
    with pytest.raises(VolumeError, match="Ephemeral not supported by driver"):
        node.publish(volume=volume)
    spec = CSIDriverSpec(volume_lifecycle_modes=("Ephemeral",), pod_info_on_mount=True)
    node.sources.driver = CSIDriver(spec=spec)
    node.publish(volume=volume)
    assert node.driver.made() == ["NodePublishVolume"]
    assert node.mounter.in_use() == ()
    node.mounter.tear_down(PodUid("u1"))
    assert node.driver.made() == ["NodePublishVolume", "NodeUnpublishVolume"]


def test_a_volume_is_waited_for_until_the_cloud_has_attached_it(node: Node) -> None:
    """The attacher's data goes to the driver. Without a CSIDriver object attachment is required."""
    node.sources.driver = None
    with pytest.raises(VolumeError, match=r"volume not attached yet.*VolumeAttachment is missing"):
        node.publish()
    name = attachment_name("disk-1", NAME, "n1")
    problem = VolumeAttachmentStatus(attach_error=VolumeProblem(message="no such disk"))
    node.sources.attachments[name] = VolumeAttachment(status=problem)
    with pytest.raises(VolumeError, match=r"volume not attached yet.*no such disk"):
        node.publish()
    attached = VolumeAttachmentStatus(attached=True, attachment_metadata={"device": "/dev/sdz"})
    node.sources.attachments[name] = VolumeAttachment(status=attached)
    node.publish()
    for call in ("NodeStageVolume", "NodePublishVolume"):
        assert dict(node.driver.request(call).publish_context) == {"device": "/dev/sdz"}


def test_a_driver_may_want_to_be_asked_again_and_again(node: Node) -> None:
    node.sources.driver = CSIDriver(spec=CSIDriverSpec(attach_required=False, requires_republish=True))
    node.publish()
    node.publish()
    assert node.driver.made().count("NodePublishVolume") == 2


@needs_mounts
def test_the_pods_group_gets_the_volume(directory: Path) -> None:
    """By this agent, unless the driver does it itself; once, and not of a volume without a file system of its own."""
    with nothing_mounted_at_the_end(directory) as mounts, closing(Node(directory, mounts=mounts)) as node:
        volume = CsiVolume("pv1", NAME, "disk-1", ("ReadWriteOnce",), fs_type="ext4")
        place = node.publish(volume=volume, owner=VolumeOwner(4242))
        assert place.stat().st_gid == 4242
        assert node.driver.request("NodePublishVolume").volume_capability.mount.volume_mount_group == ""
        node.mounter.tear_down(PodUid("u1"))
        shared = CsiVolume("pv2", NAME, "disk-2", ("ReadWriteMany",), fs_type="ext4")
        assert node.publish(volume=shared, owner=VolumeOwner(4242)).stat().st_gid != 4242
        node.mounter.tear_down(PodUid("u1"))
        node.driver.capabilities += ("VOLUME_MOUNT_GROUP",)
        node.agent()
        node.publish(volume=volume, owner=VolumeOwner(4243))
        assert node.driver.request("NodePublishVolume").volume_capability.mount.volume_mount_group == "4243"
        node.mounter.tear_down(PodUid("u1"))


@needs_mounts
@pytest.mark.parametrize("restarts", [True, False])
def test_a_group_that_did_not_get_the_whole_volume_gets_it_with_the_next_publication(
    directory: Path, monkeypatch: pytest.MonkeyPatch, *, restarts: bool
) -> None:
    """The volume is mounted by then: the disk failed, or the agent was killed, between its files. Given once, it is
    left to the containers.
    """
    volume, owner = CsiVolume("pv1", NAME, "disk-1", ("ReadWriteOnce",), fs_type="ext4"), VolumeOwner(4242)
    with nothing_mounted_at_the_end(directory) as mounts, closing(Node(directory, mounts=mounts)) as node:
        with monkeypatch.context() as patch, pytest.raises(OSError, match="the disk is gone"):
            patch.setattr("os.chown", Mock(side_effect=OSError(errno.EIO, "the disk is gone")))
            node.publish(volume=volume, owner=owner)
        if restarts:
            node.agent()
        place = node.publish(volume=volume, owner=owner)
        assert place.stat().st_gid == 4242
        os.chown(place, -1, 0)
        node.agent()
        assert node.publish(volume=volume, owner=owner).stat().st_gid == 0
        node.mounter.tear_down(PodUid("u1"))
        assert not place.parent.exists()
