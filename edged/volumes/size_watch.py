"""Measures emptyDir volumes that have a limit, beside everything else: a pod that has filled one is to go.

Only pods that ask for a limit are measured, every ten seconds, as a kubelet's eviction manager does it: in between a
pod may take more. A volume of very many files is counted over several looks. Memory needs no measuring, for the kernel
keeps its bound.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from beehive import Actor
from edged.api import Pod
from edged.pods.errors import ConfigError
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.volumes.plan import EMPTY_DIRECTORY
from edged.volumes.usage import Counts, limit_of, over_its_limit

PERIOD = 10.0
"""Seconds between two looks (kubelet's evictionMonitoringPeriod)."""


class Measure(NamedTuple):
    """Measure the volumes of these pods."""

    pods: tuple[Pod, ...]


class Measured(NamedTuple):
    """All have been measured."""

    over: tuple[tuple[PodUid, str], ...]
    """Pods that have to go, and why."""


class SizeWatch(Actor):
    """See the module's docstring. `tell` takes each `Measured`; must not block."""

    def __init__(self, paths: PodPaths, tell: Callable[[Measured], None]) -> None:
        super().__init__()
        self._paths = paths
        self._tell = tell
        self._counts = Counts()

    def on_receive(self, message: object) -> None:
        """Measure."""
        if not isinstance(message, Measure):
            return
        self._counts.keep({path for pod in message.pods for path in self._directories(pod).values()})
        reasons = [(PodUid(pod.metadata.uid), self._excess(pod)) for pod in message.pods]
        self._tell(Measured(tuple((uid, reason) for uid, reason in reasons if reason is not None)))

    def _excess(self, pod: Pod) -> str | None:
        sizes = {name: self._counts.look(path).size for name, path in self._directories(pod).items()}
        return over_its_limit(pod, sizes)

    def _directories(self, pod: Pod) -> dict[str, Path]:
        """A volume whose name is none was never made; the pod's status says so."""
        uid = PodUid(pod.metadata.uid)
        try:
            return {name: self._paths.volume(uid, EMPTY_DIRECTORY, name) for name in limited_volumes(pod)}
        except ConfigError:
            return {}


def limited_volumes(pod: Pod) -> list[str]:
    """The pod's volumes on disk that have a limit."""
    return [volume.name for volume in pod.spec.volumes if limit_of(volume) > 0]
