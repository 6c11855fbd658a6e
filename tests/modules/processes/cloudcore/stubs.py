"""The stub in this process, and an edge's end of a link to it, driven by hand."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import select
from websockets.sync.client import ClientConnection, connect

from beehive.clock import RealClock
from beehive.codec import decode, encode
from beehive.message import Message
from modules.cloud.storage.database import IN_MEMORY
from modules.cloud.storage.database.engine import make_engine, url_of
from modules.cloud.storage.database.tables import object_syncs
from modules.processes.cloudcore.config import CloudCoreConfig
from modules.processes.cloudcore.process import CloudCore
from tests.support.control_client import ControlClient
from tests.support.patience import PATIENCE

CLOCK = RealClock()


class Edge:
    """An edge's end of the link, driven by hand."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.unasked: list[Message] = []
        """What came that was no answer."""

    def send(self, message: Message) -> None:
        self._connection.send(encode(message), text=True)

    def receive(self) -> Message:
        return decode(self._connection.recv(timeout=PATIENCE))

    def next(self) -> Message:
        """The next message that the cloud sends unasked."""
        while not self.unasked:
            self._sort(self.receive())
        return self.unasked.pop(0)

    def ask(self, resource: str, operation: str, content: Any = None) -> Message:
        """Sends a request and waits for its answer."""
        message = Message.new(
            CLOCK, source="edged", group="meta", resource=resource, operation=operation, content=content
        )
        return self.answer_to(message)

    def answer_to(self, request: Message) -> Message:
        self.send(request)
        while True:
            message = self.receive()
            if message.parent_id == request.id:
                return message
            self._sort(message)

    def acknowledge(self, message: Message) -> None:
        self.send(message.reply(CLOCK))

    def _sort(self, message: Message) -> None:
        if not message.parent_id:
            self.unasked.append(message)


def acknowledged(url: str, node_name: str) -> int:
    """How many objects a node has acknowledged."""
    engine = make_engine(url_of(url))
    with engine.begin() as connection:
        acknowledged = select(object_syncs).where(object_syncs.c.node == node_name, object_syncs.c.version > 0)
        rows = connection.execute(acknowledged).all()
    engine.dispose()
    return len(rows)


class Stub:
    """A running stub. Its objects are in memory unless it is given a database, `""` for the default one, a file."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.directory = directory
        intervals = {"keepalive_interval": 600.0, "ack_resend_interval": 600.0}  # its edges say nothing by themselves
        given = {"control_socket": directory / "control", "listen_port": 0, "database": IN_MEMORY}
        options = {**given, **intervals, **options}
        self.config = CloudCoreConfig(**options)
        self.core = CloudCore(self.config)
        self.client = ControlClient(self.config.control_socket)

    def __enter__(self) -> "Stub":
        self.core.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.core.stop()

    @contextmanager
    def edge(self, name: str = "n1", context: ssl.SSLContext | None = None) -> Iterator[Edge]:
        """A connected edge; with a context over TLS."""
        with edge_at(*self.core.address, name, context) as edge:
            yield edge


@contextmanager
def edge_at(host: str, port: int, name: str = "n1", context: ssl.SSLContext | None = None) -> Iterator[Edge]:
    """An edge that is connected to a cloud there; with a context over TLS."""
    headers = {"node_id": name, "project_id": "e632", "ConnectionUse": "msg"}
    url = f"{'wss' if context else 'ws'}://{host}:{port}/e632/{name}/events"
    with connect(
        url,
        ssl=context,
        additional_headers=headers,
        compression=None,
        max_size=None,
        close_timeout=1,
        open_timeout=PATIENCE,
        ping_interval=None,
    ) as connection:
        yield Edge(connection)


def cells(line: str) -> list[str]:
    """Return the cells of a line of the table."""
    return [cell.strip() for cell in line.split("   ") if cell.strip()]
