"""Running one link in a test, with everything it tells recorded."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from beehive import RealClock
from edgehub.errors import LinkError
from edgehub.link import Link
from edgehub.settings import EdgeHubSettings
from edgehub.transport import ContextFactory
from edgehub.websocket import WebsocketLink
from tests.edgehub.clouds import ScriptedCloud, ScriptedConnection
from tests.support.patience import PATIENCE


def settings(port: int = 1, **changes: object) -> EdgeHubSettings:
    """Settings for a cloud on this machine."""
    fields: dict[str, object] = {"url": f"ws://127.0.0.1:{port}/p/edge-1/events", "node": "edge-1", "project": "p"}
    return EdgeHubSettings(**{**fields, **changes})  # type: ignore[arg-type]


class RunningLink:
    """Runs a link on a thread and records its events (it is a `LinkEvents`)."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.events: list[str] = []
        self.frames: queue.Queue[bytes] = queue.Queue()
        self.skips: queue.Queue[tuple[bytes, int]] = queue.Queue()
        self.arrived = 0
        self.end: LinkError | None = None
        self._opened = threading.Event()
        self._arrived = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="link under test")
        self._thread.start()

    def __enter__(self) -> "RunningLink":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.link.close()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the link is still running"

    def opened(self) -> None:
        self.events.append("opened")
        self._opened.set()

    def received(self, frame: bytes) -> None:
        self.events.append("received")
        self.frames.put(frame)

    def skipped(self, head: bytes, size: int) -> None:
        self.events.append("skipped")
        self.skips.put((head, size))

    def confirmed(self, frames: int) -> None:
        self.events.append("confirmed")
        with self._arrived:
            self.arrived += frames
            self._arrived.notify_all()

    def wait_open(self) -> None:
        """Wait until it is up."""
        assert self._opened.wait(PATIENCE), f"not opened; ended with {self.end}"

    def wait_confirmed(self, frames: int) -> None:
        """Wait until so many frames have arrived."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: self.arrived >= frames, PATIENCE), f"{self.arrived} of {frames}"

    def wait_end(self) -> LinkError:
        """Wait until it has ended, and why."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the link is still running"
        assert self.end is not None
        return self.end

    def frame(self) -> bytes:
        """The next message from the cloud."""
        return self.frames.get(timeout=PATIENCE)

    def _run(self) -> None:
        self.end = self.link.run(self)


def dial(
    port: int = 1, clock: RealClock | None = None, *, context: ContextFactory | None = None, **changes: Any
) -> RunningLink:
    """A link that dials a cloud on this machine, with a context if the cloud has TLS."""
    return RunningLink(WebsocketLink(settings(port, **changes), clock or RealClock(), context))


@contextmanager
def linked(clock: RealClock | None = None, **changes: Any) -> Iterator[tuple[RunningLink, ScriptedConnection]]:
    """A link that is up, and the cloud's end of it, which is closed first: the link would wait for it."""
    with ScriptedCloud() as cloud, dial(cloud.port, clock, **changes) as running, cloud.accept() as connection:
        running.wait_open()
        yield running, connection
