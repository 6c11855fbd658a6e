"""The contract of probes and hooks over the network."""

from typing import Protocol

from edged.probes.targets import GrpcTarget, HttpTarget, TcpTarget


class Network(Protocol):
    """A network prober. Each call blocks for `seconds` at most, and raises NetworkError without a valid answer."""

    def http_get(self, target: HttpTarget, seconds: float) -> int:
        """Return the status code of the answer to a GET."""

    def tcp_connect(self, target: TcpTarget, seconds: float) -> None:
        """Open a connection and close it."""

    def grpc_serves(self, target: GrpcTarget, seconds: float) -> bool:
        """Return whether the health service's status is SERVING."""
