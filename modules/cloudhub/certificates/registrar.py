"""The module `registrar`: runs the HTTPS server of certificates and makes tokens for `cloudcore token`."""

import logging
from typing import Annotated, Any, ClassVar

import msgspec

from beehive.errors import BeehiveError
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName
from beehive.resource import Side
from modules.cloudhub.certificates import tokens
from modules.cloudhub.certificates.authority import Authority
from modules.cloudhub.certificates.contexts import https_context
from modules.cloudhub.certificates.enrolment import Answer, Enrolment, Request
from modules.cloudhub.certificates.https import HttpsServer
from modules.cloudhub.certificates.store import Files
from modules.edgecontroller import commands
from modules.edgecontroller.commands import Get, Verb

_log = logging.getLogger(__name__)
NAME = "registrar"
TOKEN = "token"  # noqa: S105 - the operation's name
_LOOK_UP_SECONDS = 5.0


class TokenWanted(msgspec.Struct, frozen=True):
    """Content of a request for a token."""

    seconds: Annotated[float, msgspec.Meta(ge=0, le=366 * 24 * 3600)] = 24 * 3600.0
    """How long it is good for. KubeEdge: twice the twelve hours after which it makes a new one."""


class RegistrarSettings(msgspec.Struct, frozen=True):
    """What the registrar is told at its start."""

    address: str
    port: int
    certificate_seconds: float
    """How long a node's certificate is good for."""


class Registrar(Module):
    """See the module's docstring.

    Args:
        settings: see there.
        authority: signs.
        files: of the authority, for TLS.
        bound: the address that was really listened on, last; handed in so that a restart keeps a free port that was
            taken.
    """

    name: ClassVar[str] = NAME
    group: ClassVar[str] = NAME
    side: ClassVar[Side] = Side.CLOUD

    def __init__(
        self, settings: RegistrarSettings, authority: Authority, files: Files, bound: list[tuple[str, int]]
    ) -> None:
        super().__init__()
        self._settings = settings
        self._authority = authority
        self._files = files
        self._bound = bound
        self._enrolment = Enrolment(authority, self._is_node, settings.certificate_seconds)
        self._server: HttpsServer | None = None

    def on_start(self) -> None:
        """Begins to accept connections.

        Raises:
            OSError: the address cannot be listened on.
        """
        port = self._bound[-1][1] if self._bound else self._settings.port
        context = https_context(self._files)
        self._server = HttpsServer(
            self._settings.address, port, context, self._answer, self.clock.now, self.clock.monotonic
        )
        self._bound[:] = [self._server.address]
        self._server.start()

    def on_stop(self) -> None:
        """Stops the server."""
        self._stop_server()

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Stops the server; the restarted module has one on the same port."""
        self._stop_server()
        super().on_failure(exception_type, exception_value, traceback)

    @handles(None, TOKEN)
    def make_token(self, message: Message) -> None:
        """Answers with a new token."""
        try:
            wanted = message.content_as(TokenWanted)
        except BeehiveError as error:
            self.respond(message.error(self.clock, str(error)))
            return
        expires = self.clock.now() + wanted.seconds
        self.reply(message, tokens.issue(self._authority.der, self._authority.token_key, expires))

    def _answer(self, request: Request) -> Answer:
        return self._enrolment.answer(request, self.clock.now())

    def _is_node(self, name: str) -> bool:
        """Asks the store of objects; on a connection's thread, which may wait."""
        request = Message.new(
            self.clock,
            source=commands.SOURCE,
            resource=commands.RESOURCE,
            operation=Verb.GET,
            content=msgspec.to_builtins(Get("nodes", name)),
        )
        try:
            answer = self.hive.request(ModuleName.EDGECONTROLLER, request, _LOOK_UP_SECONDS).get()
            return any(item.object is not None for item in answer.content_as(commands.Result).items)
        except BeehiveError as error:
            _log.warning("whether node %s is there could not be found out: %s", name, error)
            return False

    def _stop_server(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()
