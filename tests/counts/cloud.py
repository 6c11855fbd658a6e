"""cloudcore with the embedded API server in virtual time, on one thread, with real sockets and a database on the disk.

Its websocket server is polled by hand, and listens on a Unix socket, where what was sent can be read at once, so that
the same calls are made in each run.
"""

import select
import socket
from pathlib import Path
from typing import Any, Final
from unittest import mock

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

from beehive.codec import decode, encode
from beehive.message import Message
from beehive.testing import Harness
from beehive.turns import Turns
from modules.cloud.client.calls import APPLY, ApiCall, ApiResult
from modules.cloud.cloudhub.dispatcher import Dispatcher
from modules.cloud.cloudhub.module import CloudHub, CloudHubSettings
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.devicecontroller.module import DeviceController
from modules.cloud.dynamiccontroller.module import DynamicController
from modules.cloud.edgecontroller.downstream.node_watches import NodeWatches
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.identities.module import IdentitiesModule, known_identities
from modules.cloud.journal.database import JournalDatabase
from modules.cloud.journal.module import Journal
from modules.cloud.refusals import Refusals
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.engine import file_of
from modules.cloud.storage.database.room import Room
from modules.cloud.websocket.server import WebsocketServer, WebsocketSettings
from modules.processes.cloudcore.config import CloudCoreConfig
from modules.processes.cloudcore.counters import Counters
from modules.processes.cloudcore.embedded_api_server import EmbeddedApiServer
from tests.counts.calls import Calls

ACK_DELAY: Final = 0.1
"""Seconds in which cloudhub collects acknowledgements: few, so that nothing else is due."""
_PROJECT: Final = "e632"
_SILENCE: Final = 86_400.0
"""Seconds that nodes may be silent where nothing is counted."""
_UNREAD: Final = 1 << 20
"""Bytes that a node may send at once."""


class CountedCloud:
    """cloudcore, whose calls and commits are counted while it works.

    Args:
        bee: an empty harness.
        directory: an empty one.
        is_counted: whether calls are counted, which takes more time than they do.
        database: an SQLite file that it shares with another cloudcore; None: one of its own.
    """

    def __init__(self, bee: Harness, directory: Path, *, is_counted: bool = True, database: Path | None = None) -> None:
        self.bee = bee
        if is_counted:
            self.calls = Calls(bee.simulation, commits=Database._make_durable)
        self.path = str(directory / "nodes")
        """Of the socket for nodes."""
        self.file = database or directory / "cloud.db"
        config = CloudCoreConfig(control_socket=directory / "control", database=str(self.file))
        hive, clock = bee.hive, bee.clock
        refusals, known = Refusals(clock), KnownCloudcores("cloud")
        identities, counters = known_identities(hive), Counters(refusals, known)
        turn, room = Turns(), Room(file_of(config.database_url))
        server = EmbeddedApiServer(
            hive, config, known, counters, turn=turn, room=room, authority=None, service=None,
            refuses=identities.refuses_token,
        )  # fmt: skip
        claims = Database(config.database_url, "cloud", stores_objects=False, turn=turn, room=room)
        self._databases = server.database, claims
        hive.add(IdentitiesModule, identities, server.cluster.connect, config.lease.namespace)
        hive.add(EdgeController, server.cluster, claims, refusals, None, known, NodeWatches())
        hive.add(Journal, lambda: JournalDatabase(config.database_url, turn), "cloud")
        settings = CloudHubSettings(ack_delay=ACK_DELAY)
        if not is_counted:
            settings = CloudHubSettings(ack_delay=ACK_DELAY, keepalive_interval=_SILENCE)
        hive.add(CloudHub, settings, self._make_server, {}, refusals)
        hive.add(DynamicController)
        hive.add(DeviceController, refusals, known, is_embedded=True)
        bee.start()
        bee.run_for(5.0)

    def _make_server(self, deliver: Dispatcher) -> "_PolledServer":
        settings = WebsocketSettings(
            address="127.0.0.1", port=0, node_limit=10_000, max_frame_bytes=1 << 24, write_timeout=60.0
        )
        self.server = _PolledServer(settings, deliver, self.bee.clock, is_full=deliver.is_full)
        self.server.listen(self.path)
        return self.server

    def work(self) -> None:
        """Serve the sockets until there is nothing to do."""
        while self.server.has_to_serve:
            self.server.poll()
            self.bee.settle()

    def pass_grouped_on(self) -> None:
        """Let cloudhub have the messages that wait for others."""
        self.server.pass_grouped_on()
        self.bee.settle()

    def apply(self, *documents: dict[str, Any]) -> None:
        """Apply objects, as an administrator."""
        for document in documents:
            call = ApiCall(
                verb="patch", api_version=document["apiVersion"], plural=document["kind"].lower() + "s",
                namespace="default", name=document["metadata"]["name"], patch_type=APPLY, body=document,
            )  # fmt: skip
            message = self.bee.message("cloudcore/objects", "call", call, source="control")
            result = self.bee.ask("apiserver", message).content_as(ApiResult)
            assert result.refusal is None, result.refusal
        self.work()

    def close(self) -> None:
        """Close the databases."""
        for database in self._databases:
            database.close()


class _Accepted(socket.socket):
    """A Unix socket, which has no options of TCP."""

    def setsockopt(self, *_option: Any) -> None:
        """Set nothing."""


class _Listening(socket.socket):
    """Listens on a Unix socket."""

    def accept(self) -> tuple[socket.socket, Any]:
        """Return an accepted socket, and its peer's address."""
        accepted, _ = super().accept()
        return _Accepted(fileno=accepted.detach()), ("local", 0)


class _PolledServer(WebsocketServer):
    """A websocket server that the caller polls."""

    def listen(self, path: str) -> None:
        """Listen on a Unix socket in place of the TCP port."""
        self._listening.close()
        self._listening = _Listening(socket.AF_UNIX)
        self._listening.bind(path)
        self._listening.listen()
        self._listening.settimeout(0.0)

    def start(self) -> None:
        """Begin, without a thread."""
        self._thread = mock.Mock()
        for own in (self._waker, self._woken):
            own.settimeout(0.0)
        self._selector.register(self._woken, 1)
        self._selector.register(self._listening, 1)

    def stop(self) -> None:
        """End all connections."""
        self._close_all()

    @property
    def has_to_serve(self) -> bool:
        """Whether a socket is ready, or a link was used."""
        if self._is_woken or self._incoming.waiting:
            return True
        return bool(select.select([self._selector.fileno()], [], [], 0)[0])

    def pass_grouped_on(self) -> None:
        """Pass on the messages that wait for others."""
        self._grouped.pass_all()

    def poll(self) -> None:
        """Serve the sockets."""
        self._poll()


class CountedNode:
    """A node's websocket.

    Args:
        cloud: the cloud that it connects to.
        name: the node's.
    """

    def __init__(self, cloud: CountedCloud, name: str) -> None:
        self.name = name
        self._cloud = cloud
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNREAD)  # the cloud reads when it is polled
        self._socket.connect(cloud.path)
        url = f"ws://127.0.0.1/{_PROJECT}/{name}/events"
        self._protocol = ClientProtocol(parse_uri(url), max_size=None)
        request = self._protocol.connect()
        for field, value in (("node_id", name), ("project_id", _PROJECT), ("ConnectionUse", "msg")):
            request.headers[field] = value
        self._protocol.send_request(request)
        self._write()
        cloud.work()
        self.received: list[Message] = []
        self._socket.settimeout(60.0)
        self.receive()

    def ask(self, resource: str, operation: str, content: Any = None) -> None:
        """Send a request."""
        self.send(
            Message.new(
                self._cloud.bee.clock, source="edged", group="meta", resource=resource, operation=operation,
                content=content,
            )
        )  # fmt: skip

    def send(self, message: Message) -> None:
        """Send a message."""
        self._protocol.send_text(encode(message))
        self._write()

    def _write(self) -> None:
        for data in self._protocol.data_to_send():
            self._socket.sendall(data)

    def uid_of_pod(self, name: str = "") -> str:
        """Return the uid of the pod that it has got last, or of the one with a name."""
        of = f"/pod/{name}"
        pod = next(each for each in reversed(self.received) if of in each.route.resource and not each.parent_id)
        return str(pod.content_as(dict)["metadata"]["uid"])

    def receive(self) -> bool:
        """Receive what has come, acknowledge the messages that are no answers, and return whether there were some."""
        before = len(self.received)
        self._socket.settimeout(0.0)
        while True:
            try:
                data = self._socket.recv(1 << 20)
            except BlockingIOError:
                break
            assert data, "the cloud has closed the connection"
            self._protocol.receive_data(data)
        self._socket.settimeout(60.0)
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                message = decode(bytes(event.data))
                self.received.append(message)
                if not message.parent_id:
                    self.send(message.reply(self._cloud.bee.clock))
        return len(self.received) > before

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
