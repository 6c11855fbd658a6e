"""The paths of the control socket for join tokens and revocations."""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from beehive.decoding import decode_json
from beehive.http.request import Request
from beehive.http.responses import Response, json
from beehive.message import Message
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.identities import messages
from modules.cloud.identities.messages import Identities, Revocation, TokenSettings, Withdrawal

TOKENS: Final = "tokens"
REVOCATIONS: Final = "revocations"
ALLOWANCES: Final = "allowances"
IDENTITIES: Final = "identities"
REGISTRAR: Final = "registrar"
_LONGEST: Final = 253
_TOKEN: Final = "token"  # noqa: S105 - the operation of a message

Ask = Callable[[str, str, object], Message]
"""Returns a module's answer to an operation with a content; raises ApiStatusError."""
T = TypeVar("T")


class TokenResponseBody(msgspec.Struct, frozen=True):
    """The response to `POST /cloudcore/tokens`."""

    token: str


class RevocationOutcome(msgspec.Struct, frozen=True):
    """The response to a revocation, its end, and a withdrawal."""

    remark: str = ""
    """The refusal; "" if it was done."""


class IdentityService:
    """The service of `/cloudcore/identities`, `/cloudcore/revocations`, `/cloudcore/allowances` and
    `/cloudcore/tokens`.

    Args:
        ask: asks the modules.
        administrator: who asks.
    """

    def __init__(self, ask: Ask, administrator: str) -> None:
        self._ask = ask
        self._by = administrator[:_LONGEST]

    def serve(self, request: Request) -> Response:
        """Return the response. Raise ApiStatusError for a refused request."""
        match request.method, request.parts[1:]:
            case "GET" | "HEAD", (found,) if found == IDENTITIES:
                return _body(self._ask(messages.NAME, messages.LIST, None).content_as(Identities))
            case "POST", (found,) if found == TOKENS:
                settings = msgspec.structs.replace(_read(request, TokenSettings), by=self._by)
                return _body(TokenResponseBody(self._ask(REGISTRAR, _TOKEN, settings).content_as(str)))
            case "DELETE", (found, name) if found == TOKENS:
                withdrawn = Withdrawal(name=name, reason=request.first("reason")[:_LONGEST], by=self._by)
                return self._outcome(messages.WITHDRAW_TOKEN, withdrawn)
            case "POST", (found,) if found == REVOCATIONS:
                return self._outcome(messages.REVOKE, self._revocation(request))
            case "POST", (found,) if found == ALLOWANCES:
                return self._outcome(messages.ALLOW, self._revocation(request))
            case _, (found, *_) if found in (TOKENS, REVOCATIONS, ALLOWANCES, IDENTITIES):
                raise ApiStatusError(405, "this method is not served here")
            case _:
                raise ApiStatusError(404, "the server could not find the requested resource")

    def _revocation(self, request: Request) -> Revocation:
        return msgspec.structs.replace(_read(request, Revocation), by=self._by)

    def _outcome(self, operation: str, content: object) -> Response:
        return _body(RevocationOutcome(self._ask(messages.NAME, operation, content).content_as(str)))


def _read(request: Request, kind: type[T]) -> T:
    try:
        return decode_json(request.body or b"{}", kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ApiStatusError(400, f"the body cannot be read: {error}") from error


def _body(body: msgspec.Struct) -> Response:
    return json(msgspec.json.encode(body))
