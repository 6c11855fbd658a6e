"""The feeds of a picture: two watches and two polls, which run while a browser looks."""

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, Protocol

from beehive.clock import Clock
from beehive.errors import BeehiveError
from modules.apimachinery.printing.fields import text_at
from modules.cli.errors import StatusError
from modules.cli.list_parts import list_parts
from modules.cli.rest import decoded
from modules.cloud.messages import LinkSession
from modules.insight.fleet.devices import DeviceFacts
from modules.insight.fleet.jobs import JobRow, jobs_of
from modules.insight.fleet.rows import linked_names, pod_row
from modules.page.nodes import short_node
from modules.page.picture import Links, Picture
from modules.page.workloads import read_lacks

LOOKED_SECONDS: Final = 60.0
"""Seconds that the feeds go on after a browser's last request."""
NAMES: Final = ("nodes", "pods", "links")
"""The feeds without which nothing is shown."""
_PART: Final = 100
"""Objects of a part of a list."""
_WATCH_SECONDS: Final = 120
_AGAIN: Final = 2.0
"""Seconds after which a feed that has failed, or whose watch the server has ended, begins again."""
_POLL: Final = 2.0
_FIRST_SECONDS: Final = 10.0
"""Longest wait of a first question for its objects."""
_LOOK_AGAIN: Final = 0.05
_LIST_AGAIN: Final = 3.0
"""Seconds, beside `_AGAIN`, until a list is read again that cannot be watched: cloudcore watches no cluster."""
_DEVICE_POLL: Final = 30.0
_DEVICE_SHARE: Final = 100.0
"""Times that a reading of the devices took: it goes on for a hundredth of the time at most."""
_JOURNAL_POLLS: Final = 15
"""Polls after which the journal is read again, unless a connection has changed."""
_DAY: Final = 86_400.0


class ApiClient(Protocol):
    """The Kubernetes API (`RestClient`)."""

    def get(self, path: str, query: Any = ()) -> dict[str, Any]:
        """Return an object or a list."""

    def lines(self, path: str, query: Any = ()) -> Iterator[bytes]:
        """Yield the lines of a watch."""


class LinkSource(Protocol):
    """cloudcore's knowledge of links, beside the Kubernetes API."""

    def links(self) -> Links:
        """Return the present connections."""

    def sessions(self, since: float) -> list[LinkSession]:
        """Return the link journal from a time on, with the newest connection of each node."""


class DeviceSource(Protocol):
    """A reader of the devices (`DeviceReader`)."""

    def facts(self) -> tuple[Sequence[DeviceFacts], bool]:
        """Return the facts of the devices, and whether there are more."""


class JobSource(Protocol):
    """Reads the jobs of nodes (`JobReader`)."""

    def rows(self, here: Collection[str]) -> Sequence[JobRow]:
        """Return the rows of the jobs, for the nodes that are connected."""


class Feeds:
    """The feeds that keep a picture up to date while somebody looks.

    The first request starts a thread for the Nodes, one for the pods, one for the links and one for the devices; they
    end when no request has come for `LOOKED_SECONDS`. So a page that nobody looks at costs cloudcore nothing.

    Args:
        picture: gets the objects that the feeds read.
        client: the Kubernetes API.
        source: the links.
        devices: reads the devices.
        jobs: reads the jobs of nodes.
        clock: for waiting.
    """

    def __init__(
        self,
        picture: Picture,
        client: ApiClient,
        source: LinkSource,
        devices: DeviceSource,
        jobs: JobSource,
        clock: Clock,
    ) -> None:
        self._picture = picture
        self._client = client
        self._source = source
        self._devices = devices
        self._jobs = jobs
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at = 0.0
        self._running: set[str] = set()
        self._ended = threading.Event()

    def start(self) -> None:
        """Note that a browser looks, and start the feeds that do not run."""
        runs: Mapping[str, Callable[[], None]] = {
            "nodes": lambda: self._watch("nodes", short_node, self._picture.put_nodes, self._picture.change_node),
            "pods": lambda: self._watch("pods", pod_row, self._picture.put_pods, self._picture.change_pod),
            "links": self._poll,
            "devices": self._poll_devices,
        }
        with self._lock:
            self._looked_at = self._clock.monotonic()
            for name, run in runs.items():
                if name not in self._running:
                    threading.Thread(target=self._run, args=(name, run), name=f"page-{name}", daemon=True).start()
                    self._running.add(name)

    def start_and_wait(self) -> None:
        """Look, and wait some seconds at most until everything has been read once, or a feed is in trouble."""
        self.start()
        deadline = self._clock.monotonic() + _FIRST_SECONDS
        while not self._picture.is_answered(NAMES) and self._clock.monotonic() < deadline:
            if self._ended.wait(_LOOK_AGAIN):
                return

    def stop(self) -> None:
        """Let the feeds end; a feed that waits for a watch ends with the process."""
        self._ended.set()

    def _run(self, name: str, run: Callable[[], None]) -> None:
        """Run a feed again and again, until nobody looks."""
        try:
            while self._goes_on():
                try:
                    run()
                except StatusError as refusal:
                    if refusal.code == HTTPStatus.METHOD_NOT_ALLOWED:  # the objects of a cluster: they are listed again
                        self._ended.wait(_LIST_AGAIN)
                    else:
                        self._picture.answered(name, str(refusal))
                except BeehiveError as error:
                    self._picture.answered(name, str(error))
                self._ended.wait(_AGAIN)
        finally:
            with self._lock:
                self._running.discard(name)

    def _goes_on(self) -> bool:
        return not self._ended.is_set() and self._clock.monotonic() - self._looked_at < LOOKED_SECONDS

    def _watch(
        self,
        plural: str,
        made: Callable[[dict[str, Any]], Any],
        put: Callable[[Iterable[Any]], None],
        change: Callable[[str, dict[str, Any]], None],
    ) -> None:
        """List objects and follow their changes, until the server ends the watch or nobody looks."""
        path = f"/api/v1/{plural}"
        version = self._list(plural, made, put)
        self._picture.answered(plural)
        query = (
            ("watch", "true"), ("resourceVersion", version), ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(_WATCH_SECONDS)),
        )  # fmt: skip
        with contextlib.closing(self._client.lines(path, query)) as lines:  # type: ignore[type-var]  # a generator
            for line in lines:
                event = decoded(line)
                kind, obj = str(event.get("type")), event.get("object")
                if kind == "ERROR" or not isinstance(obj, dict):
                    return
                if kind != "BOOKMARK":
                    change(kind, obj)
                if not self._goes_on():
                    return

    def _list(self, plural: str, made: Callable[[dict[str, Any]], Any], put: Callable[[Iterable[Any]], None]) -> str:
        """Put the row of each object, so that not all objects are held, and return the version of the list."""
        items: list[Any] = []
        version = ""

        def ask(query: list[tuple[str, str]]) -> dict[str, Any]:
            self._picture.asks(plural)
            return self._client.get(f"/api/v1/{plural}", query)

        for part in list_parts(ask, _PART):
            items += [made(each) for each in part.get("items") or () if isinstance(each, dict)]
            version = text_at(part, "metadata.resourceVersion")
        put(items)
        return version

    def _poll(self) -> None:
        """Read the links every two seconds, and the journal when a connection has changed, or now and then."""
        known: frozenset[str] | None = None
        polls = 0
        while self._goes_on():
            self._picture.asks("links")
            links = self._source.links()
            present = frozenset(each.connection for each in links.connections.values())
            self._picture.put_links(links)
            if present != known or polls % _JOURNAL_POLLS == 0:
                self._picture.put_sessions(self._source.sessions(self._clock.now() - _DAY))
            self._picture.answered("links")
            known, polls = present, polls + 1
            self._ended.wait(_POLL)

    def _poll_devices(self) -> None:
        """Read the devices, the workloads and the jobs twice a minute, more rarely where that takes long."""
        while self._goes_on():
            began = self._clock.monotonic()
            self._picture.put_devices(self._devices.facts()[0])
            self._picture.put_lacks(read_lacks(self._client))
            self._picture.put_jobs(jobs_of(self._jobs.rows(linked_names(self._picture.rows()))).rows)
            self._picture.answered("devices")
            self._ended.wait(max(_DEVICE_POLL, _DEVICE_SHARE * (self._clock.monotonic() - began)))
