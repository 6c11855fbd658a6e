"""Measures emptyDir volumes that have a limit; a pod that exceeds one is evicted."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from beehive import Actor
from edged.api import Pod
from edged.errors import ConfigError
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.volumes.directory_usage import DirectoryCounts, limit_of, over_its_limit
from edged.volumes.plan import EMPTY_DIRECTORY

PERIOD = 10.0
"""Seconds between two measurements (kubelet's evictionMonitoringPeriod)."""


class Measure(NamedTuple):
    """The request to measure the volumes of these pods."""

    pods: tuple[Pod, ...]


class Measured(NamedTuple):
    """The result of a measurement."""

    over: tuple[tuple[PodUid, str], ...]
    """Pods to be evicted, with the reason."""


class EmptyDirMonitor(Actor):
    """Measures the emptyDir volumes of pods with a limit, on a thread of its own.

    It is asked every ten seconds, the period of kubelet's eviction manager; in between a pod may exceed its limit. A
    volume of very many files is counted over several measurements. Volumes in memory are not measured: the kernel
    limits them.

    Args:
        paths: of pods.
        tell: called with each `Measured`; must not block.
    """

    def __init__(self, paths: PodPaths, tell: Callable[[Measured], None]) -> None:
        super().__init__()
        self._paths = paths
        self._tell = tell
        self._counts = DirectoryCounts()

    def on_receive(self, message: object) -> None:
        """Measure the volumes of a `Measure`."""
        if not isinstance(message, Measure):
            return
        self._counts.keep({path for pod in message.pods for path in self._directories(pod).values()})
        reasons = [(PodUid(pod.metadata.uid), self._excess(pod)) for pod in message.pods]
        self._tell(Measured(tuple((uid, reason) for uid, reason in reasons if reason is not None)))

    def _excess(self, pod: Pod) -> str | None:
        sizes = {name: self._counts.measure(path).size for name, path in self._directories(pod).items()}
        return over_its_limit(pod, sizes)

    def _directories(self, pod: Pod) -> dict[str, Path]:
        """Return the paths of the pod's limited volumes; none if a name is invalid: such a volume was never made, and
        the pod's status says so.
        """
        uid = PodUid(pod.metadata.uid)
        try:
            return {name: self._paths.volume(uid, EMPTY_DIRECTORY, name) for name in limited_volumes(pod)}
        except ConfigError:
            return {}


def limited_volumes(pod: Pod) -> list[str]:
    """Return the pod's volumes on disk that have a limit."""
    return [volume.name for volume in pod.spec.volumes if limit_of(volume) > 0]
