"""An edge's end of the tunnel, driven by hand."""

import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from websockets.sync.client import ClientConnection, connect

from modules.streams import connect as requests
from modules.streams.connect import StreamRequest
from modules.streams.frames import CONNECTS, Frame, FrameType, decode
from tests.support.patience import PATIENCE


def spdy(content: bytes, *, last: bool = False) -> bytes:
    """What a container says on a stream of SPDY; the last frame ends it."""
    return struct.pack(">II", 1, last << 24 | len(content)) + content


class Edge:
    """A node's tunnel."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def receive(self) -> Frame:
        """The next frame of the cloud."""
        payload = self.connection.recv(timeout=PATIENCE, decode=False)
        assert isinstance(payload, bytes)
        return decode(payload)

    def opened(self) -> tuple[Frame, StreamRequest]:
        """The next stream that the cloud opens, as frame and request."""
        frame = self.receive()
        assert frame.kind in CONNECTS, frame
        return frame, requests.decode(frame.data)

    def send(self, number: int, data: bytes, kind: int = FrameType.DATA) -> None:
        self.connection.send(Frame(number, kind, data).encode(), text=True)

    def end(self, number: int, reason: bytes = b"") -> None:
        self.send(number, reason, FrameType.REMOVE)


@contextmanager
def edge_at(
    port: int, name: str = "n1", context: ssl.SSLContext | None = None, address: str = "", **more: str
) -> Iterator[Edge]:
    """A node with a tunnel to a cloud on this machine, and perhaps more headers in its upgrade."""
    headers = {"SessionHostNameOverride": name, **({"SessionInternalIP": address} if address else {}), **more}
    url = f"{'wss' if context else 'ws'}://127.0.0.1:{port}/v1/kubeedge/connect"
    with connect(
        url, ssl=context, additional_headers=headers, compression=None, max_size=None, close_timeout=1,
        open_timeout=PATIENCE, ping_interval=None,
    ) as connection:  # fmt: skip
        yield Edge(connection)
