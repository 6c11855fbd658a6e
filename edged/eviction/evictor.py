"""The eviction manager (kubelet's managerImpl)."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from beehive import Clock
from edged.events import EventRecorder, EventType, Reason
from edged.eviction.decide import EvictionState, any_met, excess, has_limits, judge, observe
from edged.eviction.measurement import UsageReader
from edged.eviction.rank import ranked
from edged.eviction_api.signals import PRESSURES, RESOURCES, Observations, Pressure, Signal
from edged.eviction_api.thresholds import EvictionSettings, Threshold, sentence
from edged.eviction_api.usage import ContainerUsage, PodUsage
from edged.gc.containers import ContainerCollector
from edged.gc.images import ImageCollector
from edged.pods.critical import is_critical
from edged.pods.effective_grace_period import grace_seconds
from edged.pods.labels import ref_of
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.pods.restart import is_terminal
from modules.apimachinery.attempts import AttemptError
from modules.apimachinery.types import Pod
from modules.apimachinery.types.quantity import format_binary_quantity, parse_quantity

_log = logging.getLogger(__name__)

IMMEDIATE_GRACE_SECONDS: Final = 1
"""Grace period of a pod that is evicted immediately, in seconds (kubelet's immediateEvictionGracePeriodSeconds)."""
POD_CLEANUP_TIMEOUT: Final = 30.0
"""No other pod is evicted for so many seconds after a pod's grace period, unless it has ended (podCleanupTimeout).
"""


class EvictionCallbacks(msgspec.Struct, frozen=True):
    """The pods that the evictor may end, and the receivers of its decisions."""

    pods: Callable[[], tuple[Pod, ...]]
    """Returns this node's pods, with the statuses that edged computed last."""
    evict: Callable[[PodUid, str, int, bool], None]
    """Ends a pod for good, given its uid, a message, its grace period in seconds, and whether the node ends it for its
    own sake (DisruptionTarget). Called on the evictor's thread.
    """
    pressures: Callable[[frozenset[Pressure]], None]
    """Takes the node's conditions when they have changed. Called on the evictor's thread."""


class Collectors(msgspec.Struct, frozen=True):
    """The garbage collectors. `images` is None for a runtime without images."""

    containers: ContainerCollector
    images: ImageCollector | None


class Evictor:
    """The manager that evicts pods when the node runs short of a resource.

    It evicts one pod at a time, and waits until it has ended: that may free enough. Before it evicts a pod, it removes
    dead containers and unused images. Critical pods are never evicted. A housekeeper of its own calls it periodically.

    Args:
        usage: measures the node and its pods.
        settings: thresholds.
        clock: for grace periods.
        paths: of the pods' directories.
        callbacks: list and end pods, and take the node's conditions.
        collectors: remove dead containers and unused images.
        recorder: records events.
    """

    def __init__(
        self,
        usage: UsageReader,
        settings: EvictionSettings,
        clock: Clock,
        paths: PodPaths,
        callbacks: EvictionCallbacks,
        collectors: Collectors,
        recorder: EventRecorder,
    ) -> None:
        self._usage = usage
        self._settings = settings
        self._clock = clock
        self._paths = paths
        self._callbacks = callbacks
        self._collectors = collectors
        self._recorder = recorder
        self._state = EvictionState()
        self._pressures: frozenset[Pressure] = frozenset()
        self._ending: dict[PodUid, float] = {}
        """Evicted or ended pods whose files are still there, with the time (monotonic seconds) until which that is
        waited for.
        """

    def synchronize(self) -> None:
        """Measure the node, set its conditions, and evict a pod if needed.

        Raises:
            MachineError: the node cannot be measured.
            CriError: the runtime does not report the usage of pods, or cannot remove something.
        """
        evicting = self._is_evicting()
        usage = self._usage.node()
        observations = observe(usage)
        decision = judge(self._state, self._settings, observations, self._clock.monotonic())
        self._state = decision.state
        if decision.pressures != self._pressures:
            self._pressures = decision.pressures
            self._callbacks.pressures(decision.pressures)
        if evicting:
            return
        pods = [pod for pod in self._callbacks.pods() if _is_active(pod)]
        apart = usage.image_fs is not None
        if not self._evict_over_limits(pods, image_fs_apart=apart) and decision.due:
            self._relieve(decision.due, observations, pods, image_fs_apart=apart)

    def _is_evicting(self) -> bool:
        """Return whether an evicted pod is still ending, or its files are still there (kubelet's waitForPodsCleanup).
        Another eviction before that would end an innocent pod.
        """
        now = self._clock.monotonic()
        ending: dict[PodUid, float] = {}
        for pod in self._callbacks.pods():
            uid = ref_of(pod).uid
            if not is_terminal(pod):
                ending |= {uid: self._ending[uid]} if uid in self._ending else {}
            elif self._paths.volumes(uid).exists():
                ending[uid] = self._ending.get(uid, now + POD_CLEANUP_TIMEOUT)
        self._ending = ending
        return any(now < until for until in ending.values())

    def _evict_over_limits(self, pods: Sequence[Pod], *, image_fs_apart: bool) -> bool:
        """Evict all pods over their limits of disk. Return whether there was one."""
        limited = [pod for pod in pods if has_limits(pod)]
        if not limited:
            return False
        usages = self._usage.pods()
        found = False
        for pod in limited:
            usage = usages.get(pod.metadata.uid)
            why = excess(pod, usage, image_fs_apart=image_fs_apart) if usage is not None else None
            if why is not None and not is_critical(pod):
                self._evict(pod, why, IMMEDIATE_GRACE_SECONDS, disruption=False)
                found = True
        return found

    def _relieve(
        self, due: tuple[Threshold, ...], observations: Observations, pods: Sequence[Pod], *, image_fs_apart: bool
    ) -> None:
        threshold = due[0]
        resource = RESOURCES[threshold.signal]
        _log.warning("the node is low on %s: %s", resource, sentence(threshold, observations).strip())
        self._recorder.record_node(
            EventType.WARNING, Reason.EVICTION_THRESHOLD_MET, f"Attempting to reclaim {resource}"
        )
        if self._freed_enough(due, image_fs_apart=image_fs_apart):
            return
        candidates = [pod for pod in pods if not is_critical(pod)]
        if not candidates:
            _log.warning("no pod can be evicted for %s", resource)
            return
        usages = self._usage.pods(anew=PRESSURES[threshold.signal] is Pressure.DISK)
        pod = ranked(candidates, usages, threshold.signal, image_fs_apart=image_fs_apart)[0]
        grace = min(self._settings.longest_grace, grace_seconds(pod)) if threshold.grace else IMMEDIATE_GRACE_SECONDS
        message = low_message(threshold, observations, pod, usages.get(pod.metadata.uid))
        self._evict(pod, message, grace, disruption=True)

    def _freed_enough(self, due: tuple[Threshold, ...], *, image_fs_apart: bool) -> bool:
        """Return whether no threshold is met, and the minimum is reclaimed, after removing dead containers and unused
        images.

        When images have a file system of their own, that frees nothing of the node's (buildSignalToNodeReclaimFuncs).
        """
        signal = due[0].signal
        of_node = signal in (Signal.NODE_FS, Signal.NODE_INODES)
        if PRESSURES[signal] is not Pressure.DISK or (of_node and image_fs_apart):
            return False
        removals: list[Callable[[], object]] = [partial(self._collectors.containers.collect, all_unused=True)]
        if self._collectors.images is not None:
            removals.append(self._collectors.images.remove_unused)
        for remove in removals:
            try:
                remove()
            except (AttemptError, OSError) as error:  # images that nobody uses go all the same
                _log.warning("unused containers and images cannot be removed: %s", error)
        return not any_met(due, observe(self._usage.node()))

    def _evict(self, pod: Pod, message: str, grace: int, *, disruption: bool) -> None:
        uid = ref_of(pod).uid
        self._callbacks.evict(uid, message, grace, disruption)
        self._ending[uid] = self._clock.monotonic() + grace + POD_CLEANUP_TIMEOUT


def low_message(threshold: Threshold, observations: Observations, pod: Pod, usage: PodUsage | None) -> str:
    """Return kubelet's message for an evicted pod (evictionMessage)."""
    resource = RESOURCES[threshold.signal]
    message = f"The node was low on resource: {resource}. {sentence(threshold, observations)}"
    requests = {c.name: c.resources.requests.get(resource, "0") for c in pod.spec.all_containers}
    for container in usage.containers if usage is not None else ():
        used, request = _used(container, resource), requests.get(container.name)
        if used is not None and request is not None and used > parse_quantity(request):
            message += (
                f"Container {container.name} was using {format_binary_quantity(used)}, request is {request}, has larger"
                f" consumption of {resource}. "
            )
    return message


def _used(container: ContainerUsage, resource: str) -> int | None:
    if resource == "memory":
        return container.memory
    return container.layer.size + container.logs.size if resource == "ephemeral-storage" else None


def _is_active(pod: Pod) -> bool:
    return not is_terminal(pod) and pod.metadata.deletion_timestamp is None
