"""The image store: CRI's ImageService, the holds of containers, archives, and garbage collection."""

import logging
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from beehive.clock import Clock
from beehive.decoding import decode_json
from beehive.files.reading import read_file
from beehive.on_failure import on_failure
from modules.runtimes.engine.views import required_name
from modules.runtimes.oci.images.errors import NoSuchObjectError, RequestRefusedError
from modules.runtimes.oci.images.index import ImageIndex
from modules.runtimes.oci.images.model import LayerUsage, PullSettings, StorageUsage, StoredImage
from modules.runtimes.oci.images.names import ONE_NAME, without_name
from modules.runtimes.oci.images.pulls import PullsUnderWay
from modules.runtimes.oci.images.views import cri_image
from modules.runtimes.oci.images.worker.limits import UnpackLimits
from modules.runtimes.oci.images.worker.store_layout import TEMPORARY, StoreLayout
from modules.runtimes.oci.images.worker_process import LayerProgress, Needs, WorkerProcess
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

_SHOWN = 200
_LONGEST_RECORD: Final = 64 * 1024
_PARTS_SECONDS: Final = 24 * 3600.0
"""Seconds that an interrupted pull can be resumed."""
_PARTS_SECONDS_WHEN_FULL: Final = 900.0
"""The same on a disk that gets full: longer than the pauses between a kubelet's attempts, 300 s."""
_LEAST_FREE: Final = 0.2
"""Part of the disk; nodes evict pods with less than 0.15."""
_SHA256: Final = "sha256:"


class Holds:
    """The images that containers need, by container. Thread-safe. Only the engine's records survive a restart."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, str] = {}

    def add(self, holder: str, image_id: str) -> None:
        """Let a container hold an image."""
        with self._lock:
            self._held[holder] = image_id

    def drop(self, holder: str) -> str:
        """Drop a container's hold; return the image, "" without one."""
        with self._lock:
            return self._held.pop(holder, "")

    def set(self, holders: Mapping[str, str]) -> None:
        """Replace all holds."""
        with self._lock:
            self._held = dict(holders)

    def of(self, image_id: str) -> bool:
        """Return whether any container holds an image."""
        with self._lock:
            return image_id in self._held.values()


OnCancel = Callable[[Callable[[], None]], object]
"""Registers a callback for the end of a call, however it ends."""


def never(_: Callable[[], None]) -> None:
    """Register nothing: the caller waits however long it takes."""


class ImageStore:
    """The images of the node. Thread-safe.

    Work that fetches, unpacks or removes many files runs in a short-lived process of its own. The layers and blobs of
    an image are protected from collection from the moment when they are known until the image is in the index.

    Args:
        root: directory of the store, on a file system that overlayfs can use.
        clock: time of pulls.
        registries: containerd's `certs.d` directory, with a `hosts.toml` for each registry that has one.
        limits: of each layer.
        pulls: how pulls wait.
        keep_blobs: keep layers also as they came, so that images can be exported; takes about half as much space again.

    Raises:
        OSError: the directory cannot be used.
    """

    def __init__(
        self,
        root: Path,
        clock: Clock,
        registries: Path,
        limits: UnpackLimits | None = None,
        pulls: PullSettings | None = None,
        *,
        keep_blobs: bool = False,
    ) -> None:
        self.layout = StoreLayout(root)
        self.layout.make()
        self._clock = clock
        self._registries = registries
        self._limits = limits or UnpackLimits()
        self._pulls = pulls or PullSettings()
        self.pulls = PullsUnderWay()
        self._keep_blobs = keep_blobs
        self._lock = threading.Lock()
        self._index = ImageIndex(self.layout.index)
        self._layers = Layers(self.layout, clock)
        self._holds = Holds()
        self._needs: dict[str, Needs] = {}
        self._working = 0
        self._layers.drop_unfinished()

    # CRI

    def listing(self, request: cri.ListImagesRequest) -> cri.ListImagesResponse:
        """ListImages: all, or the image of the filter."""
        wanted = request.filter.image.image
        with self._lock:
            found = [self._index.find(wanted)] if wanted else self._index.images()
        return cri.ListImagesResponse(images=[cri_image(image) for image in found if image is not None])

    def status(self, request: cri.ImageStatusRequest) -> cri.ImageStatusResponse:
        """ImageStatus: an answer without an image if it is not there."""
        image = self.find(required_name(request.image))
        return cri.ImageStatusResponse(image=None if image is None else cri_image(image))

    def pull(
        self,
        request: cri.PullImageRequest,
        on_cancel: OnCancel = never,
        progress: Callable[[LayerProgress], None] | None = None,
    ) -> cri.PullImageResponse:
        """PullImage: layers that the store already has are not fetched again.

        Args:
            request: name and credentials.
            on_cancel: registers a callback for a client that gives up; the pull ends, and a later one resumes it.
            progress: told how far a layer is, on the calling thread.

        Raises:
            RequestRefusedError: it failed; the reason has no secret.
        """
        name = required_name(request.image)
        before = self.find(name)
        work = {
            "operation": "pull",
            "reference": name,
            "registries": str(self._registries),
            "auth": {field.name: value for field, value in request.auth.ListFields()},
            "waiting": self._pulls.waiting(),
            "parallel": self._pulls.parallel_blobs,
            "known": [] if before is None else [each.rpartition("@")[2] for each in before.repo_digests],
        }
        with self.pulls.one(name) as told:

            def pass_on(layer: LayerProgress) -> None:
                told(layer)
                if progress is not None:
                    progress(layer)

            found = self._work(f"pull {name[:_SHOWN]!r}", work, on_cancel, pass_on)
            if not found and before is not None and self.find(before.id) is None:  # removed while it was looked for
                found = self._work(f"pull {name[:_SHOWN]!r}", {**work, "known": []}, on_cancel, pass_on)
        (image,) = found or (before,)
        return cri.PullImageResponse(image_ref="" if image is None else image.id)

    def remove(self, request: cri.RemoveImageRequest) -> cri.RemoveImageResponse:
        """RemoveImage: removes the image with all its names, or with `ONE_NAME` the given name alone if it has others.
        No error if it is not there. Layers stay while a container needs them.
        """
        with self._lock:
            image = self._index.find(required_name(request.image))
            rest = image and ONE_NAME in request.image.annotations and without_name(image, request.image.image)
            if rest:
                self._index.replace(rest)
                return cri.RemoveImageResponse()
            if image is not None and self._holds.of(image.id):
                self._index.replace(replace(image, repo_tags=(), repo_digests=(), removed=True))
            elif image is not None:
                self._index.drop([image.id])
        if image is not None:
            self.collect()
        return cri.RemoveImageResponse()

    def file_system(self, writable: StorageUsage) -> cri.ImageFsInfoResponse:
        """ImageFsInfo: the disk usage of images, and of containers' writable layers (`writable`)."""
        with self._lock:
            layers = self._layers.total()
            documents = [size for image in self._index.all_images() for size in image.blobs.values()]
        images = StorageUsage(layers.bytes + sum(documents), layers.inodes + len(documents))
        return cri.ImageFsInfoResponse(
            image_filesystems=[self._usage(images)], container_filesystems=[self._usage(writable)]
        )

    # images

    def find(self, name_or_id: str) -> StoredImage | None:
        """Return the image of an id, a unique beginning of an id, a tag or a digest."""
        with self._lock:
            return self._index.find(name_or_id)

    def get(self, image_id: str) -> StoredImage:
        """Return an image by its id, also a removed image that a container holds.

        Raises NoSuchObjectError.
        """
        with self._lock:
            return self._get(image_id)

    def import_archive(self, path: Path, on_cancel: OnCancel = never) -> tuple[StoredImage, ...]:
        """Add the images of an archive: of `docker save`, or an OCI layout in a tar.

        Raises RequestRefusedError.
        """
        request = {"operation": "import", "archive": str(path.absolute())}
        return self._work(f'import the images of "{path}"', request, on_cancel)

    # holds

    def hold(self, holder: str, image_id: str) -> None:
        """Keep the layers of an image for a container until `release`. Raises NoSuchObjectError."""
        with self._lock:  # `remove` decides by the holds whether the image goes
            self._get(image_id)
            self._holds.add(holder, image_id)

    def release(self, holder: str) -> None:
        """Undo `hold`, if any. A removed image without a further holder goes."""
        image_id = self._holds.drop(holder)
        with self._lock:
            image = self._index.by_id(image_id)
        if image is not None and image.removed and not self._holds.of(image_id):
            self.collect()

    def keep_only(self, holders: Mapping[str, str]) -> None:
        """At the start: set the holds of all present containers, and release the holds of earlier containers."""
        self._holds.set(holders)
        self.collect()

    def collect(self) -> None:
        """Remove the layers and blobs that no image and no container needs: mark from both, then sweep. A failure is
        logged.
        """
        try:
            with self._lock:
                self._drop_released()
                self._layers.discard_unneeded(self._index.all_images(), self._needs.values(), is_idle=not self._working)
            if any(self.layout.trash.iterdir()):
                self._sweep()
        except (OSError, RequestRefusedError) as error:
            _log.warning("images that were removed stay on the disk for now: %s", error)

    # internals

    def _get(self, image_id: str) -> StoredImage:
        image = self._index.by_id(image_id)
        if image is None:
            raise NoSuchObjectError(f"find image {image_id}", "it is not in the store", "pull it again")
        return image

    def _drop_released(self) -> None:
        gone = [image.id for image in self._index.all_images() if image.removed and not self._holds.of(image.id)]
        self._index.drop(gone)

    def _sweep(self) -> None:
        with self._working_on():
            WorkerProcess("remove what no image needs", lambda _: None).run(self._request({"operation": "sweep"}))

    def _work(
        self,
        attempt: str,
        request: Mapping[str, object],
        on_cancel: OnCancel,
        progress: Callable[[LayerProgress], None] | None = None,
    ) -> tuple[StoredImage, ...]:
        """Let a worker add images; they are in the index when this returns."""
        with self._collecting_after_failure(), self._working_on() as token:
            worker = WorkerProcess(attempt, lambda needs: self._protect(token, needs), progress)
            if on_cancel(worker.cancel) is False:  # the call has ended already (grpc's `add_callback`)
                worker.cancel()
            return self._added(worker.run(self._request(request)))

    @contextmanager
    def _collecting_after_failure(self) -> Iterator[None]:
        """Remove the layers that a failed or killed worker has unpacked in vain, or that the index could not take."""
        with on_failure(self.collect):
            yield

    def _added(self, images: Iterable[StoredImage]) -> tuple[StoredImage, ...]:
        with self._lock:
            complete = [
                replace(image, size=self._layers.usage(image.chain) + sum(image.blobs.values())) for image in images
            ]
            self._index.add(complete)
            return tuple(self._index.by_id(image.id) or image for image in complete)

    def _request(self, request: Mapping[str, object]) -> dict[str, object]:
        settings = {"root": str(self.layout.root.absolute()), "limits": self._limits._asdict()}
        return {**request, **settings, "keep_blobs": self._keep_blobs}

    @contextmanager
    def _working_on(self) -> Iterator[str]:
        """Count a worker, and at its end drop the layers and blobs that it protects."""
        token = self._clock.new_id()
        with self._lock:
            self._working += 1
        try:
            yield token
        finally:
            with self._lock:
                self._working -= 1
                self._needs.pop(token, None)

    def _protect(self, token: str, needs: Needs) -> None:
        with self._lock:
            self._needs[token] = needs

    def _usage(self, usage: StorageUsage) -> cri.FilesystemUsage:
        return cri.FilesystemUsage(
            timestamp=self._clock.now_ns(),
            fs_id=cri.FilesystemIdentifier(mountpoint=str(self.layout.root)),
            used_bytes=cri.UInt64Value(value=usage.bytes),
            inodes_used=cri.UInt64Value(value=usage.inodes),
        )


class Layers:
    """The layers, by chain id. Not thread-safe: the store has the lock.

    Args:
        layout: the store's paths.
        clock: its ids name the discarded directories and files in the trash.
    """

    def __init__(self, layout: StoreLayout, clock: Clock) -> None:
        self._layout = layout
        self._clock = clock
        self._usage: dict[str, LayerUsage] = {}

    def usage(self, chain: Iterable[str]) -> int:
        """Return the bytes of some layers."""
        return sum(self._of(chain_id).bytes for chain_id in chain)

    def total(self) -> StorageUsage:
        """Return the disk usage of all layers, by their records."""
        found = [self._of(chain_id) for chain_id in self._all()]
        return StorageUsage(sum(each.bytes for each in found), sum(each.inodes for each in found))

    def discard_unneeded(self, images: Iterable[StoredImage], needs: Iterable[Needs], *, is_idle: bool) -> None:
        """Rename layers and blobs that neither an image nor a worker needs into the trash.

        Args:
            images: all images of the index.
            needs: layers and blobs of the workers' images.
            is_idle: whether no worker runs; then the files that ended workers have left go, too.

        Raises:
            OSError: a rename failed; the layers and blobs that were not renamed stay.
        """
        layers: set[str] = set()
        blobs: set[str] = set()
        for image in images:
            layers.update(image.chain)
            blobs.update(image.blobs)
        for need in needs:
            layers.update(need.layers)
            blobs.update(need.blobs)
        self._discard_others(layers)
        for path in self._layout.blobs.glob("*/*"):
            if f"{path.parent.name}:{path.name}" not in blobs:
                self.throw_away(path)
        if is_idle:
            self.drop_unfinished()
            self._drop_old_parts()

    def _discard_others(self, marked: Collection[str]) -> None:
        for chain_id in self._all():
            if chain_id not in marked:
                self.throw_away(self._layout.layer(chain_id))
                self._usage.pop(chain_id, None)

    def throw_away(self, path: Path) -> None:
        """Rename a file or directory into the trash. Raises OSError."""
        path.rename(self._layout.trash / f"{path.name}.{self._clock.new_id()}")

    def drop_unfinished(self) -> None:
        """Discard incomplete layers of an earlier edgecore's workers. Raises OSError."""
        for path in self._layout.layers.iterdir():
            if path.name.startswith(TEMPORARY):
                self.throw_away(path)

    def _drop_old_parts(self) -> None:
        """Discard locks, and old downloads of interrupted pulls."""
        disk = shutil.disk_usage(self._layout.ingest)
        kept = _PARTS_SECONDS if disk.free >= disk.total * _LEAST_FREE else _PARTS_SECONDS_WHEN_FULL
        before = self._clock.now() - kept
        for path in self._layout.ingest.iterdir():
            if path.suffix == ".lock" or path.stat().st_mtime <= before:
                self.throw_away(path)

    def _all(self) -> list[str]:
        names = [path.name for path in self._layout.layers.iterdir()]
        return [_SHA256 + name for name in names if not name.startswith(".")]

    def _of(self, chain_id: str) -> LayerUsage:
        known = self._usage.get(chain_id)
        if known is None:
            try:
                known = decode_json(read_file(self._layout.record(chain_id), _LONGEST_RECORD), LayerUsage)
            except (OSError, msgspec.MsgspecError):
                return LayerUsage(0, 0)
            self._usage[chain_id] = known
        return known
