"""The Kubernetes API over HTTPS, beside the control socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edged.server.errors import ServerError
from edged.server.http import HttpServer
from edged.server.listening import listen_tcp
from modules.cloud.apiserver.limits import REQUEST_BYTES
from modules.processes.cloudcore.errors import ControlError

if TYPE_CHECKING:
    import ssl

    from beehive import Clock
    from edged.server.router import HttpService
    from modules.cloud.apiserver.authentication.authenticator import Authenticator


class SecureServing:
    """Listens for the Kubernetes API's clients; after a restart of module `control` on the same port.

    Args:
        address: IP address.
        port: 0 takes a free one.
        context: asks for client certificates of the authority.
        authenticator: finds the user of a request.
    """

    def __init__(self, address: str, port: int, context: ssl.SSLContext, authenticator: Authenticator) -> None:
        self._address = address
        self._port = port
        self._context = context
        self.authenticator = authenticator

    @property
    def url(self) -> str:
        """Where it listens, when started."""
        host = f"[{self._address}]" if ":" in self._address else self._address
        return f"https://{host}:{self._port}"

    @property
    def port(self) -> int:
        """The TCP port, when started."""
        return self._port

    def start(self, service: HttpService, clock: Clock) -> HttpServer:
        """Start to serve.

        Raises:
            ControlError: the address cannot be listened on.
        """
        try:
            listening = listen_tcp(self._address, self._port, "--secure-port")
        except ServerError as error:
            raise ControlError(
                "cannot serve the Kubernetes API on", f"{self._address}:{self._port}", error.hint
            ) from error
        server = HttpServer(listening, service, clock, max_body=REQUEST_BYTES, context=self._context)
        self._port = server.port
        server.start()
        return server
