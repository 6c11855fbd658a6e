"""Housekeeping: garbage collection, rotation of logs, evictions."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import pykka
from msgspec import Struct

from beehive import Actor, ModuleContext
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import UnavailableError
from edged.events import EventRecorder
from edged.eviction.evictor import Collectors, EvictionCallbacks, Evictor
from edged.eviction.measurement import UsageReader
from edged.gc.containers import CONTAINER_PERIOD, ContainerCollector
from edged.gc.images import IMAGE_PERIOD, ImageCollector, collect_images
from edged.logs.rotation import LogRotation
from edged.node.machine import MachineInfo
from edged.node.reporter import NodeReporter
from edged.pod_workers.pod_directories import PodDirectories
from edged.pods.kill_options import KillPod, eviction
from edged.pods.paths import PodPaths
from edged.settings import EdgedSettings
from edged.sync_events import SyncEvents
from modules.apimachinery.attempts import AttemptError
from modules.apimachinery.types import Pod

_log = logging.getLogger(__name__)

HOUSEKEEPER: Final = "edged/housekeeper"
"""Name of the actor that collects garbage and rotates logs."""
PRESSURES: Final = "pressures"
"""Name of the turn in which edged takes the pressures on the node."""


class Chore(msgspec.Struct, frozen=True):
    """A periodic task."""

    name: str
    """For the log, after "cannot"."""
    period: float
    """Seconds between the end of one run and the start of the next."""
    run: Callable[[], None]
    first: float | None = None
    """Seconds until the first run; the period, unless given."""


class Now(msgspec.Struct, frozen=True):
    """Run all chores now, in addition to their periods. Several waiting requests count as one."""

    since: float
    """When it was requested, in monotonic seconds."""


class Housekeeper(Actor):
    """The actor that runs chores periodically, one after the other on its thread: none is urgent, and together they
    load the machine less.

    A chore that fails runs again after its period; a problem is logged once, until another one occurs.

        Housekeeper([Chore("collect dead containers", 60.0, collector.collect)])
    """

    def __init__(self, chores: Sequence[Chore]) -> None:
        super().__init__()
        self._chores = tuple(chores)
        self._last_start = float("-inf")
        """When the last chore was started, in monotonic seconds."""
        self._problems: dict[str, str] = {}

    def on_start(self) -> None:
        """Schedule all chores."""
        for chore in self._chores:
            self._schedule(chore, chore.period if chore.first is None else chore.first)

    def on_receive(self, message: object) -> None:
        """Run a chore, or all of them."""
        if isinstance(message, Chore):
            self._run(message)
            self._schedule(message, message.period)
        elif isinstance(message, Now) and message.since > self._last_start:
            for chore in self._chores:
                self._run(chore)

    def _schedule(self, chore: Chore, seconds: float) -> None:
        self.clock.after(seconds, lambda: None if self.actor_stopped.is_set() else self.actor_ref.tell(chore))

    def _run(self, chore: Chore) -> None:
        self._last_start = self.clock.monotonic()
        try:
            chore.run()
        except (AttemptError, OSError) as error:
            problem = str(error)
            if self._problems.get(chore.name) != problem and not isinstance(error, UnavailableError):
                _log.warning("cannot %s; trying again: %s", chore.name, problem)
            self._problems[chore.name] = problem
        except Exception:  # noqa: BLE001 - no pod depends on it
            _log.exception("cannot %s: an unexpected error", chore.name)
        else:
            self._problems.pop(chore.name, None)


class NodeUsage(Struct, frozen=True):
    """Sources of usage and garbage."""

    runtime: ContainerRuntime
    machine_info: MachineInfo
    pods: Callable[[], tuple[Pod, ...]]
    """Returns the pods of this node with their statuses; called on any thread."""


class Housekeeping:
    """Garbage collection, rotation of logs and evictions.

    It has two actors: one for evictions, and one for everything else, so that the removal of a large image does not
    delay an eviction.
    Lives on the edged module's thread.

    Args:
        context: the module.
        settings: edged's.
        usage: sources of usage and garbage.
        directories: logs and files of pods.
        recorder: records events of the node.
        kills: take requests to end pods.
        reporter: reports pressures on the node.
    """

    def __init__(
        self,
        context: ModuleContext,
        settings: EdgedSettings,
        usage: NodeUsage,
        directories: PodDirectories,
        recorder: EventRecorder,
        kills: SyncEvents[KillPod],
        reporter: NodeReporter,
    ) -> None:
        self._context = context
        self._settings = settings
        self._runtime = usage.runtime
        self._machine_info = usage.machine_info
        self._pods = usage.pods
        self._recorder = recorder
        self._kills = kills
        self._reporter = reporter
        self._eviction: pykka.ActorRef[Any] | None = None
        gc, clock = settings.gc, context.clock
        self._containers = ContainerCollector(usage.runtime, gc.containers, clock, usage.pods, directories)
        self._images = None
        if gc.images is not None:
            self._images = ImageCollector(
                usage.runtime,
                gc.images,
                clock,
                usage.pods,
                machine_info=usage.machine_info,
                root=settings.root,
                recorder=recorder,
            )

    def start(self) -> None:
        """Start the actors. Usage is measured immediately: the first pod is admitted by it."""
        self._context.start_actor(Housekeeper, self._chores(), name=HOUSEKEEPER)
        period = self._settings.eviction.period
        chore = Chore("look at what is left on the node", period, self._evictor().synchronize, first=0.0)
        self._eviction = self._context.start_actor(Housekeeper, [chore], name="edged/evictor")

    def check_now(self) -> None:
        """Measure usage now, and not in ten seconds: the disk was found full."""
        if self._eviction is not None:
            self._eviction.tell(Now(self._context.clock.monotonic()))

    def _chores(self) -> list[Chore]:
        images, logs = self._images, self._settings.gc.logs
        chores = [Chore("collect dead containers", CONTAINER_PERIOD, self._containers.collect)]
        if images is not None:
            chores.append(Chore("collect images", IMAGE_PERIOD, partial(collect_images, images, self._recorder)))
        if logs.size > 0:
            paths = PodPaths(self._settings.root, self._settings.pod_logs)
            rotation = LogRotation(self._runtime, logs, self._context.clock, paths, self._pods)
            chores.append(Chore("rotate logs", logs.period, rotation.rotate_logs))
        return chores

    def _evictor(self) -> Evictor:
        settings = self._settings
        call_soon, kills, reporter = self._context.call_soon, self._kills, self._reporter
        callbacks = EvictionCallbacks(
            self._pods,
            lambda uid, message, grace_period, disruption: kills.post(
                eviction(uid, message, grace_period, disruption=disruption)
            ),
            lambda pressures: call_soon(partial(reporter.set_pressures, pressures), PRESSURES),
        )
        with_images = any(threshold.signal.startswith("imagefs.") for threshold in settings.eviction.thresholds)
        usage = UsageReader(self._runtime, self._machine_info, settings.root, with_images=with_images)
        return Evictor(
            usage,
            settings.eviction,
            self._context.clock,
            PodPaths(settings.root),
            callbacks,
            Collectors(self._containers, self._images),
            self._recorder,
        )
