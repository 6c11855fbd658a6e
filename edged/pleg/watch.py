"""The PLEG and the listener to the runtime's events, as the edged module uses them."""

import logging
from collections.abc import Callable

from beehive import Module
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import CriError, UnavailableError
from edged.pleg.hints import Hints
from edged.pleg.listener import Listener
from edged.pleg.messages import PlegEvent, PodInspection, Relisted, RelistFailed, RelistSoon, WorkerInspection
from edged.pleg.pace import RelistPace
from edged.pleg.pleg import Pleg
from edged.pleg.reader import RuntimeReader
from edged.pleg.recording import pod_changed, pod_synced
from edged.pods.model import PodUid
from edged.settings import EdgedSettings
from edged.sync_events import SyncEvents

_log = logging.getLogger(__name__)


class RuntimeWatch:
    """The watch of the runtime by the PLEG and the listener, which it starts. It records their observations, and logs
    once that the runtime cannot be reached.

    Args:
        module: edged.
        settings: edged's.
        is_ending: whether a pod is being ended; called on any thread.
    """

    def __init__(self, module: Module, settings: EdgedSettings, is_ending: Callable[[PodUid], bool]) -> None:
        self._module = module
        self._settings = settings
        self._hints = Hints(settings.relist_period, is_ending)
        self._problem: type[CriError] | None = None
        """Why the last relist failed."""

    def start(self, client: ContainerRuntime, reader: RuntimeReader, events: SyncEvents[PlegEvent]) -> None:
        """Start both actors. `events` takes the events of the PLEG."""
        pace = RelistPace(self._settings.relist_period, self._settings.relist_period_with_events)
        self._pleg = pleg = self._module.start_actor(Pleg, reader, events, pace, self._hints)
        if self._settings.relist_period_with_events:
            self._module.start_actor(Listener, client, self._hints, pleg)

    def relist_soon(self) -> None:
        """Request a relist."""
        self._pleg.tell(RelistSoon())

    def add_sync(self, uid: PodUid) -> None:
        """Note that a worker begins to sync a pod."""
        self._hints.add_sync(uid, self._module.clock.monotonic())

    def add_inspection(self, observed: WorkerInspection) -> None:
        """Add a worker's inspection of a pod."""
        self._hints.add_inspection(observed)
        hive = self._module.hive
        if hive.watchers:
            hive.notify_watchers(pod_synced(observed.facts, self._module.clock.monotonic(), hive.next_span))

    def observe(self, event: PlegEvent) -> None:
        """Note an event of the PLEG before it is handled."""
        match event:
            case RelistFailed(error):
                self._log_problem(error)
            case PodInspection():
                self._record(event)
            case Relisted(changed):
                self._log_problem(None)
                for inspection in changed:
                    self._record(inspection)

    def _log_problem(self, error: CriError | None) -> None:
        """Log that the runtime has gone and come back, once for all pods and retries: other parts that it does not
        answer leave it to this.
        """
        problem = type(error) if error is not None else None
        if problem is self._problem:
            return
        self._problem = problem
        if problem is None:
            _log.info("the container runtime answers again")
        elif issubclass(problem, UnavailableError):
            _log.warning("the container runtime does not answer, pods wait until it does: %s", error)
        else:
            _log.warning("the container runtime cannot list its pods: %s", error)

    def _record(self, inspection: PodInspection) -> None:
        hive = self._module.hive
        if hive.watchers:
            hive.notify_watchers(pod_changed(inspection, self._module.clock.monotonic(), hive.next_span))
