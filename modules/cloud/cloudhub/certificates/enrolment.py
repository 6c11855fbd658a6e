"""The responses of the HTTPS server for certificates (docs/protocol.md, "Certificates").

As in KubeEdge, a client certificate is checked before a token: with a certificate, the token is ignored.
"""

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Protocol

import msgspec

from beehive.decoding import decode_json
from modules.cloud.cloudhub.certificates import join_tokens
from modules.cloud.cloudhub.certificates.authority import Authority
from modules.cloud.cloudhub.certificates.errors import RequestRefusedError, TokenError
from modules.cloud.identities.messages import KeyEnrolment
from modules.cloud.identities.node_identity import is_node_name
from modules.cloud.identities.peer import CertifiedPeer

_log = logging.getLogger(__name__)
_CLIENT_AUTH = 2
"""Go's x509.ExtKeyUsageClientAuth, the only usage that is signed."""
_BINARY = "application/octet-stream"
_TEXT = "text/plain; charset=utf-8"
_NODE_PATH = "/node/"


class EnrolmentRequest(msgspec.Struct, frozen=True):
    """A request to the HTTPS server."""

    method: str
    path: str
    """Decoded, without the query."""
    headers: Mapping[str, str]
    """Headers by lower-case name."""
    body: Callable[[], bytes] = bytes
    """Reads the body, once it is known who asks. Raises HttpError."""
    peer: CertifiedPeer | None = None
    """The client's certificate, of this authority."""


class EnrolmentResponse(msgspec.Struct, frozen=True):
    """A response of the HTTPS server."""

    status: HTTPStatus
    body: bytes
    content_type: str = _BINARY
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers."""

    @property
    def text(self) -> str:
        """The body for the log; only the length of a certificate."""
        return self.body.decode() if self.content_type == _TEXT else f"{len(self.body)} bytes"


class EnrolledNodes(Protocol):
    """The nodes and their keys. All methods but `refusal_of` may block."""

    def is_node(self, name: str) -> bool:
        """Return whether a node is registered."""

    def refusal_of(self, peer: CertifiedPeer) -> str:
        """Return why a client certificate is refused, "" if it is not."""

    def enrol(self, asked: KeyEnrolment) -> str:
        """Take a node's name for the key that is to be certified, and return why that is refused, or ""."""


class Enrolment:
    """The answers to requests for certificates.

    Args:
        authority: signs the certificates.
        nodes: knows the nodes and their keys.
        seconds: the validity of a node's certificate.
    """

    def __init__(self, authority: Authority, nodes: EnrolledNodes, seconds: float) -> None:
        self._authority = authority
        self._nodes = nodes
        self._seconds = seconds

    def answer(self, request: EnrolmentRequest, now: float) -> EnrolmentResponse:
        """Return the response to a request; `now` in seconds since the epoch. Raise HttpError for a body that cannot be
        read.
        """
        path = request.path
        if request.method != "GET":
            return error_response(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is served")
        if path == "/ca.crt":
            return EnrolmentResponse(HTTPStatus.OK, self._authority.der)
        if path == "/edge.crt":
            return self._certificate(request, now)
        if path.startswith(_NODE_PATH) and is_node_name(name := path.removeprefix(_NODE_PATH)):
            return self._node(name)
        return error_response(HTTPStatus.NOT_FOUND, "nothing is served here")

    def _node(self, name: str) -> EnrolmentResponse:
        if self._nodes.is_node(name):
            return EnrolmentResponse(HTTPStatus.OK, b"Node found", _TEXT)
        return error_response(HTTPStatus.NOT_FOUND, "Node not found")

    def _certificate(self, request: EnrolmentRequest, now: float) -> EnrolmentResponse:
        node = request.headers.get("nodename", "")
        if not is_node_name(node):
            return error_response(HTTPStatus.BAD_REQUEST, "header NodeName is missing or is not a node name")
        try:
            token = self._authenticated(request, node, now)
        except TokenError as error:
            return error_response(HTTPStatus.UNAUTHORIZED, str(error))
        if not _only_client(request.headers.get("extkeyusages", "")):
            return error_response(HTTPStatus.FORBIDDEN, "ExtKeyUsages: only [2], client authentication, is signed")
        csr = request.body()
        try:
            key = self._authority.key_in(csr, node)
            why = self._nodes.enrol(KeyEnrolment(node=node, key=key, peer=request.peer, token=token))
            if why:
                return error_response(HTTPStatus.FORBIDDEN, why)
            certificate = self._authority.sign_node(csr, node, now, self._seconds)
        except RequestRefusedError as error:
            return error_response(HTTPStatus.FORBIDDEN, str(error))
        _log.info("node %s has a new certificate, by its %s", node, "token" if request.peer is None else "last")
        return EnrolmentResponse(HTTPStatus.OK, certificate)

    def _authenticated(self, request: EnrolmentRequest, node: str, now: float) -> str:
        """Return the id of the client's token; "" for a certificate, or a token without an id.

        Raises:
            TokenError: the client has no valid token or certificate.
        """
        if request.peer is not None:
            if request.peer.node != node:
                holder = request.peer.node or "no node"
                raise TokenError(f"wrong node: the client certificate is that of {holder}, the request is for {node}")
            if why := self._nodes.refusal_of(request.peer):
                raise TokenError(why)
            return ""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not token:
            raise TokenError("token validation failure: the request has neither a token nor a client certificate")
        return join_tokens.check(token, self._authority.token_key, now).jti


def error_response(status: HTTPStatus, text: str) -> EnrolmentResponse:
    """Return an error response with one line of text."""
    return EnrolmentResponse(status, text.encode(), _TEXT)


def _only_client(usages: str) -> bool:
    if not usages:
        return True
    try:
        return decode_json(usages, list[int]) == [_CLIENT_AUTH]
    except (msgspec.DecodeError, UnicodeError):
        return False
