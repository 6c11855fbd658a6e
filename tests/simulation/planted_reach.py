"""Bugs that only scenes, probes, garbage collection and bounds on latency find."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

from edged.cri.contract import ContainerId
from edged.eviction.evictor import Evictor
from edged.gc import containers
from edged.pleg.hints import Hints
from edged.pods import init_containers
from edged.pods.model import PodFacts, PodUid
from edged.probes import manager
from edgehub import in_flight
from edgehub.in_flight import InFlight
from edgehub.outbox.manager import OutboxManager
from modules.apimachinery.types import ContainerStatus, Nanoseconds, Pod
from protos.cri.v1 import api_pb2 as cri
from tests.simulation.planted import Plant


@contextmanager
def a_container_of_an_older_sandbox_proves_the_initialization() -> Iterator[None]:
    """The new sandbox's init containers are left out."""

    def started(pod: Pod, facts: PodFacts) -> bool:
        present = (facts.newest(container.name) for container in pod.spec.containers)
        return any(one is not None and one.state in init_containers._STARTED for one in present)

    with patch.object(init_containers, "_regular_container_started", started):
        yield


@contextmanager
def a_new_instance_inherits_the_readiness_of_the_one_before() -> Iterator[None]:
    """The reported status is found by the container's name."""

    def reported(pod: Pod, _identity: ContainerId) -> ContainerStatus | None:
        return next(iter(pod.status.container_statuses), None)

    with patch.object(manager, "_reported", reported):
        yield


@contextmanager
def the_newest_attempt_is_collected() -> Iterator[None]:
    """The collector keeps no ended container of an active pod."""
    units = containers._units

    def none_needed(
        found: Iterable[cri.Container], pods: Mapping[PodUid, bool], before: Nanoseconds
    ) -> tuple[containers.Units, set[str]]:
        return units(found, pods, before)[0], set()

    def beyond(units: containers.Units, _kept: int, needed: set[str]) -> list[cri.Container]:
        return [container for dead in units.values() for container in dead if container.id not in needed]

    with patch.object(containers, "_units", none_needed), patch.object(containers, "_beyond", beyond):
        yield


@contextmanager
def an_acknowledgement_goes_by_the_newest_message() -> Iterator[None]:
    """A message that came while the outbox was written counts as stored when that write has ended."""

    def report(self: OutboxManager) -> None:
        written = [then for serial, then in self._when_written if serial <= self._ledger.last]
        self._when_written = [one for one in self._when_written if one[0] > self._ledger.last]
        for then in written:
            then()

    with patch.object(OutboxManager, "_report_written", report):
        yield


@contextmanager
def events_of_the_runtime_wake_nobody() -> Iterator[None]:
    """A hint is noted, and looked at when the runtime is listed."""
    add = Hints.add_event

    def add_event(self: Hints, event: cri.ContainerEventResponse, now: float) -> bool:
        add(self, event, now)
        return False

    with patch.object(Hints, "add_event", add_event):
        yield


@contextmanager
def answered_messages_stay_in_flight() -> Iterator[None]:
    """What counts the messages from the cloud that are being handled forgets none."""
    with patch.object(InFlight, "leave", lambda *_: None), patch.object(in_flight, "FORGET_AFTER", math.inf):
        yield


@contextmanager
def all_pods_are_evicted_at_once() -> Iterator[None]:
    """The first one might have freed enough."""
    evict = Evictor._evict

    def evict_all(self: Evictor, _pod: Pod, message: str, grace: int, *, disruption: bool) -> None:
        for pod in self._callbacks.pods():
            evict(self, pod, message, grace, disruption=disruption)

    with patch.object(Evictor, "_evict", evict_all):
        yield


REACH: tuple[Plant, ...] = (
    a_container_of_an_older_sandbox_proves_the_initialization,
    a_new_instance_inherits_the_readiness_of_the_one_before,
    the_newest_attempt_is_collected,
    an_acknowledgement_goes_by_the_newest_message,
    events_of_the_runtime_wake_nobody,
    answered_messages_stay_in_flight,
    all_pods_are_evicted_at_once,
)
