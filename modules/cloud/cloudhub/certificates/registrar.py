"""The module `registrar`."""

import logging
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from beehive.errors import BeehiveError
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName, Operation
from beehive.resource import Side
from beehive.thread_requests import ThreadRequests
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.cloudhub.certificates import join_tokens
from modules.cloud.cloudhub.certificates.authority import Authority
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles
from modules.cloud.cloudhub.certificates.bundles import PATH as BUNDLES
from modules.cloud.cloudhub.certificates.bundles import BundleDirectory
from modules.cloud.cloudhub.certificates.contexts import https_context
from modules.cloud.cloudhub.certificates.enrolment import Enrolment, EnrolmentRequest, EnrolmentResponse
from modules.cloud.cloudhub.certificates.errors import RequestRefusedError
from modules.cloud.cloudhub.certificates.https import HttpsServer
from modules.cloud.cloudhub.counters import CloudHubCounters
from modules.cloud.identities import messages as identities
from modules.cloud.identities.known import KnownIdentities
from modules.cloud.identities.peer import CertifiedPeer
from modules.cloud.identities.records import JoinToken

_log = logging.getLogger(__name__)
NAME = "registrar"
TOKEN = "token"  # noqa: S105 - the operation's name
_LOOK_UP_SECONDS = 5.0
_STORE_SECONDS = 30.0
"""For the module `identities`, which stores records at the API server."""


class RegistrarSettings(msgspec.Struct, frozen=True):
    """Settings of the registrar."""

    address: str
    port: int
    certificate_seconds: float
    """The validity of a node's certificate."""
    bundles: Path | None = None
    """Directory of the bundles that are served to nodes; None serves none."""
    bundle_rate: int = 8 * 1024 * 1024
    """Bytes of bundles a second, to all nodes together."""


class Registrar(Module):
    """The module that runs the HTTPS server for certificates, and makes the tokens of `cloudcore token`.

    Args:
        settings: address and validity.
        authority: signs certificates and tokens.
        files: the authority's files, for TLS.
        bound: holds the address of the listening socket, so that a restarted module listens on the same port.
        counters: counts the responses.
        known: the refused certificates.
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
        known: KnownIdentities,
    ) -> None:
        super().__init__()
        self._counters = counters
        self._settings = settings
        self._authority = authority
        self._files = files
        self._bound = bound
        self._requests = ThreadRequests(self)
        self._known = known
        self._enrolment = Enrolment(authority, self, settings.certificate_seconds)
        self._bundles = (
            BundleDirectory(settings.bundles, self.clock, settings.bundle_rate, known.refusal_of)
            if settings.bundles is not None
            else None
        )
        self._server: HttpsServer | None = None

    def on_start(self) -> None:
        """Start to accept connections.

        Raises:
            ListenError: the server cannot listen on the address.
        """
        port = self._bound[-1][1] if self._bound else self._settings.port
        context = https_context(self._files)
        self._server = HttpsServer(self._settings.address, port, context, self._answer, self.clock)
        self._bound[:] = [self._server.address]
        self._server.start()

    def on_end(self) -> None:
        """Stop the server; a restarted module starts one on the same port."""
        self._requests.end_all("the registrar is stopping")
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    @handles(None, TOKEN)
    def make_token(self, message: Message) -> None:
        """Reply with a new token, once its record (`TokenSettings`) is stored."""

        def stored(answer: Message | BeehiveError) -> None:
            try:
                record = self._answer_of(answer).content_as(JoinToken)
            except BeehiveError as error:
                self.respond(message.error(self.clock, str(error)))
                return
            claims = join_tokens.Claims(record.expires_at, record.name, record.node, record.replace)
            self.reply(message, join_tokens.issue(self._authority.der, self._authority.token_key, claims))

        asked = self.message(identities.RESOURCE, identities.MAKE_TOKEN, message.content_as(dict[str, Any]))
        self.request(identities.NAME, asked, _STORE_SECONDS, stored)

    def _answer(self, request: EnrolmentRequest) -> EnrolmentResponse:
        if self._bundles is not None and request.path.startswith(BUNDLES):
            response = self._bundles.answer(request)
        else:
            response = self._enrolment.answer(request, self.clock.now())
        self._counters.count_certificate_response(response.status.value)
        return response

    def enrol(self, asked: identities.KeyEnrolment) -> str:
        """Return why a key may not have a node's name, or ""; blocks the connection's thread."""
        request = self.message(identities.RESOURCE, identities.ENROL, asked)
        try:
            return str(self._answer_of(self._requests.ask(identities.NAME, request, _STORE_SECONDS)).content_as(str))
        except BeehiveError as error:
            return str(error)

    def _answer_of(self, answer: Message | BeehiveError) -> Message:
        """Return an answer of the module `identities`. Raises BeehiveError if it is an error."""
        if isinstance(answer, BeehiveError):
            raise answer
        if answer.route.operation == Operation.ERROR:
            raise RequestRefusedError(answer.content_as(str))
        return answer

    def refusal_of(self, peer: CertifiedPeer) -> str:
        """Return why a client certificate is refused, "" if it is not."""
        return self._known.refusal_of(peer)

    def is_node(self, name: str) -> bool:
        """Return whether edgecontroller has a Node of this name; blocks the connection's thread."""
        request = Message.new(
            self.clock,
            source=api_messages.SOURCE,
            resource=api_messages.RESOURCE,
            operation=Verb.CALL,
            content=ApiCall(verb="get", api_version="v1", plural="nodes", name=name),
        )
        try:
            answer = self.hive.request(ModuleName.EDGECONTROLLER, request, _LOOK_UP_SECONDS).get()
            return answer.content_as(ApiResult).object is not None
        except BeehiveError as error:
            _log.warning("whether node %s is there could not be found out: %s", name, error)
            return False
