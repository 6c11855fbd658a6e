"""The HTTP service of applications that call the cloud."""

from typing import Final, Protocol

import msgspec

from beehive.decoding import decode_json
from beehive.http.request import Request
from beehive.http.responses import Response

MAX_BODY: Final = 5_000_000
"""Largest request of an application in bytes (KubeEdge's limit)."""

_OK: Final = 200
_FAILED: Final = 400


class CloudError(Exception):
    """The cloud gave no answer; the text gives the reason."""


class CloudCaller(Protocol):
    """What calls the cloud, on the thread of an application's connection."""

    @property
    def allowed(self) -> frozenset[str]:
        """The URLs that applications may call."""

    def call_cloud(self, url: str, body: bytes) -> str:
        """Return the cloud's answer. Raise CloudError without one."""


class LocalRequest(msgspec.Struct, frozen=True):
    """The part of an application's request that is read here; the cloud reads the rest."""

    target_url: str = msgspec.field(default="", name="targetURL")


class LocalResponse(msgspec.Struct, frozen=True):
    """The response to an application; its HTTP status is always 200, as in KubeEdge."""

    code: int
    msg: str
    body: str = ""


class LocalService:
    """The service of `POST /` with `{"method", "targetURL", "payload"}` (`HttpService`), on the threads of connections.

    Args:
        cloud: calls the cloud.
    """

    def __init__(self, cloud: CloudCaller) -> None:
        self._cloud = cloud

    def serve(self, request: Request) -> Response:
        """Return the response."""
        return Response(_OK, "application/json", msgspec.json.encode(self._answer(request.body)))

    def _answer(self, body: bytes) -> LocalResponse:
        try:
            url = decode_json(body, LocalRequest).target_url
        except (msgspec.DecodeError, UnicodeError):
            return LocalResponse(_FAILED, "invalid params")
        if url not in self._cloud.allowed:
            why = f"url {url[:1024]} is not allowed and please make a rule for this url in the cloud"
            return LocalResponse(_FAILED, why)
        try:
            return LocalResponse(_OK, "receive response from cloud successfully", self._cloud.call_cloud(url, body))
        except CloudError as error:
            return LocalResponse(_FAILED, str(error))
