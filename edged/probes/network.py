"""The contract for asking a container over the network: what probes and hooks need, and what a test double is."""

from typing import Protocol

from edged.probes.targets import GrpcTarget, HttpTarget, TcpTarget


class Network(Protocol):
    """Asks over the network; each call blocks for `seconds` at most and raises NetworkError when it has no answer."""

    def http_get(self, target: HttpTarget, seconds: float) -> int:
        """The status code of the answer to a GET."""

    def tcp_connect(self, target: TcpTarget, seconds: float) -> None:
        """Opens a connection and closes it."""

    def grpc_serves(self, target: GrpcTarget, seconds: float) -> bool:
        """Whether the health service says SERVING."""
