"""The pods of the store at the start of edged, and the recovery of pods that a lost store does not have."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from beehive import Clock, Module, ResourceType
from edged.devices.manager import DeviceManager
from edged.pod_workers.pod_directories import PodDirectories
from edged.pods.decode import belongs_to, read_cloud_pod
from edged.pods.model import PodRef, PodUid
from edged.static_pods.manager import StaticPodManager
from edged.sync.events import PodReleased, PodsListed
from edged.sync.orphans import Orphans
from edged.sync_events import SyncEvents
from metamanager.client import AsyncMetaClient, CallError, is_gone
from modules.apimachinery.types import Pod

_log = logging.getLogger(__name__)

FILES_WAIT: Final = 600.0
"""Seconds that files without running containers stay when the store was new: the cloud may still send their pod.
It cannot be requested, for a directory has the uid of its pod and not its name."""
_AGAIN: Final = 1.0

FIRST_DELAY: Final = 10.0
"""Seconds until a pod is requested again after a request without an answer; doubles."""
LONGEST_DELAY: Final = 300.0


class LocalPods(msgspec.Struct, frozen=True):
    """The pods that belong to this node, and the ended pods that still have files or devices on it."""

    node_name: str
    static_pods: StaticPodManager
    directories: PodDirectories
    devices: DeviceManager

    def is_mine(self, pod: Pod) -> bool:
        """Return whether this node runs a pod of the store or the cloud. It does not run mirror pods."""
        return belongs_to(pod, self.node_name) and not self.static_pods.is_mirror(pod)

    def with_files(self) -> set[PodUid]:
        """Return the pods that have files or devices on this node."""
        return {*self.directories.pods(), *self.devices.pods()}


class PodStore:
    """The store's pods, listed when edged starts; once every source has sent its pods, orphans may be removed.

    A store that is complete is believed: a pod that it does not know is an orphan. A store that is not is new, because
    the node is, or because its database was lost: the cloud is asked about each pod that runs here (`PodRecovery`).
    Once everything that runs is accounted for, a note in the store records that, and the next start relies on it.

    Lives on the edged module's thread.

    Args:
        module: edged; it is ready when the store is listed.
        meta: asks the store.
        events: take the pods.
        orphans: looked for once all pods are known.
        local_pods: which pods belong to this node.
    """

    def __init__(
        self,
        module: Module,
        meta: AsyncMetaClient,
        events: SyncEvents[PodsListed | PodReleased],
        orphans: Orphans,
        local_pods: LocalPods,
    ) -> None:
        self._module = module
        self._meta = meta
        self._events = events
        self._orphans = orphans
        self._local_pods = local_pods
        self._recovery: PodRecovery | None = None
        self._sources_ready = False
        self.listed = False
        """Whether the store has listed its pods."""

    @property
    def recovers(self) -> bool:
        """Whether the cloud is being asked about pods that run here; each relist of the runtime continues that."""
        return self._recovery is not None

    def list_pods(self) -> None:
        """Ask the store for its pods, until it answers."""
        self._meta.store_is_complete(then=self._on_completeness)

    def connected(self) -> None:
        """Ask the cloud again, now that it is connected."""
        if self._recovery is not None:
            self._recovery.connected()

    def sources_ready(self) -> None:
        """Look for orphans from now on: all sources have sent their pods."""
        self._sources_ready = True
        if self._recovery is None:
            self._orphans.start(self._local_pods.with_files())
        else:
            self._orphans.start((), is_disowned=self._recovery.is_disowned)

    def handle_relist(self) -> None:
        """End the recovery when the last relist has shown nothing that is not accounted for."""
        if self._sources_ready and self._recovery is not None and self._recovery.settled():
            self._recovery = None
            self._orphans.start(())
            self._module.after(FILES_WAIT, lambda: self._orphans.start(self._local_pods.with_files()))
            self._meta.record_complete(then=_log_incomplete)

    def _on_completeness(self, answer: bool | CallError) -> None:
        if isinstance(answer, CallError):
            self._ask_again(answer)
            return
        self._recovery = None if answer else PodRecovery(self._meta, self._module.clock, self)
        self._meta.list_all(ResourceType.POD, then=self._on_pods)

    def _on_pods(self, answer: list[bytes] | CallError) -> None:
        if isinstance(answer, CallError):
            self._ask_again(answer)
            return
        pods = [pod for raw in answer if (pod := read_cloud_pod(raw, "from the store")) is not None]
        self.listed = True
        self._events.handle(PodsListed(tuple(filter(self._local_pods.is_mine, pods))))
        self._module.announce_ready()

    def _ask_again(self, error: CallError) -> None:
        _log.warning("the pods of this node cannot be read from the store: %s", error)
        self._module.after(_AGAIN, self.list_pods)

    def adopt(self, uid: PodUid, raw: bytes) -> bool:
        """Take a pod of the cloud as JSON; return False if it is another pod, or not of this node."""
        pod = read_cloud_pod(raw, "from the cloud")
        if pod is None or pod.metadata.uid != uid or not self._local_pods.is_mine(pod):
            return False
        self._events.handle(PodReleased(pod))
        return True


def _log_incomplete(error: CallError | None) -> None:
    if error is not None:
        _log.warning("the store could not note that it is complete; the next start asks the cloud again: %s", error)


class _Request(msgspec.Struct):
    next_at: float = 0.0
    """Monotonic seconds."""
    delay: float = FIRST_DELAY
    busy: bool = False
    disowned: bool = False


class PodRecovery:
    """The take-over of running pods that the store does not know, because its database was lost.

    They are healthy pods, and KubeEdge's cloud does not send acknowledged pods again: as orphans they would be ended,
    or ended only to be started again. So each is requested from the cloud: a pod that the cloud has is taken over as it
    runs, and only a pod that the cloud does not know is an orphan. Without a connection all are left alone. Lives on
    the edged module's thread, from the start with such a store until every pod is accounted for.

    Args:
        meta: requests pods from the cloud.
        clock: the monotonic time.
        store: takes the pods of the cloud.
    """

    def __init__(self, meta: AsyncMetaClient, clock: Clock, store: PodStore) -> None:
        self._meta = meta
        self._clock = clock
        self._store = store
        self._requests: dict[PodUid, _Request] = {}
        self._doubtful = 0

    def is_disowned(self, ref: PodRef) -> bool:
        """Return whether the cloud has disowned a pod; request it if that is not known and no retry delay lasts."""
        request = self._requests.get(ref.uid)
        if request is None:
            request = self._requests[ref.uid] = _Request()
            _log.warning("pod %s runs here and is not in the store, which is new: the cloud is asked for it", ref)
        if not request.disowned:
            self._doubtful += 1
            if not request.busy and self._clock.monotonic() >= request.next_at:
                self._request(ref, request)
        return request.disowned

    def connected(self) -> None:
        """Request the pods again at the next relist: the cloud is connected."""
        for request in self._requests.values():
            request.next_at, request.delay = 0.0, FIRST_DELAY

    def settled(self) -> bool:
        """Return whether no pod was in doubt since the last call; called at the end of each relist."""
        doubtful, self._doubtful = self._doubtful, 0
        return not doubtful

    def _request(self, ref: PodRef, request: _Request) -> None:
        request.busy = True

        def answered(answer: bytes | CallError) -> None:
            request.busy = False
            if isinstance(answer, CallError) and is_gone(answer):
                request.disowned = True
            elif isinstance(answer, CallError):
                request.next_at = self._clock.monotonic() + request.delay
                request.delay = min(LONGEST_DELAY, request.delay * 2)
                _log.debug("whether the cloud wants pod %s is not known: %s", ref, answer)
            else:
                request.disowned = not self._store.adopt(ref.uid, answer)
                _log.info("pod %s: %s", ref, "the cloud has another" if request.disowned else "taken over as it runs")

        self._meta.pod(ref.namespace, ref.name, ref.uid, then=answered)
