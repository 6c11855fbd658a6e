"""A request of the cloud to an application on the node, and the answers to the cloud. Pure."""

from http import HTTPStatus
from typing import Final

from beehive.errors import BeehiveError
from beehive.http.call import CallFailedError, HttpCall, HttpReply
from beehive.http.forwarding import ForwardedRequest, ForwardedResponse, from_wire, passed_on, refusal, to_wire
from beehive.message import Message
from beehive.names import Source
from beehive.whole_numbers import whole_number

APPLICATION_SECONDS: Final = 10.0
"""Seconds for an application's whole response (KubeEdge's)."""

MOST_BODY: Final = 5_000_000
"""Largest response of an application in bytes (KubeEdge's limit; it silently cuts off the rest)."""

_LOOPBACK: Final = "127.0.0.1"
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_LONGEST_TARGET: Final = 16 * 1024


class UncallableError(BeehiveError):
    """A message of the cloud that makes no call."""

    def __init__(self, why: str) -> None:
        super().__init__("cannot call an application", why)
        self.why = why


def call_of(message: Message) -> HttpCall:
    """Return the call that a message requests.

    The resource is `PORT:/path?query`. In 2019 the path had no slash and the method was the operation.

    Raises:
        UncallableError: port, path, method or content cannot be used.
    """
    resource = message.route.resource
    port, colon, target = resource.partition(":")
    if not (colon and 0 < (whole_number(port, 5) or 0) < 65536):
        raise UncallableError(f"the format of resource {resource[:200]} is incorrect: PORT:/PATH is wanted")
    target = target if target.startswith("/") or message.route.source != Source.ROUTER_REST else f"/{target}"
    if not target.startswith("/") or len(target) > _LONGEST_TARGET or not target.isascii() or " " in target:
        raise UncallableError("the path must begin with a slash, and be quoted")
    try:
        asked = message.content_as(ForwardedRequest)
    except BeehiveError as error:
        raise UncallableError("the content is no request with header, body and method") from error
    method = asked.method or message.route.operation
    if method not in _METHODS:
        raise UncallableError(f"the method {method[:20]} is none of {', '.join(_METHODS)}")
    headers = passed_on(from_wire(asked.header))
    if not any(name.lower() == "accept" for name, _ in headers):
        headers = (("Accept", "*/*"), *headers)
    return HttpCall(method, _LOOPBACK, int(port), target, headers, asked.body or b"")


def answer_of(reply: HttpReply) -> ForwardedResponse:
    """Return the answer with an application's response."""
    return ForwardedResponse(to_wire(reply.headers), reply.status, reply.body)


def failure(error: CallFailedError) -> ForwardedResponse:
    """Return the answer for an application that gives no response: 404 if nothing listens on the port, 504 if the
    application is too slow, otherwise 502 (KubeEdge answers 404 to all of these).
    """
    if error.timed_out:
        return refusal(HTTPStatus.GATEWAY_TIMEOUT, f"the application has not answered: {error.why}")
    status = HTTPStatus.BAD_GATEWAY if error.sent else HTTPStatus.NOT_FOUND
    return refusal(status, f"error to call service: {error.why}")
