"""A network in memory, for tests of edged alone and for simulation."""

from collections import Counter

from beehive import Runtime
from edged.errors import NetworkError
from edged.probes.targets import GrpcTarget, HttpTarget, TcpTarget

ServerKey = tuple[str, int]
"""Host and port."""


class NetworkDouble:
    """`Network` with the servers and answers that a test sets up, on the runtime's time.

    Without a server at an address, connections are refused. A status of 0 is a server that never answers.
    """

    def __init__(self, actors: Runtime) -> None:
        self._actors = actors
        self.statuses: dict[ServerKey, int] = {}
        """A server's answer to a GET. The server also takes TCP connections, and serves gRPC when the status is 200."""
        self.asked: Counter[ServerKey] = Counter()
        """Number of probes per server."""
        self.requests: list[HttpTarget] = []
        """The GETs, in order."""

    def http_get(self, target: HttpTarget, seconds: float) -> int:
        self.requests.append(target)
        return self._status(target.host, target.port, seconds)

    def tcp_connect(self, target: TcpTarget, seconds: float) -> None:
        self._status(target.host, target.port, seconds)

    def grpc_serves(self, target: GrpcTarget, seconds: float) -> bool:
        return self._status(target.host, target.port, seconds) == 200

    def _status(self, host: str, port: int, seconds: float) -> int:
        self.asked[host, port] += 1
        status = self.statuses.get((host, port))
        if status is None:
            raise NetworkError("connect", f"{host}:{port}", "refused")
        if status == 0:
            over = self._actors.future()
            self._actors.clock.after(seconds, over.set)
            over.get()
            raise NetworkError("ask", f"{host}:{port}", f"no answer within {seconds:g} s")
        return status
