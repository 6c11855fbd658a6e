"""Stages volumes on the node, publishes them to pods, and undoes both."""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from beehive.decoding import decode_json
from beehive.files.descriptors import raise_shortage
from beehive.files.durable import beside, make_directories, replace_file
from beehive.files.reading import list_directory, read_file
from beehive.files.removal import remove_tree
from edged.errors import MissingContentError, PluginCallError, VolumeError
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.volumes.csi import rules
from edged.volumes.csi.drivers import CsiDrivers
from edged.volumes.csi.model import CSI, CsiVolume, Driver, NodeCapability, PublishedVolume, attachment_name, stage_name
from edged.volumes.mounting import Mounts, is_mounted
from edged.volumes.ownership import VolumeOwner, set_volume_ownership
from modules.apimachinery.attempts import AttemptError
from modules.apimachinery.types import Pod, Secret
from modules.apimachinery.types.persistent import CSIDriver, SecretReference, VolumeAttachment

if TYPE_CHECKING:
    from edged.volumes.csi.client import CsiClient, NodeVolumeRequest

_log = logging.getLogger(__name__)

_DATA = "vol_data.json"
_DATA_MODE = 0o644
_UNGIVEN = "ungiven"
"""Marks beside a volume that it is to be given to the pod's group; removed once it is, so that after a failure or a
kill the next publication does it."""
_UNSETTLED = frozenset({"CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED"})
"""Failures after which a driver may go on with a call (kubelet's isFinalError has the others)."""
_LONGEST = 1024 * 1024
"""Bytes read of a record."""


class CsiSources(Protocol):
    """A source of the objects about a volume from the store or the cloud; None for a missing object."""

    def csi_driver(self, name: str) -> CSIDriver | None:
        """Return the CSIDriver object of that name."""

    def attachment(self, name: str) -> VolumeAttachment | None:
        """Return the VolumeAttachment of that name."""

    def secret_of(self, reference: SecretReference) -> Secret | None:
        """Return a secret of any namespace."""


class _Task(msgspec.Struct, frozen=True):
    """One volume to be published to one pod, with the data that the driver needs."""

    uid: PodUid
    volume: CsiVolume
    driver: Driver
    client: "CsiClient"
    rules: CSIDriver | None
    attributes: Mapping[str, str]
    sources: CsiSources
    owner: VolumeOwner | None


class CsiMounter:
    """The mounter that stages and publishes the volumes of storage drivers. Thread-safe.

    A volume is staged once for all its pods and published to each. A record of each call is written beforehand, beside
    the volume, so that the agent after a killed one finds the calls to undo: a driver's calls may be repeated. A volume
    is unstaged with its last pod; only then the record in that pod is removed. Two operations on one volume never run
    at the same time: the second fails, and its pod tries again (kubelet's operation executor).

    Args:
        paths: of pods and plug-ins.
        drivers: the registered drivers.
        mounts: of the node.
        node: its name.
        on_left: is called when a volume that no pod has any more may have stayed staged, on the caller's thread:
            `unstage_unused` is to be called until it is not.
    """

    def __init__(
        self,
        paths: PodPaths,
        drivers: CsiDrivers,
        mounts: Mounts,
        node: str,
        on_left: Callable[[], None] = lambda: None,
    ) -> None:
        self._paths = paths
        self._drivers = drivers
        self._mounts = mounts
        self._node = node
        self._on_left = on_left
        self._lock = threading.Lock()
        self._busy: set[tuple[str, str]] = set()
        self._staged: set[tuple[str, str]] = set()
        self._published: set[Path] = set()

    def publish(self, pod: Pod, volume: CsiVolume, sources: CsiSources, owner: VolumeOwner | None) -> Path:
        """Make a volume available to a pod and return its path; may be repeated.

        Raises VolumeError, PluginError with the driver's own words, and CallError from `sources`.
        """
        uid = PodUid(pod.metadata.uid)
        place = self._place(uid, volume.name)
        policy = sources.csi_driver(volume.driver)
        if place in self._published and not rules.requires_republish(policy):
            return place
        driver, client = self._drivers.get(volume.driver)
        rules.check_lifecycle(policy, volume)
        attributes = rules.pod_attributes(policy, pod, volume)
        task = _Task(uid, volume, driver, client, policy, attributes, sources, owner)
        with self._alone((volume.driver, volume.handle)):
            self._publish(task, place)
        return place

    def tear_down(self, uid: PodUid) -> None:
        """Unpublish the pod's volumes, and unstage those without another pod; may be repeated. The pod does not wait
        for a driver that cannot unstage one (kubelet's UnmountDevice).

        Raises the first VolumeError or PluginError when all volumes were tried; the next call undoes the rest.
        """
        problem: AttemptError | None = None
        for data in (each / _DATA for each in _listed(self._paths.volume_kind(uid, CSI))):
            if not os.path.lexists(data):
                continue
            self._published.discard(data.parent / "mount")
            try:
                volume = _read(data)
                if volume is None:
                    _log.error(
                        "the record of a storage driver's volume cannot be read: %s; only its mounts are undone", data
                    )
                    remove_tree(data)
                    self._on_left()
                    continue
                with self._alone(volume.key):
                    self._unpublish(volume, data)
            except AttemptError as error:  # of a driver that is away: the volumes of others must not wait for it
                problem = problem or error
        if problem is not None:
            raise problem

    def unstage_unused(self) -> None:
        """Unstage the volumes that no pod has any more; none while the record of a pod's volume cannot be read.

        Raises the first VolumeError or PluginError when all volumes were tried.
        """
        problem: AttemptError | None = None
        staged = [_read(stage / _DATA) for stage in self._stages()]
        used = self._used() if staged else set()
        for volume in staged:
            if volume is None or _has(used, volume):
                continue
            try:
                driver, client = self._drivers.get(volume.driverName)
                with self._alone(volume.key):
                    if not _has(self._used(), volume):  # a pod may have come meanwhile
                        self._unstage(volume, driver, client)
            except AttemptError as error:
                problem = problem or error
        if problem is not None:
            raise problem

    def in_use(self) -> tuple[str, ...]:
        """Return the unique names of the attachable volumes that this node uses, sorted, for the node's status.

        Raises VolumeError when that cannot be read now: the cloud may detach a volume that is not named.
        """
        found = (_read(stage / _DATA) for stage in self._stages())
        return tuple(sorted({CsiVolume("", v.driverName, v.volumeHandle).unique_name for v in found if v is not None}))

    def _publish(self, task: _Task, place: Path) -> None:
        volume = task.volume
        mode = "Ephemeral" if volume.ephemeral else "Persistent"
        from edged.volumes.csi.client import NodeVolumeRequest  # noqa: PLC0415 - see there

        capabilities, owner = task.driver.capabilities, task.owner
        by_driver = NodeCapability.VOLUME_MOUNT_GROUP in capabilities
        group = str(owner.group) if by_driver and owner is not None else ""
        request = NodeVolumeRequest(
            volume, capabilities, self._publish_context(task), attributes=task.attributes, group=group
        )
        published = PublishedVolume(volume.driver, volume.handle, volume.name, self._node, mode)
        with _recorded(place.parent / _DATA, published):
            staged = None if volume.ephemeral else self._stage(task, request)
        ungiven = place.with_name(_UNGIVEN)
        is_to_give = owner is not None and not by_driver and rules.supports_fs_group(task.rules, volume)
        if is_to_give and not is_mounted(self._mounts, place):
            ungiven.touch()
        secrets = _secrets(task.sources, volume.publish_secret)
        task.client.publish(request._replace(secrets=secrets), place, staged)
        if owner is not None and ungiven.exists():
            set_volume_ownership(place, owner)
            ungiven.unlink()
        self._published.add(place)

    def _stage(self, task: _Task, request: "NodeVolumeRequest") -> Path | None:
        """Stage the volume. The record is written for a driver that does not stage, too: it marks the volume as
        in use.
        """
        volume = task.volume
        directory = self._stage_directory((volume.driver, volume.handle))
        with _recorded(directory / _DATA, PublishedVolume(volume.driver, volume.handle)):
            if NodeCapability.STAGE_UNSTAGE_VOLUME not in task.driver.capabilities:
                return None
            place = directory / "globalmount"
            if (volume.driver, volume.handle) not in self._staged:
                place.mkdir(mode=0o750, exist_ok=True)
                task.client.stage(request._replace(secrets=_secrets(task.sources, volume.stage_secret)), place)
                self._staged.add((volume.driver, volume.handle))
        return place

    def _publish_context(self, task: _Task) -> dict[str, str]:
        """Return the attacher's data about the volume. Raises VolumeError while it is not attached."""
        volume = task.volume
        if volume.ephemeral or not rules.must_be_attached(task.rules):
            return {}
        attachment = task.sources.attachment(attachment_name(volume.handle, volume.driver, self._node))
        attempt = f'volume not attached yet: "{volume.unique_name}"'
        if attachment is None:
            hint = "its VolumeAttachment is missing; is the driver's CSIDriver object with attachRequired there?"
            raise VolumeError(attempt, "", hint, retryable=True)
        problem = attachment.status.attach_error
        if not attachment.status.attached:
            hint = problem.message if problem is not None else f"VolumeAttachment {attachment.metadata.name} says so"
            raise VolumeError(attempt, "", hint, retryable=True)
        return dict(attachment.status.attachment_metadata)

    def _unpublish(self, volume: PublishedVolume, data: Path) -> None:
        driver, client = self._drivers.get(volume.driverName)
        place = data.parent / "mount"
        client.unpublish(volume.volumeHandle, place)
        _remove_empty(place)
        used = self._used(but=data)
        if None in used:
            self._on_left()
        elif volume.key not in used:
            try:
                self._unstage(volume, driver, client)
            except PluginCallError as error:
                _log.warning("%s; it is tried again, and the pod does not wait for it", error)
                self._on_left()
        place.with_name(_UNGIVEN).unlink(missing_ok=True)
        _forget(data)

    def _unstage(self, volume: PublishedVolume, driver: Driver, client: "CsiClient") -> None:
        directory = self._stage_directory(volume.key)
        place = directory / "globalmount"
        if not directory.is_dir():
            return
        if NodeCapability.STAGE_UNSTAGE_VOLUME in driver.capabilities:
            self._staged.discard(volume.key)
            client.unstage(volume.volumeHandle, place)
        _remove_empty(place)
        _forget(directory / _DATA)

    def _used(self, but: Path | None = None) -> set[tuple[str, str] | None]:
        """Return the keys of the volumes that pods have, without that of one record; None stands for a record that
        cannot be read.
        """
        read = ((path, _read(path)) for path in self._records() if path != but)
        return {
            record.key if record is not None else None
            for path, record in read
            if record is not None or os.path.lexists(path)
        }

    def _records(self) -> Iterator[Path]:
        """Yield where the records of the pods' volumes are."""
        pods = (PodUid(pod.name) for pod in _listed(self._paths.pods))
        places = chain.from_iterable(_listed(self._paths.volume_kind(uid, CSI)) for uid in pods)
        return (place / _DATA for place in places)

    def _stages(self) -> Iterator[Path]:
        return chain.from_iterable(map(_listed, _listed(self._paths.stages(CSI))))

    def _place(self, uid: PodUid, name: str) -> Path:
        return self._paths.volume(uid, CSI, name) / "mount"

    def _stage_directory(self, key: tuple[str, str]) -> Path:
        return self._paths.stage(CSI, key[0], stage_name(key[1]))

    @contextmanager
    def _alone(self, key: tuple[str, str]) -> Iterator[None]:
        with self._lock:
            if key in self._busy:
                text = f"an operation with the given Volume ID {key[1]} already exists"
                raise VolumeError(text, "", "trying again", retryable=True)
            self._busy.add(key)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(key)


def _has(used: set[tuple[str, str] | None], volume: PublishedVolume) -> bool:
    """Return whether a pod has the volume, or may have it."""
    return not used.isdisjoint({volume.key, None})


def _secrets(sources: CsiSources, reference: SecretReference | None) -> dict[str, str]:
    if reference is None:
        return {}
    secret = sources.secret_of(reference)
    if secret is None:
        raise MissingContentError("secret not found", f"{reference.namespace}/{reference.name}")
    return {key: value.decode("utf-8", "replace") for key, value in secret.data.items()}


@contextmanager
def _recorded(path: Path, value: PublishedVolume) -> Iterator[None]:
    """Write a record before the volume is staged. If the driver refuses that, and there was no record before, nothing
    is staged: the record is removed, so that a volume that never was there is not unstaged (kubelet).
    """
    is_first = not os.path.lexists(path)
    _write(path, value)
    try:
        yield
    except PluginCallError as error:
        if is_first and error.code not in _UNSETTLED:
            _remove_empty(path.parent / "globalmount")
            _forget(path)
        raise


def _write(path: Path, value: PublishedVolume) -> None:
    """Write a record durably, so that it survives a loss of power. An equal record is kept, because each sync of a
    republished volume comes here.
    """
    if _read(path) != value:
        make_directories(path.parent, 0o750)
        remove_tree(path)
        replace_file(path, msgspec.json.encode(value), _DATA_MODE)


def _forget(path: Path) -> None:
    """Remove the record, and then its directory."""
    beside(path).unlink(missing_ok=True)
    remove_tree(path)
    _remove_empty(path.parent)


def _read(path: Path) -> PublishedVolume | None:
    """Return the record; None if it is missing or damaged: then it cannot be undone, and the removal of its directory
    will report the remains. Raises VolumeError when the machine is short of something: the record is there.
    """
    with _readable(path):
        try:
            return decode_json(read_file(path, _LONGEST), PublishedVolume)
        except (OSError, msgspec.MsgspecError) as error:
            raise_shortage(error)
            return None


def _listed(directory: Path) -> list[Path]:
    """Return the sorted entries of a directory, none without one. Raises VolumeError."""
    with _readable(directory):
        return list_directory(directory)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raise VolumeError for an OSError, such as of a worn disk or a machine that is short of something."""
    try:
        yield
    except OSError as error:
        raise VolumeError("read the records of volumes", str(path), str(error.strerror), retryable=True) from error


def _remove_empty(directory: Path) -> None:
    """Remove an empty directory. One with content is still mounted, or never was a mount: it stays, and the pod's
    removal reports it.
    """
    with suppress(OSError):
        directory.rmdir()
