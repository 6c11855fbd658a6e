"""A TCP proxy between nodes and a cloud that simulates failures of a network."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
_CHUNK: Final = 64 * 1024
_SECONDS: Final = 60.0
_AGREED: Final = b"HTTP/1.1 101"


class Pair:
    """A connection of a node with its connection to the cloud."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.cloud: asyncio.StreamWriter | None = None
        self.request = b""
        """First bytes of the node; they name it."""
        self.up = asyncio.Event()
        self.down = asyncio.Event()
        self.up.set()
        self.down.set()
        self.halving = False
        self.delay = 0.0
        self.is_agreed = False

    @property
    def node(self) -> bytes:
        """The first line of its request, which names the node."""
        return self.request.partition(b"\r\n")[0]

    def abort(self) -> None:
        """Reset both ends."""
        for writer in (self.writer, self.cloud):
            if writer is not None:
                writer.transport.abort()


class Proxy:
    """TCP proxy with failures on demand. Use as a context manager.

    It runs on an event loop in a thread; the methods are called on the driver's thread. It measures how long each node
    stays without a connection after a failure, from the moment when a new connection is possible.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._pairs: set[Pair] = set()
        self._is_out = False
        self._without_since: dict[bytes, float] = {}
        """By the words of a node's handshake, since when it could connect again."""
        self._agreed = threading.Condition()
        self._connections = 0
        self.reconnects: list[float] = []
        """Seconds that nodes were without a connection when they could have had one."""
        self.port = 0

    def __enter__(self) -> "Proxy":
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def target(self) -> tuple[str, int]:
        """Address of the cloud."""
        return self._target

    @property
    def connections(self) -> int:
        """Number of accepted connections."""
        return self._connections

    @property
    def nodes(self) -> int:
        """Number of nodes that have a connection."""
        return len({pair.node for pair in tuple(self._pairs) if pair.is_agreed})

    def wait(self, connections: int, seconds: float) -> bool:
        """Wait until a total number of connections has been accepted."""
        with self._agreed:
            return self._agreed.wait_for(lambda: self._connections >= connections, seconds)

    def cut(self) -> None:
        """Reset every connection; new ones are possible immediately."""
        self._do(self._cut())

    def outage(self, seconds: float) -> None:
        """Reset every connection, and refuse new ones for a while."""
        self._do(self._outage(seconds), _SECONDS + seconds)

    def half(self) -> None:
        """Pass half of the next bytes and reset the connection, in the middle of a frame."""
        self._do(self._half())

    def stall(self, way: str, seconds: float, *, then_cut: bool) -> None:
        """Stop one direction; afterwards pass all its bytes late, or reset the connection."""
        self._do(self._stall(way, seconds, then_cut=then_cut))

    def delay(self, seconds: float) -> None:
        """Delay every piece of the present connections from now on."""
        self._do(self._delay(seconds))

    def duplicate(self) -> None:
        """Connect with the request of a connected node: the cloud keeps the newer connection."""
        self._do(self._duplicate())

    def _do(self, what: Coroutine[Any, Any, T], seconds: float = _SECONDS) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(seconds)

    async def _close(self) -> None:
        self._server.close()
        for pair in list(self._pairs):
            pair.abort()
        await asyncio.sleep(0.05)
        mine = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in mine:
            task.cancel()
        await asyncio.gather(*mine, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pair = Pair(reader, writer)
        if self._is_out:
            writer.transport.abort()
            return
        try:
            from_cloud, pair.cloud = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._pairs.add(pair)
        try:
            await asyncio.gather(self._up(pair, pair.cloud), self._down(pair, from_cloud))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            pair.abort()
            self._pairs.discard(pair)

    async def _up(self, pair: Pair, cloud: asyncio.StreamWriter) -> None:
        while data := await pair.reader.read(_CHUNK):
            pair.request = pair.request or data
            await pair.up.wait()
            await self._pass(pair, cloud, data)
        raise ConnectionResetError

    async def _down(self, pair: Pair, from_cloud: asyncio.StreamReader) -> None:
        while data := await from_cloud.read(_CHUNK):
            await pair.down.wait()
            await self._pass(pair, pair.writer, data)
            if not pair.is_agreed and data.startswith(_AGREED):
                self._agree(pair)
        raise ConnectionResetError

    async def _pass(self, pair: Pair, writer: asyncio.StreamWriter, data: bytes) -> None:
        if pair.delay:
            await asyncio.sleep(pair.delay)
        if pair.halving and pair.is_agreed and len(data) > 1:
            writer.write(data[: len(data) // 2])
            await writer.drain()
            self._broken(pair)
            raise ConnectionResetError
        writer.write(data)
        await writer.drain()

    def _agree(self, pair: Pair) -> None:
        pair.is_agreed = True
        with self._agreed:
            self._connections += 1
            since = self._without_since.pop(pair.node, None)
            if since is not None:
                self.reconnects.append(self._loop.time() - since)
            self._agreed.notify_all()

    def _broken(self, *pairs: Pair) -> None:
        self._without_since.update((pair.node, self._loop.time()) for pair in pairs if pair.is_agreed)

    async def _cut(self) -> None:
        for pair in list(self._pairs):
            self._broken(pair)
            pair.abort()

    async def _outage(self, seconds: float) -> None:
        self._is_out = True
        lost = list(self._pairs)
        for pair in lost:
            pair.abort()
        await asyncio.sleep(seconds)
        self._is_out = False
        self._broken(*lost)

    async def _half(self) -> None:
        for pair in self._pairs:
            pair.halving = True

    async def _stall(self, way: str, seconds: float, *, then_cut: bool) -> None:
        pairs = list(self._pairs)
        for pair in pairs:
            (pair.up if way == "up" else pair.down).clear()
        await asyncio.sleep(seconds)
        for pair in pairs:
            if then_cut and pair in self._pairs:
                self._broken(pair)
                pair.abort()
            pair.up.set()
            pair.down.set()

    async def _delay(self, seconds: float) -> None:
        for pair in self._pairs:
            pair.delay = seconds

    async def _duplicate(self) -> None:
        pair = next((pair for pair in self._pairs if pair.is_agreed), None)
        if pair is None:
            return
        self._broken(pair)
        reader, writer = await asyncio.open_connection(*self._target)
        writer.write(pair.request)
        await writer.drain()
        await reader.read(1)
        await asyncio.sleep(0.05)
        writer.transport.abort()
