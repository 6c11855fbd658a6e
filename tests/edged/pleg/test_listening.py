"""The PLEG with a runtime that sends events: it sees ends immediately, and does not depend on events."""

import logging
from collections.abc import Callable, Iterator
from typing import NoReturn

import grpc
import pytest

from edged.cri.contract import ContainerId
from edged.cri.errors import UnavailableError
from edged.pleg.hints import MIN_INTERVAL
from edged.pleg.listener import FIRST_WAIT, LONGEST_WAIT
from edged.pleg.messages import HintAdded, RelistSoon, WorkerInspection
from edged.pleg.pace import DISTRUST, SILENT
from edged.pleg.pleg import MAX_INSPECTIONS
from edged.pods import labels
from protos.cri.v1 import api_pb2 as pb
from tests.edged.pleg.watch import OWNER, Watch, ref

AWAY = UnavailableError("Status", "", grpc.StatusCode.UNAVAILABLE, "gone")


@pytest.fixture
def watch() -> Iterator[Watch]:
    """A PLEG that has heard and listed, and will list again in ten seconds."""
    watch = Watch()
    watch.listen()
    yield watch
    watch.stop()


def calm(watch: Watch, *pods: str) -> None:
    """Make pods; let the PLEG see what there is and come to rest, just after a relist."""
    for each in pods:
        watch.pod(each)
    watch.simulation.run_for(2)
    relists = watch.runtime.calls["list_containers"]
    while watch.runtime.calls["list_containers"] == relists:
        watch.simulation.run_for(0.1)


def ended(name: str) -> pb.ContainerEventResponse:
    """The event of the end of a pod's container."""
    event = pb.ContainerEventResponse(container_event_type=pb.CONTAINER_STOPPED_EVENT)
    marks = {labels.POD_UID: f"uid-{name}", labels.POD_NAMESPACE: "default", labels.POD_NAME: name}
    event.pod_sandbox_status.labels.update(marks)
    return event


def test_an_end_is_reported_without_a_relist_and_without_waiting(watch: Watch) -> None:
    calm(watch, "a")
    relists = watch.runtime.calls["list_containers"]
    watch.runtime.end("main", 3)
    assert watch.looked(0.0) == ["a"]
    assert watch.runtime.calls["list_containers"] == relists + 1  # the pod's own list
    assert watch.looked(5) == []


def test_a_start_is_inspected_by_the_worker_that_made_it(watch: Watch) -> None:
    calm(watch)
    watch.pod("a")
    watch.simulation.run_for(0.1)
    at = watch.simulation.clock.monotonic()
    watch.hints.add_inspection(WorkerInspection(watch.reader.read_pod(ref("a")), OWNER, at))
    calls = watch.runtime.calls.total()
    assert watch.looked(5) == []
    assert watch.runtime.calls.total() == calls


def test_a_start_that_no_worker_inspects_is_inspected_after_a_period(watch: Watch) -> None:
    calm(watch)
    watch.pod("a")
    assert watch.looked(0.9) == []
    assert watch.looked(0.2) == ["a"]


def test_the_next_start_that_no_worker_inspects_is_inspected_after_a_period_too(watch: Watch) -> None:
    calm(watch)
    for name in ("a", "b"):
        watch.pod(name)
        assert watch.looked(1.1) == [name]


def test_a_relist_that_failed_is_repeated_after_the_short_period(watch: Watch) -> None:
    """What its stream of events has missed is in the lists only."""
    calm(watch)
    watch.runtime.fail("list_pod_sandboxes", AWAY, times=1)
    watch.look(10.5)
    assert watch.failures() == 1
    watch.look(1)
    assert len(watch.events) == 1


def test_pods_that_a_relist_could_not_read_are_read_after_the_short_period(watch: Watch) -> None:
    """Although events have announced their ends: those are used up."""
    names = [f"p{number}" for number in range(MAX_INSPECTIONS + 1)]
    calm(watch, *names)
    watch.runtime.fail("container_status", AWAY, times=1)
    watch.runtime.end("main", 1)
    assert watch.look(0.5) == []
    assert watch.failures() == 1
    assert watch.look(1) == names


def test_many_simultaneous_ends_cost_two_lists(watch: Watch) -> None:
    names = [f"p{number}" for number in range(MAX_INSPECTIONS + 10)]
    calm(watch, *names)
    lists, statuses = watch.runtime.calls["list_containers"], watch.runtime.calls["container_status"]
    watch.runtime.end("main", 1)
    assert sorted(watch.look(0.2)) + watch.looked(0.0) == sorted(names)
    assert watch.runtime.calls["list_containers"] - lists <= 3  # the first end alone, then all
    assert watch.runtime.calls["container_status"] - statuses == len(names)


def test_a_storm_of_events_is_a_bounded_number_of_looks(watch: Watch) -> None:
    _, container = watch.pod("a")
    calm(watch)
    lists = watch.runtime.calls["list_containers"]
    for _ in range(500):
        watch.runtime._announce(pb.CONTAINER_STOPPED_EVENT, container, watch.runtime.sandbox_of[container])
        watch.simulation.run_for(0.001)
    assert 2 <= watch.runtime.calls["list_containers"] - lists <= 0.5 / MIN_INTERVAL + 2


def test_beside_events_it_relists_seldom_and_immediately_often_when_they_break(watch: Watch) -> None:
    calm(watch)
    lists = watch.runtime.calls["list_containers"]
    watch.look(29)
    assert watch.runtime.calls["list_containers"] - lists == 2
    watch.runtime.serves_events = False
    watch.runtime.cut_events()
    lists = watch.runtime.calls["list_containers"]
    watch.look(5)
    assert watch.runtime.calls["list_containers"] - lists >= 4


def test_a_requested_relist_comes_within_a_period(watch: Watch) -> None:
    calm(watch)
    watch.look(2)
    lists = watch.runtime.calls["list_containers"]
    watch.pleg.ref.tell(RelistSoon())
    watch.pleg.ref.tell(RelistSoon())
    watch.look(2)
    assert watch.runtime.calls["list_containers"] == lists + 1


def test_a_relist_that_became_due_during_an_inspection_that_failed_comes_once(watch: Watch) -> None:
    calm(watch, "a")
    watch.simulation.run_for(9.8)
    watch.runtime.latency = 0.2
    lists = watch.runtime.calls["list_pod_sandboxes"]
    watch.runtime.fail("list_containers", AWAY, times=1)
    watch.runtime.end("main", 1)
    assert watch.look(1.5) == ["a"]
    assert watch.runtime.calls["list_pod_sandboxes"] - lists == 2, "the inspection's and the relist's"


def test_a_stream_that_breaks_is_opened_again(watch: Watch) -> None:
    calm(watch, "a")
    away = UnavailableError("GetContainerEvents", "", grpc.StatusCode.UNAVAILABLE, "gone")
    watch.runtime.fail("container_events", away, times=3)
    watch.runtime.cut_events()
    watch.look(30)
    assert watch.runtime.calls["container_events"] == 5
    watch.runtime.end("main", 1)
    assert watch.looked(0.0) == ["a"]


def test_changes_during_a_broken_stream_are_found(watch: Watch) -> None:
    calm(watch, "a")
    away = UnavailableError("GetContainerEvents", "", grpc.StatusCode.UNAVAILABLE, "gone")
    watch.runtime.fail("container_events", away, times=2)
    watch.runtime.cut_events()
    watch.runtime.end("main", 1)
    assert watch.look(1.1) == ["a"]


def test_a_runtime_without_events_is_listed_for_good_as_one_line_reports(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    watch = Watch()
    watch.runtime.serves_events = False
    watch.listen()
    watch.look(20)
    assert watch.runtime.calls["container_events"] == 1
    assert watch.runtime.calls["list_containers"] >= 20
    assert sum("sends no events" in record.message for record in caplog.records) == 1
    watch.stop()


def test_the_relist_finds_a_change_without_an_event_and_no_longer_trusts_the_stream(watch: Watch) -> None:
    calm(watch, "a")
    watch.runtime._streams.clear()
    watch.runtime.end("main", 1)
    assert watch.look(10) == ["a"]
    lists = watch.runtime.calls["list_containers"]
    watch.look(DISTRUST / 2)
    assert watch.runtime.calls["list_containers"] - lists >= DISTRUST / 2 - 1


def test_a_repeated_or_late_event_is_inspected_and_not_reported(watch: Watch) -> None:
    _, container = watch.pod("a")
    calm(watch)
    watch.runtime.end("main", 1)
    assert watch.looked(0.0) == ["a"]
    for kind in (pb.CONTAINER_STOPPED_EVENT, pb.CONTAINER_STARTED_EVENT, pb.CONTAINER_CREATED_EVENT):
        watch.runtime._announce(kind, container, watch.runtime.sandbox_of[container])
    assert watch.looked(5) == []


def test_a_look_that_fails_is_made_up_for_by_a_relist_soon(watch: Watch) -> None:
    calm(watch, "a")
    away = UnavailableError("List", "", grpc.StatusCode.UNAVAILABLE, "gone")
    watch.runtime.fail("list_containers", away)
    watch.runtime.end("main", 1)
    assert watch.look(1.1) == ["a"]
    assert watch.failures() == 1


def test_a_workers_inspection_from_before_the_last_one_is_ignored(watch: Watch) -> None:
    """Otherwise the change would be reported twice, and the stream be suspected."""
    calm(watch, "a")
    before, at = watch.reader.read_pod(ref("a")), watch.simulation.clock.monotonic()
    watch.simulation.run_for(0.1)
    watch.runtime.end("main", 1)
    assert watch.looked(0.1) == ["a"]
    watch.hints.add_inspection(WorkerInspection(before, OWNER, at))
    assert watch.look(15) == []


def test_a_late_event_of_an_end_that_a_worker_has_inspected_is_not_reported(watch: Watch) -> None:
    calm(watch, "a")
    watch.runtime._streams.clear()
    watch.runtime.end("main", 1)
    at = watch.simulation.clock.monotonic()
    watch.hints.add_inspection(WorkerInspection(watch.reader.read_pod(ref("a")), OWNER, at))
    watch.simulation.run_for(0.1)
    assert watch.hints.add_event(ended("a"), watch.simulation.clock.monotonic())
    watch.pleg.ref.tell(HintAdded())
    assert watch.looked(1.0) == []


def test_an_event_of_a_pod_that_is_gone_already_is_not_reported(watch: Watch) -> None:
    calm(watch)
    assert watch.hints.add_event(ended("never"), watch.simulation.clock.monotonic())
    watch.pleg.ref.tell(HintAdded())
    assert watch.looked(1.0) == []
    assert watch.failures() == 0


def test_so_many_pods_are_inspected_without_a_relist(watch: Watch) -> None:
    names = [f"p{number}" for number in range(MAX_INSPECTIONS)]
    calm(watch, *names)
    watch.runtime._streams.clear()
    watch.runtime.end("main", 1)
    for name in names:
        watch.hints.add_event(ended(name), watch.simulation.clock.monotonic())
    watch.pleg.ref.tell(HintAdded())
    assert watch.looked(0.0) == names


@pytest.mark.parametrize("stopped", ["pleg", "listener"])
def test_an_actor_that_has_ended_is_told_nothing(watch: Watch, stopped: str) -> None:
    """edged ends its actors one after the other; the stream may break or send meanwhile."""
    calm(watch, "a")
    if stopped == "pleg":
        watch.pleg.stop(5)
        watch.runtime.end("main", 1)
        watch.simulation.run_for(1.0)
        assert watch.listener.ref.is_alive()
    else:
        watch.runtime.fail("container_events", AWAY, times=100)
        watch.runtime.cut_events()
        watch.simulation.run_for(0.0)
        watch.listener.stop(5)
        calls = watch.runtime.calls["container_events"]
        watch.simulation.run_for(2 * LONGEST_WAIT)
        assert watch.runtime.calls["container_events"] == calls


def test_a_stopped_listener_does_not_open_the_stream_again(watch: Watch) -> None:
    calm(watch)
    watch.runtime.close()
    watch.listener.stop(5)
    calls = watch.runtime.calls["container_events"]
    watch.simulation.run_for(60)
    assert watch.runtime.calls["container_events"] == calls


def test_a_removed_sandbox_of_an_unknown_pod_is_looked_for_in_the_lists(watch: Watch) -> None:
    sandbox, container = watch.pod("a")
    calm(watch)
    watch.runtime.remove_container(ContainerId(container))
    watch.runtime.remove_pod_sandbox(sandbox)
    assert watch.look(1.1) == ["a"]


def test_a_runtime_that_refuses_its_stream_for_long_is_asked_seldom(watch: Watch) -> None:
    """The wait grows up to its limit, however long edged has run."""
    calm(watch)
    watch.simulation.run_for(2 * LONGEST_WAIT)
    away = UnavailableError("GetContainerEvents", "", grpc.StatusCode.UNAVAILABLE, "gone")
    watch.runtime.fail("container_events", away, times=10_000)
    watch.runtime.cut_events()
    watch.simulation.run_for(10 * LONGEST_WAIT)
    calls = watch.runtime.calls["container_events"]
    watch.simulation.run_for(20 * LONGEST_WAIT)
    assert watch.runtime.calls["container_events"] - calls < 80


def test_a_stream_that_lasted_is_opened_again_soon(watch: Watch) -> None:
    """The breaks of last year do not count."""
    calm(watch)
    watch.runtime.fail("container_events", AWAY, times=20)
    watch.runtime.cut_events()
    watch.simulation.run_for(40 * LONGEST_WAIT)
    calls = watch.runtime.calls["container_events"]
    watch.runtime.cut_events()
    watch.simulation.run_for(FIRST_WAIT)
    assert watch.runtime.calls["container_events"] == calls + 1


def test_a_silent_stream_counts_as_open_after_a_while() -> None:
    """containerd answers nothing before its first event: a quiet node is not listed each second."""
    watch = Watch()
    events = watch.runtime.container_events

    def silent(opened: Callable[[], None], happened: Callable[[pb.ContainerEventResponse], None]) -> NoReturn:
        events(lambda: None, happened)

    watch.runtime.container_events = silent  # type: ignore[method-assign]
    watch.look(3)
    watch.listen()
    watch.look(SILENT + 12)
    lists = watch.runtime.calls["list_containers"]
    watch.look(30)
    assert watch.runtime.calls["list_containers"] - lists == 3
    watch.stop()


def test_nothing_is_kept_of_a_pod_that_is_gone(watch: Watch) -> None:
    """A node sees many pods in its life."""
    sandbox, container = watch.pod("a")
    calm(watch)
    watch.runtime.remove_container(ContainerId(container))
    watch.runtime.remove_pod_sandbox(sandbox)
    watch.look(2)
    pleg = watch.pleg.ref._actor_weakref()
    assert pleg is not None
    assert (pleg._known, pleg._known_at) == ({}, {})
