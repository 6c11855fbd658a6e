"""What a request to the HTTPS server gets (spec/03 §4.2): a decision that only signs and logs.

A client certificate goes before a token, as in KubeEdge: who shows one is judged by it alone.
"""

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus

import msgspec

from modules.cloudhub.certificates import tokens
from modules.cloudhub.certificates.authority import Authority
from modules.cloudhub.certificates.errors import RequestRefusedError, TokenError
from modules.cloudhub.certificates.names import is_node_name

_log = logging.getLogger(__name__)
_CLIENT_AUTH = 2
"""Go's x509.ExtKeyUsageClientAuth, the only usage that is signed."""
_BINARY = "application/octet-stream"
_TEXT = "text/plain; charset=utf-8"
_NODE_PATH = "/node/"


class Request(msgspec.Struct, frozen=True):
    """What came."""

    method: str
    path: str
    headers: Mapping[str, str]
    """With names in lower case."""
    body: bytes = b""
    has_certificate: bool = False
    """The client has shown a certificate of our authority."""
    certificate_node: str = ""
    """The node that the certificate speaks for; empty when it is no node's."""


class Answer(msgspec.Struct, frozen=True):
    """What it gets."""

    status: HTTPStatus
    body: bytes
    content_type: str = _BINARY

    @property
    def text(self) -> str:
        """The body for a log; of a certificate only its length."""
        return self.body.decode() if self.content_type == _TEXT else f"{len(self.body)} bytes"


class Enrolment:
    """Hands out certificates.

    Args:
        authority: signs them.
        is_node: whether a node of this name is registered; may block.
        seconds: how long a node's certificate is good for.
    """

    def __init__(self, authority: Authority, is_node: Callable[[str], bool], seconds: float) -> None:
        self._authority = authority
        self._is_node = is_node
        self._seconds = seconds

    def answer(self, request: Request, now: float) -> Answer:
        """The answer to a request; `now` in seconds since the epoch."""
        path = request.path.partition("?")[0]
        if request.method != "GET":
            return refusal(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is served")
        if path == "/ca.crt":
            return Answer(HTTPStatus.OK, self._authority.der)
        if path == "/edge.crt":
            return self._certificate(request, now)
        if path.startswith(_NODE_PATH) and is_node_name(name := path.removeprefix(_NODE_PATH)):
            return self._node(name)
        return refusal(HTTPStatus.NOT_FOUND, "nothing is served here")

    def _node(self, name: str) -> Answer:
        if self._is_node(name):
            return Answer(HTTPStatus.OK, b"Node found", _TEXT)
        return refusal(HTTPStatus.NOT_FOUND, "Node not found")

    def _certificate(self, request: Request, now: float) -> Answer:
        node = request.headers.get("nodename", "")
        if not is_node_name(node):
            return refusal(HTTPStatus.BAD_REQUEST, "header NodeName is missing or is not a node name")
        stranger = self._reason_against(request, node, now)
        if stranger:
            return refusal(HTTPStatus.UNAUTHORIZED, stranger)
        if not _only_client(request.headers.get("extkeyusages", "")):
            return refusal(HTTPStatus.FORBIDDEN, "ExtKeyUsages: only [2], client authentication, is signed")
        try:
            certificate = self._authority.sign_node(request.body, node, now, self._seconds)
        except RequestRefusedError as error:
            return refusal(HTTPStatus.FORBIDDEN, str(error))
        _log.info("node %s has a new certificate, by its %s", node, "last" if request.has_certificate else "token")
        return Answer(HTTPStatus.OK, certificate)

    def _reason_against(self, request: Request, node: str, now: float) -> str:
        if request.has_certificate:
            if request.certificate_node == node:
                return ""
            holder = request.certificate_node or "no node"
            return f"wrong node: the client certificate is that of {holder}, the request is for {node}"
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not token:
            return "token validation failure: the request has neither a token nor a client certificate"
        try:
            tokens.check(token, self._authority.token_key, now)
        except TokenError as error:
            return str(error)
        return ""


def refusal(status: HTTPStatus, text: str) -> Answer:
    """An answer that says in one line why there is no other."""
    return Answer(status, text.encode(), _TEXT)


def _only_client(usages: str) -> bool:
    if not usages:
        return True
    try:
        return msgspec.json.decode(usages, type=list[int]) == [_CLIENT_AUTH]
    except (msgspec.DecodeError, UnicodeError):
        return False
