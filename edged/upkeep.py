"""What keeps the node itself in order, put together: garbage collection, rotation of logs, evictions.

Two actors of the edged module: one for what can wait, and one for evictions, which an image that takes long to remove
must not hold up.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import pykka

from beehive import Actor, Clock
from edged.api import Pod
from edged.cri.contract import ContainerRuntime
from edged.events import EventRecorder
from edged.eviction.evictor import Evictor, Node
from edged.eviction.signals import Pressure
from edged.gc.collector import CONTAINER_PERIOD, IMAGE_PERIOD, ContainerCollector, ImageCollector, collect_images
from edged.gc.housekeeper import Chore, Housekeeper, Now
from edged.logs.rotation import LogRotation
from edged.node.machine import Figures
from edged.pods.paths import PodPaths
from edged.settings import EdgedSettings
from edged.work.files import PodFiles


class Host(Protocol):
    """The module that this belongs to."""

    @property
    def clock(self) -> Clock:
        """Time."""

    def call_soon(self, function: Callable[[], None]) -> None:
        """Call in the module's own turn."""

    def start_actor(self, actor_class: type[Actor], *args: Any, name: str = "", **kwargs: Any) -> pykka.ActorRef[Any]:
        """Start an actor that lives and dies with the module."""


class Upkeep:
    """See the module's docstring. Made by the edged module and used on its thread.

    Args:
        host: the module.
        settings: edged's.
        runtime: the container runtime.
        figures: of the machine.
        pods: those of this node, with their statuses; called on other threads.
        files: of pods.
        recorder: is told what happens to the node.
        evict: ends a pod for good, in the module's turn (`PodKeeper.evict`).
        changed: called in the module's turn when the node has come under pressure, or is no longer.
    """

    def __init__(
        self,
        host: Host,
        settings: EdgedSettings,
        runtime: ContainerRuntime,
        figures: Figures,
        pods: Callable[[], tuple[Pod, ...]],
        *,
        files: PodFiles,
        recorder: EventRecorder,
        evict: Callable[..., None],
        changed: Callable[[], None],
    ) -> None:
        self._host = host
        self._settings = settings
        self._runtime = runtime
        self._figures = figures
        self._pods = pods
        self._recorder = recorder
        self._evict = evict
        self._changed = changed
        self._looks: pykka.ActorRef[Any] | None = None
        self.pressures: frozenset[Pressure] = frozenset()
        """Under which the node is now."""
        gc, clock = settings.gc, host.clock
        self._containers = ContainerCollector(runtime, gc.containers, clock, pods, files)
        self._images = None
        if gc.images is not None:
            self._images = ImageCollector(
                runtime, gc.images, clock, pods, figures=figures, root=settings.root, recorder=recorder
            )

    def start(self) -> None:
        """Begin. The first look at what is left is at once: a pod that comes has to know."""
        self._host.start_actor(Housekeeper, self._chores(), name="edged/housekeeper")
        period = self._settings.eviction.period
        chore = Chore("look at what is left on the node", period, self._evictor().look, first=0.0)
        self._looks = self._host.start_actor(Housekeeper, [chore], name="edged/evictor")

    def look_now(self) -> None:
        """Something has found no room on the disk: look at what is left at once, and not in ten seconds."""
        if self._looks is not None:
            self._looks.tell(Now(self._host.clock.monotonic()))

    def _chores(self) -> list[Chore]:
        images, logs = self._images, self._settings.gc.logs
        chores = [Chore("collect dead containers", CONTAINER_PERIOD, self._containers.collect)]
        if images is not None:
            chores.append(Chore("collect images", IMAGE_PERIOD, partial(collect_images, images, self._recorder)))
        if logs.size > 0:
            paths = PodPaths(self._settings.root, self._settings.pod_logs)
            rotation = LogRotation(self._runtime, logs, self._host.clock, paths, self._pods)
            chores.append(Chore("rotate logs", logs.period, rotation.look))
        return chores

    def _evictor(self) -> Evictor:
        settings = self._settings
        node = Node(
            self._pods,
            lambda uid, message, grace, disruption: self._host.call_soon(
                partial(self._evict, uid, message, grace, disruption=disruption)
            ),
            lambda pressures: self._host.call_soon(partial(self._take, pressures)),
        )
        return Evictor(
            self._runtime,
            self._figures,
            settings.eviction,
            self._host.clock,
            settings.root,
            node,
            containers=self._containers,
            images=self._images,
            recorder=self._recorder,
        )

    def _take(self, pressures: frozenset[Pressure]) -> None:
        self.pressures = pressures
        self._changed()
