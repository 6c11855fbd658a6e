"""Cloudcores that keep their Leases at one API server, in virtual time."""

from collections.abc import Callable

from beehive.clock import Timer
from beehive.simulation import VirtualClock
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.cloud.apiserver import api_calls
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.coordination.lease_keeper import LeaseKeeper
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.storage.object_storage import EventType

LEASE = kind_named("Lease")
LOST = ApiResult(refusal={"code": 503, "message": "no answer"})
FORBIDDEN = ApiResult(refusal={"code": 403, "message": "leases is forbidden"})


class Cloud:
    """One of them (`LeaseThread`)."""

    def __init__(self, clouds: "Clouds", name: str, settings: LeaseSettings) -> None:
        self.clock = clouds.clock
        self.name = name
        self.is_away = False
        """Whether no request reaches the API server, and no news come back."""
        self.is_dead = False
        self.loses_answers = False
        self.held: list[Callable[[], None]] | None = None
        """Requests that have not reached the API server yet; None while they reach it at once."""
        self.is_refused = False
        """Whether the right is missing."""
        self.requests: list[str] = []
        self.changes = 0
        self.restores = 0
        self._clouds = clouds
        self.known = KnownCloudcores(name)
        self.keeper = LeaseKeeper(settings, name, self, self._perform, self._changed, self._went_back, self.known)

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """As a module's, until the process dies."""
        return self.clock.after(seconds, lambda: None if self.is_dead else function())

    def _perform(self, call: ApiCall, answered: Callable[[ApiResult], None]) -> None:
        self.requests.append(call.verb)
        if self.held is not None:
            self.held.append(lambda: self._send(call, answered))
        else:
            self._send(call, answered)

    def _send(self, call: ApiCall, answered: Callable[[ApiResult], None]) -> None:
        if self.is_refused:
            answered(FORBIDDEN)
            return
        result = LOST if self.is_away else self._clouds.serve(call)
        answered(LOST if self.loses_answers else result)

    def _changed(self) -> None:
        self.changes += 1

    def _went_back(self) -> None:
        self.restores += 1


class Clouds:
    """The API server, and all of them."""

    def __init__(self) -> None:
        self.clock = VirtualClock(1)
        self.cluster = Cluster(self.clock)
        self._running: list[Cloud] = []
        self.all: list[Cloud] = []

    def start(self, name: str, settings: LeaseSettings | None = None, *, is_refused: bool = False) -> Cloud:
        """Starts one, which lists the Leases that there are."""
        made = Cloud(self, name, settings or LeaseSettings())
        made.is_refused = is_refused
        for lease in self.leases():
            made.keeper.observe(lease["metadata"]["name"], lease)
        made.keeper.synced()
        self.all.append(made)
        self._running.append(made)
        made.keeper.start()
        return made

    def kill(self, cloud: Cloud) -> None:
        """SIGKILL."""
        cloud.is_dead = True
        self._running.remove(cloud)

    def leases(self) -> list[JsonObject]:
        """All Leases."""
        return self.cluster.storage.list(LEASE)

    def run_for(self, seconds: float) -> None:
        """Lets time pass."""
        until = self.clock.monotonic() + seconds
        while self.clock.fire_next(until):
            pass

    def serve(self, call: ApiCall) -> ApiResult:
        """Carries out a call, and passes it to watchers."""
        result = api_calls.serve(self.cluster, call)
        for event in self.cluster.storage.drain_events():
            for each in self._running:
                if each.is_away:
                    continue
                if event.type is EventType.DELETED:
                    each.keeper.gone(event.key.name)
                else:
                    each.keeper.observe(event.key.name, event.new)
        return result
