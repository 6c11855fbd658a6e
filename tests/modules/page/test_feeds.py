"""The feeds of a picture: they run while somebody looks, and go on after an error."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beehive.clock import RealClock
from modules.cli.errors import StatusError, UnreachableError
from modules.cli.rest import RestClient
from modules.cloud.messages import LinkSession, NodeConnection
from modules.insight.fleet.devices import DeviceFacts, DevicePropertyRow
from modules.page.devices import DeviceReader
from modules.page.feeds import NAMES, Feeds
from modules.page.jobs import JobReader
from modules.page.picture import Links, Picture
from modules.processes.cloudcore.page_command import ControlLinks
from tests.modules.processes.cloudcore.clusters import Cluster
from tests.support.clocks import StandingClock
from tests.support.failing import Attempt, Failing, fail_at_each_call

PATIENCE = 60.0
NODE = {"metadata": {"name": "n1"}}


class Api:
    """An API server with Nodes in two parts, whose watches a test feeds, and that is away at first."""

    def __init__(self) -> None:
        self.failures = 1
        self.events: queue.Queue[Any] = queue.Queue()
        self.asked: list[str] = []

    def get(self, path: str, query: Any = ()) -> dict[str, Any]:
        """Return a part of a list."""
        self.asked.append(path)
        if self.failures:
            self.failures -= 1
            raise UnreachableError("cannot reach the server")
        if path.endswith("pods"):
            return {"items": [], "metadata": {"resourceVersion": "7"}}
        if dict(query).get("continue"):
            return {"items": [{"metadata": {"name": "n2"}}], "metadata": {"resourceVersion": "7"}}
        return {"items": [NODE, "odd"], "metadata": {"continue": "more"}}

    def lines(self, path: str, query: Any = ()) -> Iterator[bytes]:
        """Yield the events of a watch of Nodes, until one is None; a watch of pods stays silent."""
        assert dict(query)["resourceVersion"] == "7"
        while path.endswith("nodes") and (event := self.events.get()) is not None:
            yield msgspec.json.encode(event)

    def links(self) -> Links:
        """Return a connection."""
        return Links({"n1": NodeConnection("n1", 5.0, 1.0, connection="c1")})

    def facts(self) -> tuple[list[DeviceFacts], bool]:
        """Return a device that was to report a day ago."""
        due = DevicePropertyRow("t", reported_at=1.0, due=2.0)
        return [
            DeviceFacts("shop", "hall", "n1", "m", "", "", 1, 0, due, due, 1.0, is_heard=True, mapper="its mapper")
        ], False

    def sessions(self, since: float) -> list[LinkSession]:
        """Return the journal."""
        return [LinkSession("n1", "c1", "a", since)]


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    pause, deadline = threading.Event(), RealClock().monotonic() + PATIENCE
    while not is_so():
        assert RealClock().monotonic() < deadline
        pause.wait(0.02)


def rules(picture: Picture) -> list[str]:
    """Return the rules of what needs attention."""
    head = picture.changes(0, NAMES).head
    return [each.rule for each in head.findings] if head is not None else []


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Feeds do not rest between their questions, and go on however slow the machine is."""
    for pause in ("_AGAIN", "_POLL", "_LIST_AGAIN"):
        monkeypatch.setattr(f"modules.page.feeds.{pause}", 0.02)
    monkeypatch.setattr("modules.page.feeds.LOOKED_SECONDS", PATIENCE)


def test_the_feeds_follow_the_fleet() -> None:
    clock = RealClock()
    picture, api = Picture(clock.now), Api()
    feeds = Feeds(picture, api, api, api, JobReader(api, clock), clock)
    assert api.asked == [], "nobody looks"
    feeds.start()
    feeds.start_and_wait()
    assert picture.is_answered(NAMES)
    wait_until(lambda: picture.changes(0, NAMES).is_read)
    wait_until(lambda: picture.node("n2") is not None)
    wait_until(lambda: "devices-overdue" in rules(picture))
    api.events.put({"type": "MODIFIED", "object": {"metadata": {"name": "n3"}}})
    api.events.put({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}})
    api.events.put({"type": "DELETED", "object": {"metadata": {"name": "n2"}}})
    wait_until(lambda: picture.node("n3") is not None and picture.node("n2") is None)
    feeds.stop()
    api.events.put({"type": "ERROR", "object": {"code": 410}})
    clock.close()


def test_the_objects_of_a_cluster_are_listed_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """cloudcore serves no watches of a cluster's objects: the page goes on with lists, and without a trouble. It says
    since when the API server has not answered, before cloudcore has given it up.
    """
    monkeypatch.setattr("modules.page.feeds._DEVICE_POLL", PATIENCE)  # devices that are read are shown before the pause
    clock, cluster = RealClock(), Cluster(tmp_path)
    try:
        cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        client, picture = RestClient(cluster.core.config.control_socket), Picture(clock.now)
        source = ControlLinks(cluster.core.client)
        feeds = Feeds(picture, client, source, DeviceReader(client, clock), JobReader(client, clock), clock)
        feeds.start()
        wait_until(lambda: picture.node("n1") is not None and picture.changes(0, (*NAMES, "devices")).is_read)
        cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}})
        wait_until(lambda: picture.node("n2") is not None)
        assert "no watch" not in picture.changes(0, NAMES).trouble
        monkeypatch.setattr("modules.page.picture._LATE", 1.0)
        cluster.cluster.__exit__()
        away = clock.now()
        wait_until(lambda: picture.changes(0, NAMES).as_of > 0.0)
        said = picture.changes(0, NAMES)
        assert said.trouble.startswith("no answer")  # on a slow machine cloudcore has given it up by now
        assert said.as_of <= away
        cluster.start_cluster()
        wait_until(lambda: picture.changes(0, NAMES).trouble == "")
        feeds.stop()
    finally:
        cluster.close()
        clock.close()


class Waits:
    """Waits that put a clock forward, until there were enough (`threading.Event`)."""

    def __init__(self, clock: StandingClock, most: int) -> None:
        self.seconds: list[float] = []
        self._clock, self._most = clock, most

    def is_set(self) -> bool:
        return len(self.seconds) >= self._most

    def wait(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        self._clock.go(seconds)
        return self.is_set()


class Step:
    """Feeds of a client and a source, in virtual time, without threads."""

    def __init__(self, source: Any, most: int = 1) -> None:
        self.clock = StandingClock()
        self.picture, self.waits = Picture(self.clock.now), Waits(self.clock, most)
        self.feeds = Feeds(self.picture, source, source, source, JobReader(source, self.clock), self.clock)
        self.feeds._ended = self.waits  # type: ignore[assignment]
        self.feeds._looked_at = self.clock.monotonic()

    def trouble(self) -> str:
        """Return the trouble that a page shows."""
        return self.picture.changes(0, NAMES).trouble


class Parts(Api):
    """An API server that answers at once, whose watch has these events."""

    def __init__(self, *events: dict[str, Any]) -> None:
        super().__init__()
        self.failures, self.put, self.read, self.is_closed = 0, list[Any](), 0, False
        self._lines = events

    def lines(self, path: str, query: Any = ()) -> Iterator[bytes]:
        try:
            for event in self._lines:
                self.read += 1
                yield msgspec.json.encode(event)
        finally:
            self.is_closed = True


CHANGE = {"type": "MODIFIED", "object": NODE}


@pytest.mark.parametrize(
    ("events", "read", "changed"),
    [
        ((CHANGE, {"type": "BOOKMARK", "object": NODE}, {"type": "DELETED", "object": NODE}), 3, "MODIFIED DELETED"),
        ((CHANGE, {"type": "ERROR", "object": {"code": 410}}, CHANGE), 2, "MODIFIED"),
        ((CHANGE, {"type": "MODIFIED", "object": "odd"}, CHANGE), 2, "MODIFIED"),
    ],
)
def test_a_list_is_taken_over_as_a_whole_and_its_watch_until_it_is_broken(
    monkeypatch: pytest.MonkeyPatch, events: Any, read: int, changed: str
) -> None:
    """A picture with a part of the list has not the other nodes: they would be gone, for a moment."""
    api, asked = Parts(*events), list[str]()
    step = Step(api, most=99)
    monkeypatch.setattr(step.picture, "asks", asked.append)
    found, early = list[str](), list[bool]()

    def put(rows: Iterable[Any]) -> None:
        early.append(step.picture.is_answered(["nodes"]))
        api.put.append(list(rows))

    step.feeds._watch("nodes", lambda each: each, put, lambda at, _: found.append(at))
    assert [len(each) for each in api.put] == [2]
    assert (early, step.picture.is_answered(["nodes"])) == ([False], True)
    assert asked == ["nodes"] * len(api.asked), "a part that does not come is missed"
    assert (api.read, " ".join(found), api.is_closed) == (read, changed, True)


def test_a_watch_ends_when_nobody_looks() -> None:
    api = Parts(CHANGE, CHANGE, CHANGE)
    step = Step(api, most=0)
    step.feeds._watch("nodes", lambda each: each, api.put.append, lambda *_: None)
    assert (api.read, api.is_closed) == (1, True)


def test_the_journal_is_read_with_each_change_of_connections_and_twice_a_minute() -> None:
    class Source(Api):
        """Its node is connected again at the fifth question."""

        def __init__(self) -> None:
            super().__init__()
            self.asked_links, self.since, self.read_at = 0, list[float](), list[int]()

        def links(self) -> Links:
            self.asked_links += 1
            return Links({"n1": NodeConnection("n1", 5.0, 1.0, connection=f"c{self.asked_links >= 5}")})

        def sessions(self, since: float) -> list[LinkSession]:
            self.read_at.append(self.asked_links)
            self.since.append(since)
            return []

    source = Source()
    step = Step(source, most=32)
    step.feeds._poll()
    assert source.read_at == [1, 5, 16, 31]
    assert abs(step.clock.now() - source.since[-1] - 86_400.0) < 600.0


def test_devices_are_read_the_more_rarely_the_longer_that_takes() -> None:
    class Slow(Api):
        """It takes its time for the devices."""

        seconds = 0.1

        def facts(self) -> tuple[list[DeviceFacts], bool]:
            step.clock.go(self.seconds)
            self.seconds += 1.0
            return [], False

    source = Slow()
    source.failures = 0
    step = Step(source, most=3)
    step.feeds._poll_devices()
    assert [round(each) for each in step.waits.seconds] == [30, 110]


@pytest.mark.parametrize(("code", "trouble", "waits"), [(405, "", 2), (403, "no nodes for you", 1)])
def test_a_refusal_is_a_trouble_but_of_a_watch_that_there_is_not(code: int, trouble: str, waits: int) -> None:
    step = Step(Api(), most=1)
    step.feeds._run("nodes", Failing(0, StatusError(code, "", "no nodes for you")).call(print))
    assert (step.trouble(), len(step.waits.seconds)) == (trouble, waits)


def test_a_feed_whose_thread_cannot_be_started_is_started_by_the_next_look() -> None:
    """A process may have no more threads for a moment."""
    clock = RealClock()
    picture, api = Picture(clock.now), Api()

    def make(failing: Failing) -> Attempt:
        feeds, started = Feeds(picture, api, api, api, JobReader(api, clock), clock), list[str]()

        def start(thread: threading.Thread) -> None:
            failing.step()
            started.append(thread.name.removeprefix("page-"))

        def operation() -> None:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(threading.Thread, "start", start)
                feeds.start()

        return Attempt(operation, left=lambda: feeds._running.difference(started))

    assert fail_at_each_call(make) == 4
    clock.close()


def test_a_feed_that_ends_unforeseen_is_started_by_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, api = RealClock(), Api()
    feeds = Feeds(Picture(clock.now), api, api, api, JobReader(api, clock), clock)
    monkeypatch.setattr(feeds, "_goes_on", lambda: True)
    feeds._running.add("nodes")
    with pytest.raises(MemoryError):
        feeds._run("nodes", Failing(0, MemoryError()).call(print))
    assert not feeds._running
    clock.close()
