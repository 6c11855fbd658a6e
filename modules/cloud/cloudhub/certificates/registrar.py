"""The module `registrar`."""

import logging
from typing import Annotated, Any, ClassVar

import msgspec

from beehive.errors import BeehiveError
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName
from beehive.resource import Side
from modules.cloud.apiserver import commands
from modules.cloud.apiserver.commands import Verb
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.cloudhub.certificates import join_tokens
from modules.cloud.cloudhub.certificates.authority import Authority
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles
from modules.cloud.cloudhub.certificates.contexts import https_context
from modules.cloud.cloudhub.certificates.enrolment import Enrolment, EnrolmentRequest, EnrolmentResponse
from modules.cloud.cloudhub.certificates.https import HttpsServer
from modules.cloud.cloudhub.counters import CloudHubCounters

_log = logging.getLogger(__name__)
NAME = "registrar"
TOKEN = "token"  # noqa: S105 - the operation's name
_LOOK_UP_SECONDS = 5.0


class JoinTokenCommand(msgspec.Struct, frozen=True):
    """The content of a request for a token."""

    seconds: Annotated[float, msgspec.Meta(ge=0, le=366 * 24 * 3600)] = 24 * 3600.0
    """The token's validity. KubeEdge: twice the twelve hours after which it makes a new one."""


class RegistrarSettings(msgspec.Struct, frozen=True):
    """Settings of the registrar."""

    address: str
    port: int
    certificate_seconds: float
    """The validity of a node's certificate."""


class Registrar(Module):
    """Runs the HTTPS server for certificates, and makes the tokens of `cloudcore token`.

    Args:
        settings: address and validity.
        authority: signs certificates and tokens.
        files: the authority's files, for TLS.
        bound: holds the address of the listening socket, so that a restarted module listens on the same port.
        counters: counts the responses.
    """

    name: ClassVar[str] = NAME
    group: ClassVar[str] = NAME
    side: ClassVar[Side] = Side.CLOUD

    def __init__(
        self,
        settings: RegistrarSettings,
        authority: Authority,
        files: AuthorityFiles,
        bound: list[tuple[str, int]],
        counters: CloudHubCounters,
    ) -> None:
        super().__init__()
        self._counters = counters
        self._settings = settings
        self._authority = authority
        self._files = files
        self._bound = bound
        self._enrolment = Enrolment(authority, self._is_node, settings.certificate_seconds)
        self._server: HttpsServer | None = None

    def on_start(self) -> None:
        """Starts to accept connections.

        Raises:
            ListenError: the server cannot listen on the address.
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
        """Stops the server; the restarted module starts one on the same port."""
        self._stop_server()
        super().on_failure(exception_type, exception_value, traceback)

    @handles(None, TOKEN)
    def make_token(self, message: Message) -> None:
        """Replies with a new token."""
        try:
            command = message.content_as(JoinTokenCommand)
        except BeehiveError as error:
            self.respond(message.error(self.clock, str(error)))
            return
        expires = self.clock.now() + command.seconds
        self.reply(message, join_tokens.issue(self._authority.der, self._authority.token_key, expires))

    def _answer(self, request: EnrolmentRequest) -> EnrolmentResponse:
        response = self._enrolment.answer(request, self.clock.now())
        self._counters.note_certificate_response(response.status.value)
        return response

    def _is_node(self, name: str) -> bool:
        """Returns whether edgecontroller has a Node of this name; blocks the connection's thread."""
        request = Message.new(
            self.clock,
            source=commands.SOURCE,
            resource=commands.RESOURCE,
            operation=Verb.CALL,
            content=ApiCall(verb="get", api_version="v1", plural="nodes", name=name),
        )
        try:
            answer = self.hive.request(ModuleName.EDGECONTROLLER, request, _LOOK_UP_SECONDS).get()
            return answer.content_as(ApiResult).object is not None
        except BeehiveError as error:
            _log.warning("whether node %s is there could not be found out: %s", name, error)
            return False

    def _stop_server(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()
