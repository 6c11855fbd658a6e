"""A stand-in of a node: it registers over a websocket, takes its pods, acknowledges messages, and sends statuses."""

import asyncio
import random
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus

from beehive.clock import RealClock
from beehive.codec import decode, encode
from beehive.errors import BeehiveError
from beehive.message import Message
from modules.lab.load.documents import lease_of, whole_node, whole_patch

AGAIN: Final = (1.0, 5.0)
"""Seconds until a stand-in dials again after the cloud has ended its connection, one of too many."""
UNANSWERED: Final = 60.0
"""Seconds after which it registers again without an answer, as edged does."""
_OPEN_SECONDS: Final = 1200.0
_KEEPALIVE_SECONDS: Final = 15.0
_CLOCK: Final = RealClock()
_BUSY: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
"""Refusals of a connection that end by themselves."""


class LoadRefusedError(BeehiveError):
    """The cloud refuses a request, or a connection.

    Args:
        what: the resource of the request, or the name of the node.
        why: the cloud's words.
        code: HTTP status.
    """

    def __init__(self, what: str, why: str, code: int) -> None:
        super().__init__("the cloud refuses", what, why)
        self.code = code


class Address(NamedTuple):
    """Place where nodes connect."""

    host: str
    port: int


class StandIn:
    """A node: a websocket with its state.

    Args:
        name: of the node.
        address: of the cloud.
        pods: how many pods it will have.
        dialling: bounds how many stand-ins dial at a time, as one process answers for all of them.
        context: TLS with the node's certificate; None: TCP.
        is_whole: whether it sends whole Nodes, a Lease and whole statuses, or as little as possible.
        mark: label and taint of the Node, if that is whole: no other pod comes there; "" for none.
    """

    def __init__(
        self,
        name: str,
        address: Address,
        pods: int,
        dialling: asyncio.Semaphore,
        context: ssl.SSLContext | None = None,
        *,
        is_whole: bool = False,
        mark: str = "",
    ) -> None:
        self.name = name
        self._dialling = dialling
        self._context = context
        self._is_whole = is_whole
        self._mark = mark
        self._wanted = pods
        self._url = f"{'ws' if context is None else 'wss'}://{address.host}:{address.port}/e632/{name}/events"
        self._answers: dict[str, asyncio.Future[Message]] = {}
        self.pods: dict[str, str] = {}
        """The uids of the pods that have arrived, by namespace and name."""
        self.on_object: Callable[[Message], None] = lambda _message: None
        """Called with each object of the cloud that is no pod."""
        self.on_failure: Callable[[BaseException], None] = lambda _error: None
        """Called when it ends by itself."""
        self.has_pods = asyncio.Event()
        self.is_silent = False
        """Whether it keeps its connection and says nothing more, as a machine that hangs."""
        self.reported = 0
        self.refused = 0
        """Connections that the cloud has ended before they were made, and registrations that it has not answered."""
        self.ended = 0
        """Connections that ended after they were made."""
        self._connection: ClientConnection
        self._tasks: list[asyncio.Task[None]] = []
        self._lease: dict[str, Any] | None = None
        """As the cloud has answered it last; None if that is not known."""

    @property
    def has_joined(self) -> bool:
        """Whether it has ever been connected."""
        return bool(self._tasks)

    async def join(self) -> None:
        """Connect and register."""
        headers = {"node_id": self.name, "project_id": "e632", "ConnectionUse": "msg"}
        self._connection = await self._connect(headers)
        self._tasks = [asyncio.create_task(self._stay(headers)), asyncio.create_task(self._keep_alive())]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        await self._register()
        if self._is_whole:
            with suppress(OSError, ConnectionClosed):  # it is connected again soon, and renews its Lease then
                await self.renew_lease()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.on_failure(error)

    async def _register(self) -> None:
        while True:
            try:
                own = whole_node(self.name, self._mark, **{self._mark: "true"} if self._mark else {})
                own = own if self._is_whole else {"metadata": {"name": self.name}}
                registering = self.request(f"null/node/{self.name}", "insert", own)
                await asyncio.wait_for(registering, UNANSWERED)
                return
            except (OSError, ConnectionClosed):
                self.refused += 1
                await asyncio.sleep(random.uniform(*AGAIN))  # noqa: S311 - spreads the load

    async def _stay(self, headers: dict[str, str]) -> None:
        """Read, and connect again when the connection ends."""
        while True:
            with suppress(ConnectionClosed):
                await self._read()
            self.ended += 1
            for waiting in self._answers.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionResetError(f"the connection of {self.name} has ended"))
            self._answers.clear()
            self._connection = await self._connect(headers)

    async def _connect(self, headers: dict[str, str]) -> ClientConnection:
        while True:
            try:
                async with self._dialling:
                    return await connect(
                        self._url, additional_headers=headers, compression=None, max_size=None,
                        open_timeout=_OPEN_SECONDS, ping_interval=None, ssl=self._context,
                    )  # fmt: skip
            except (InvalidMessage, InvalidStatus, OSError) as error:
                if isinstance(error, InvalidStatus) and error.response.status_code not in _BUSY:
                    why = (error.response.body or b"").decode(errors="replace").strip() or str(error)
                    raise LoadRefusedError(self.name, why, error.response.status_code) from error
                self.refused += 1
                await asyncio.sleep(random.uniform(*AGAIN))  # noqa: S311 - spreads the load

    async def ask(self, resource: str, operation: str, content: Any) -> Message:
        """Send a request, and return its answer. Raises OSError or ConnectionClosed if the connection ends."""
        message = self._message(resource, operation, content)
        future = self._answers[message.id] = asyncio.get_running_loop().create_future()
        try:
            await self._connection.send(encode(message), text=True)
            answer: Message = await future
        finally:
            self._answers.pop(message.id, None)  # of a message that was not sent, nobody waits for an answer
        return answer

    async def request(self, resource: str, operation: str, content: Any) -> Any:
        """Send a request, and return the object in its answer. Raises LoadRefusedError, and as `ask`."""
        return _object_in(await self.ask(resource, operation, content))

    async def report(self, until: float) -> None:
        """Report the status of its first pod as fast as it is answered."""
        while time.monotonic() < until:
            await self.report_once()

    async def report_once(self) -> float:
        """Report the status of its first pod, and return the seconds until the answer."""
        name = f"{self.name}-0"
        if self._is_whole:
            patch = whole_patch(self.pods.get(f"default/{name}", ""), self.reported + 1)
        else:
            patch = msgspec.json.encode({"status": {"message": str(self.reported + 1)}}).decode()
        return await self._report("default", name, patch)

    async def report_ready(self, namespace: str, name: str) -> float:
        """Report that a pod is ready, with the present time, and return the seconds until the answer."""
        return await self._report(
            namespace, name, whole_patch(self.pods[f"{namespace}/{name}"], int(time.time()), is_steady=True)
        )

    async def _report(self, namespace: str, name: str, patch: str) -> float:
        self.reported += 1
        begin = time.monotonic()
        await self.request(f"{namespace}/podpatch/{name}", "patch", patch)
        return time.monotonic() - begin

    async def renew_lease(self) -> None:
        """Renew its Lease, or make it: as an edge does, on the state that the cloud has answered last."""
        resource, known, self._lease = f"kube-node-lease/lease/{self.name}", self._lease, None
        try:
            if known is None:
                known = await self.request(resource, "query", None)
            renewed = {**known["spec"], **lease_of(self.name, _now())["spec"]}
            self._lease = await self.request(resource, "update", {**known, "spec": renewed})
        except LoadRefusedError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                self._lease = await self.request(resource, "insert", lease_of(self.name, _now()))
            elif error.code != HTTPStatus.CONFLICT:  # after which the next renewal reads it
                raise

    def cut(self) -> None:
        """Break its connection, without an end; it dials again."""
        self._connection.transport.abort()

    async def leave(self) -> None:
        """End it."""
        for task in self._tasks:
            task.cancel()
        await self._connection.close()

    async def _read(self) -> None:
        async for frame in self._connection:
            if self.is_silent:
                continue
            message = decode(frame if isinstance(frame, bytes) else frame.encode())
            waiting = self._answers.pop(message.parent_id, None)
            if waiting is not None:
                if not waiting.done():  # it was not given up
                    waiting.set_result(message)
                continue
            await self._connection.send(encode(message.reply(_CLOCK)), text=True)
            self._handle(message)

    def _handle(self, message: Message) -> None:
        namespace, _, rest = message.route.resource.partition("/pod/")
        if not rest:
            self.on_object(message)
            return
        name = f"{namespace.rpartition('/')[2]}/{rest}"
        if message.route.operation == "delete":
            self.pods.pop(name, None)
            return
        self.pods[name] = message.content_as(dict)["metadata"]["uid"]
        if sum(each.partition("/")[2].startswith(f"{self.name}-") for each in self.pods) >= self._wanted:
            self.has_pods.set()

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(_KEEPALIVE_SECONDS)
            if not self.is_silent:
                with suppress(ConnectionClosed):
                    await self._connection.send(encode(self._message("node", "keepalive", "ping")), text=True)

    def _message(self, resource: str, operation: str, content: Any) -> Message:
        return Message.new(
            _CLOCK, source="edged", group="meta", resource=resource, operation=operation, content=content
        )


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _object_in(answer: Message) -> Any:
    """Return the object in an answer. A refusal may have an empty object beside it (KubeEdge's ObjectResp)."""
    content = answer.content_as(dict)
    error = content.get("Err") or ("ErrStatus" in content and content)
    if error:
        status = error.get("ErrStatus") or {}
        why = str(status.get("message") or content)
        raise LoadRefusedError(answer.route.resource, why, int(status.get("code") or 0))
    return content.get("Object")
