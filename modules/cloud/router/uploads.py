"""Messages of nodes to the cloud, and the calls of servers that they cause. Pure."""

from typing import Final
from urllib.parse import quote

import msgspec

from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from beehive.http.call import HttpCall
from beehive.message import Message
from modules.cloud.router.records import TargetUrl
from modules.cloud.router.rest_service import METHODS

_TEXT: Final = ("Content-Type", "text/plain; charset=utf-8")
_JSON: Final = ("Content-Type", "application/json")


class UploadError(BeehiveError):
    """A message of a node that cannot be passed on."""

    def __init__(self, why: str) -> None:
        super().__init__("cannot pass a message on", why)
        self.why = why


class ApplicationRequest(msgspec.Struct, frozen=True):
    """A request that an application has posted to its node's servicebus."""

    method: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"null")
    """Not decoded: millions of values may be in it."""


def call_of_message(message: Message, server: TargetUrl, node: str, topic: str) -> HttpCall:
    """Return the call for a message of MQTT: a POST with its text, and with node and topic as headers.

    Raises:
        UploadError: the message has no text.
    """
    try:
        body = message.content_as(str).encode()
    except (BeehiveError, UnicodeError) as error:
        raise UploadError("its content is no text") from error
    origin = ("X-Node-Name", node), ("X-Mqtt-Topic", quote(topic, safe="/-._~$ "))
    return _call("POST", server, (_TEXT, *origin), body)


def call_of_application(message: Message, server: TargetUrl, node: str) -> HttpCall:
    """Return the call for an application's request: with its method (POST without one), and with its payload, a text as
    it is, any other value as JSON.

    Raises:
        UploadError: the request cannot be read.
    """
    try:
        asked = message.content_as(ApplicationRequest)
        kind, body = _payload(asked.payload)
    except (BeehiveError, msgspec.DecodeError, UnicodeError) as error:
        raise UploadError('a request such as {"method": "POST", "targetURL": "…", "payload": "…"} is wanted') from error
    method = asked.method.upper() or "POST"
    if method not in METHODS:
        raise UploadError(f"the method is none of {', '.join(METHODS)}")
    return _call(method, server, (*((kind,) if body else ()), ("X-Node-Name", node)), body)


def _payload(payload: msgspec.Raw) -> tuple[tuple[str, str], bytes]:
    content = bytes(payload).strip()
    if content.startswith(b'"'):
        return _TEXT, decode_json(content, str).encode(errors="replace")
    return _JSON, b"" if content == b"null" else content


def _call(method: str, server: TargetUrl, headers: tuple[tuple[str, str], ...], body: bytes) -> HttpCall:
    return HttpCall(method, server.host, server.port, server.target, headers, body, server.scheme)
