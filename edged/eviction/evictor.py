"""Looks at what is left on the node, and ends pods when it is too little: kubelet's eviction manager, its effects.

One pod a round, and no other before it has ended: what it frees may be enough. What can be freed without harm, dead
containers and unused images, is freed before. Critical pods are never ended.

Called by a housekeeper of its own; pods and their statuses are what edged computed last.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from beehive import Clock
from edged.api import Pod
from edged.api.quantity import format_binary_quantity, parse_quantity
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import CriError
from edged.errors import EdgedError
from edged.events import EventRecorder, EventType, Reason
from edged.eviction.consumption import ContainerUsage, PodUsage
from edged.eviction.decide import State, any_met, judge
from edged.eviction.local_storage import excess, has_limits
from edged.eviction.rank import ranked
from edged.eviction.signals import PRESSURES, RESOURCES, Observations, Pressure, Signal, observe
from edged.eviction.thresholds import EvictionSettings, Threshold, sentence
from edged.gc.collector import ContainerCollector, ImageCollector, images_directory
from edged.node.machine import Figures, Usage
from edged.pods.critical import is_critical
from edged.pods.labels import ref_of
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.pods.restart import is_terminal
from edged.pods.termination import grace_seconds

_log = logging.getLogger(__name__)

AT_ONCE: Final = 1
"""Seconds that a pod gets to end when there is no time (kubelet's immediateEvictionGracePeriodSeconds)."""
PATIENCE: Final = 30.0
"""Seconds beyond its grace period after which another pod is ended although one has not (podCleanupTimeout)."""


class Node(NamedTuple):
    """What the evictor acts on."""

    pods: Callable[[], tuple[Pod, ...]]
    """This node's, with their statuses."""
    evict: Callable[[PodUid, str, int, bool], None]
    """Ends one for good: its uid, why, its grace period in seconds, whether it is ended for the node's sake. May be
    called on any thread."""
    pressures: Callable[[frozenset[Pressure]], None]
    """Takes the conditions whenever they have changed; may be called on any thread."""


class Evictor:
    """See the module's docstring.

    Args:
        runtime: says where its images are.
        figures: of the machine and of pods.
        settings: thresholds.
        clock: for grace periods.
        root: the pods' directory.
        node: see there.
        containers: frees what dead containers take.
        images: frees what unused images take; None where there are none.
        recorder: is told what happens.
    """

    def __init__(
        self,
        runtime: ContainerRuntime,
        figures: Figures,
        settings: EvictionSettings,
        clock: Clock,
        root: Path,
        node: Node,
        *,
        containers: ContainerCollector,
        images: ImageCollector | None,
        recorder: EventRecorder,
    ) -> None:
        self._runtime = runtime
        self._figures = figures
        self._settings = settings
        self._clock = clock
        self._root = root
        self._paths = PodPaths(root)
        self._node = node
        self._containers = containers
        self._images = images
        self._recorder = recorder
        self._state = State()
        self._pressures: frozenset[Pressure] = frozenset()
        self._image_directory: Path | None = None
        self._leaving: dict[PodUid, float] = {}
        """Pods that go or have gone and whose room is not free yet, and until when that is waited for."""

    def look(self) -> None:
        """Look, and do what follows.

        Raises:
            MachineError: what is left cannot be read.
            CriError: the runtime does not say what pods use, or cannot remove something.
        """
        waits = self._waits()
        usage = self._usage()
        observations = observe(usage)
        judgement = judge(self._state, self._settings, observations, self._clock.monotonic())
        self._state = judgement.state
        if judgement.pressures != self._pressures:
            self._pressures = judgement.pressures
            self._node.pressures(judgement.pressures)
        if waits:
            return
        pods = [pod for pod in self._node.pods() if _is_active(pod)]
        if not self._end_greedy(pods) and judgement.due:
            self._relieve(judgement.due, observations, pods, image_fs_apart=usage.image_fs is not None)

    def _usage(self) -> Usage:
        """Where images are is asked until it is known; a runtime that is away is no reason not to look."""
        if self._image_directory is None and any(t.signal.startswith("imagefs.") for t in self._settings.thresholds):
            try:
                self._image_directory = images_directory(self._runtime)
            except CriError as error:
                _log.debug("where the images are is not known: %s", error)
        return self._figures.usage(self._root, self._image_directory)

    def _waits(self) -> bool:
        """Whether a pod that was told to end has not ended yet, or what an ended one took is still there (kubelet's
        waitForPodsCleanup): who went on before that would end an innocent one too.
        """
        now = self._clock.monotonic()
        leaving: dict[PodUid, float] = {}
        for pod in self._node.pods():
            uid = ref_of(pod).uid
            if not is_terminal(pod):
                leaving |= {uid: self._leaving[uid]} if uid in self._leaving else {}
            elif self._paths.volumes(uid).exists():
                leaving[uid] = self._leaving.get(uid, now + PATIENCE)
        self._leaving = leaving
        return any(now < until for until in leaving.values())

    def _end_greedy(self, pods: Sequence[Pod]) -> bool:
        """End all that take more of the disk than they may; whether there was one."""
        limited = [pod for pod in pods if has_limits(pod)]
        if not limited:
            return False
        usages = self._usages()
        found = False
        for pod in limited:
            usage = usages.get(pod.metadata.uid)
            why = excess(pod, usage) if usage is not None else None
            if why is not None and not is_critical(pod):
                self._end(pod, why, AT_ONCE, disruption=False)
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
            _log.warning("there is no pod that could be ended for %s", resource)
            return
        usages = self._usages(anew=PRESSURES[threshold.signal] is Pressure.DISK)
        pod = ranked(candidates, usages, threshold.signal, image_fs_apart=image_fs_apart)[0]
        grace = AT_ONCE if threshold.hard else min(self._settings.longest_grace, grace_seconds(pod))
        message = low_message(threshold, observations, pod, usages.get(pod.metadata.uid))
        self._end(pod, message, grace, disruption=True)

    def _freed_enough(self, due: tuple[Threshold, ...], *, image_fs_apart: bool) -> bool:
        """Whether all is well after what nobody needs was removed. With a file system of its own for images, nothing of
        the node's can be freed so (buildSignalToNodeReclaimFuncs).
        """
        signal = due[0].signal
        of_node = signal in (Signal.NODE_FS, Signal.NODE_INODES)
        if PRESSURES[signal] is not Pressure.DISK or (of_node and image_fs_apart):
            return False
        try:
            self._containers.collect(everything=True)
            if self._images is not None:
                self._images.remove_unused()
        except (EdgedError, OSError) as error:
            _log.warning("what nobody needs cannot be removed: %s", error)
        return not any_met(due, observe(self._usage()))

    def _end(self, pod: Pod, message: str, grace: int, *, disruption: bool) -> None:
        uid = ref_of(pod).uid
        self._node.evict(uid, message, grace, disruption)
        self._leaving[uid] = self._clock.monotonic() + grace + PATIENCE

    def _usages(self, *, anew: bool = False) -> dict[str, PodUsage]:
        """By uid. What filled the disk may have been written since files were last counted: `anew` counts them now."""
        return {usage.uid: usage for usage in self._figures.pods(self._runtime, anew=anew)}


def low_message(threshold: Threshold, observations: Observations, pod: Pod, usage: PodUsage | None) -> str:
    """Why this pod is ended, in a kubelet's words (evictionMessage)."""
    resource = RESOURCES[threshold.signal]
    message = f"The node was low on resource: {resource}. {sentence(threshold, observations)}"
    requests = {c.name: c.resources.requests.get(resource, "0") for c in pod.spec.all_containers}
    for container in usage.containers if usage is not None else ():
        used, asked = _used(container, resource), requests.get(container.name)
        if used is not None and asked is not None and used > parse_quantity(asked):
            message += (
                f"Container {container.name} was using {format_binary_quantity(used)}, request is {asked}, has larger"
                f" consumption of {resource}. "
            )
    return message


def _used(container: ContainerUsage, resource: str) -> int | None:
    if resource == "memory":
        return container.memory
    return container.layer.size + container.logs.size if resource == "ephemeral-storage" else None


def _is_active(pod: Pod) -> bool:
    return not is_terminal(pod) and pod.metadata.deletion_timestamp is None
