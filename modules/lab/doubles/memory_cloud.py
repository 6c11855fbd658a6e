"""A cloud in memory for tests and the simulation, on either runtime.

cloud = MemoryCloud(runtime)
install(hive, settings, make_link=cloud.make_link)
...
cloud.send(message)
assert cloud.messages()[0].route.operation == "keepalive"
cloud.cut()
"""

from collections.abc import Callable
from typing import Any

from beehive import Message, Runtime, decode, encode
from edgehub.errors import ClosedHereError, DialError, LinkError, PeerClosedError
from edgehub.framing import HEAD_BYTES
from edgehub.link import Link, LinkEvents


class MemoryCloud:
    """A maker of links, and the cloud at their other end.

    Args:
        runtime: of the hive whose edgehub uses the links.
        limit: largest message from the cloud in bytes.
        on_frame: called with every frame from the node, on the sender's thread; must not block.
    """

    def __init__(
        self, runtime: Runtime, limit: int = 1 << 24, on_frame: Callable[[bytes], None] = lambda _frame: None
    ) -> None:
        self._runtime = runtime
        self._limit = limit
        self._on_frame = on_frame
        self.refusing = False
        """Whether dialling fails."""
        self.hanging = False
        """Whether dialling hangs until the link is closed."""
        self.stalled = False
        """Whether frames are received and never confirmed."""
        self.dialled: list[float] = []
        """Times of the dials, in monotonic seconds."""
        self.links: list[MemoryLink] = []
        self.frames: list[bytes] = []
        """Received frames, oldest first."""

    def make_link(self) -> "MemoryLink":
        """Return a new link to this cloud."""
        link = MemoryLink(self, self._runtime.queue(), self._limit)
        self.links.append(link)
        return link

    def messages(self) -> list[Message]:
        """Return the received frames, decoded."""
        return [decode(frame) for frame in self.frames]

    def send(self, message: Message | bytes) -> None:
        """Send a message over the newest link."""
        self.links[-1].deliver(message if isinstance(message, bytes) else encode(message))

    def cut(self, error: LinkError | None = None) -> None:
        """End the newest link from the cloud's side."""
        self.links[-1].end(error or PeerClosedError(1006, "cut"))

    def admits(self) -> bool:
        """Note a dial; return whether it succeeds."""
        self.dialled.append(self._runtime.clock.monotonic())
        return not self.refusing

    def receive(self, link: "MemoryLink", frame: bytes) -> None:
        """Receive a frame from a link."""
        self.frames.append(frame)
        self._on_frame(frame)
        if not self.stalled:
            link.confirm()


class MemoryLink(Link):
    """One link to a `MemoryCloud`."""

    def __init__(self, cloud: MemoryCloud, queue: Any, limit: int) -> None:
        self._cloud = cloud
        self._queue = queue
        self._limit = limit
        self._ended = False

    def run(self, events: LinkEvents) -> LinkError:
        if not self._cloud.admits():
            return DialError("cannot connect to the cloud", "memory", "refused")
        if self._cloud.hanging:
            error: LinkError = self._queue.get()
            return error
        events.opened()
        while True:
            item = self._queue.get()
            if isinstance(item, LinkError):
                self._ended = True
                return item
            if isinstance(item, int):
                events.confirmed(item)
            elif len(item) > self._limit:
                events.skipped(item[:HEAD_BYTES], len(item))
            else:
                events.received(item)

    def send(self, frame: bytes) -> None:
        if not self._ended:
            self._cloud.receive(self, frame)

    def close(self) -> None:
        self.end(ClosedHereError())

    def deliver(self, frame: bytes) -> None:
        """Deliver a frame from the cloud."""
        self._queue.put(frame)

    def confirm(self) -> None:
        """Confirm one more frame."""
        self._queue.put(1)

    def end(self, error: LinkError) -> None:
        """End the link, after all frames delivered before."""
        self._queue.put(error)
