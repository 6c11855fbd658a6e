"""The addresses of a host, looked up on a thread of its own: the resolver may wait for seconds."""

import socket
from collections.abc import Callable

from modules.cloud.client.http.network_stream import SocketAddress
from modules.cloud.client.http.server_url import is_literal

Background = Callable[[Callable[[], None], str], object]
"""Calls a function that may wait on a thread of a name, as `beehive.runtime.Runtime.call` does."""
Found = Callable[[list[SocketAddress], str], None]
"""Takes the addresses, or none and the reason."""


class Resolver:
    """The resolver of one host; for one thread.

    Args:
        host: a name, or an address, which is not looked up.
        port: of the addresses.
        background: calls the lookup.
        post: calls a function on the thread that uses this.
    """

    def __init__(
        self, host: str, port: int, background: Background, post: Callable[[Callable[[], None]], None]
    ) -> None:
        self._host = host
        self._port = port
        self._background = background
        self._post = post
        self._asking: list[Found] = []

    def resolve(self, found: Found) -> None:
        """Call a function with the addresses: at once for a literal one; one lookup serves all who ask meanwhile."""
        if is_literal(self._host):
            found(*self._resolve(socket.AI_NUMERICHOST))
            return
        if not self._asking:
            self._background(self._run, "kube-client/resolver")
        self._asking.append(found)

    def _run(self) -> None:
        addresses, why = self._resolve(0)
        self._post(lambda: self._notify(addresses, why))

    def _notify(self, addresses: list[SocketAddress], why: str) -> None:
        asking, self._asking = self._asking, []
        for found in asking:
            found(addresses, why)

    def _resolve(self, flags: int) -> tuple[list[SocketAddress], str]:
        try:
            results = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM, flags=flags)
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a host name"
            return [], f"{self._host}: {reason.lower()}: check the server's URL and DNS"
        addresses = [(family, address) for family, _, _, _, address in results]
        return [each for each in addresses if isinstance(each[1][0], str)], ""  # type: ignore[misc]
