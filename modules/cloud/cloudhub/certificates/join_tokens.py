"""The tokens that nodes join with (docs/protocol.md, "Tokens").

A token is the SHA-256 of the CA certificate, a dot, and a JWT signed by HS256 with the CA's private key.
KubeEdge's only claim is the expiry. Here there is also the id of the token's record, which has the token's rights,
and claims that tell a node whether the token is for it.
"""

import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TypeVar

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.times import format_rfc3339
from modules.cloud.cloudhub.certificates.errors import TokenError

_HEADER = {"alg": "HS256", "typ": "JWT"}
_LONGEST = 4096
_BASE64URL = re.compile(r"[\w-]*", re.ASCII)
_CHECKING = "token validation failure"
_NEW_ONE = "`cloudcore token` prints a new one"


T = TypeVar("T")


class _Header(msgspec.Struct):
    alg: str


class Claims(msgspec.Struct, omit_defaults=True):
    """The claims of a token."""

    exp: float
    """Seconds since the epoch."""
    jti: str = ""
    """The id; "" in tokens of earlier cloudcores, and of KubeEdge's."""
    node: str = ""
    """The only node that can join with it; "" for any."""
    replace: bool = False
    """Whether the node's name may belong to another machine then."""


def issue(authority: bytes, key: bytes, claims: Claims) -> str:
    """Return a new token.

    Args:
        authority: the CA certificate in DER.
        key: the CA's private key in DER (SEC 1, as KubeEdge has it).
        claims: of the token; the expiry is rounded down.
    """
    whole = msgspec.structs.replace(claims, exp=int(claims.exp))
    signed = f"{_encode(msgspec.json.encode(_HEADER))}.{_encode(msgspec.json.encode(whole))}"
    return f"{hashlib.sha256(authority).hexdigest()}.{signed}.{_encode(_signature(signed, key))}"


def check(jwt: str, key: bytes, now: float) -> Claims:
    """Check the JWT of a token, which a node sends without the CA's hash, and return its claims.

    Raises:
        TokenError: it is malformed, not signed with this key, or expired; the message names the reason.
    """
    parts = jwt.split(".")
    if len(jwt) > _LONGEST or len(parts) != 3:
        raise TokenError(_CHECKING, "the token is not three parts with dots between them", _NEW_ONE)
    header, claims, signature = parts
    if _decode(header, _Header).alg != _HEADER["alg"]:
        raise TokenError(_CHECKING, "the token's signature is not HS256", _NEW_ONE)
    if not hmac.compare_digest(_signature(f"{header}.{claims}", key), _bytes_of(signature)):
        raise TokenError(_CHECKING, "signature is invalid: the token is of another cloudcore", _NEW_ONE)
    found = _decode(claims, Claims)
    expires = found.exp
    if now >= expires:
        ended = f"token is expired: it ended at {format_rfc3339(expires)}, now it is {format_rfc3339(now)}"
        raise TokenError(_CHECKING, ended, _NEW_ONE)
    return found


def _signature(signed: str, key: bytes) -> bytes:
    return hmac.digest(key, signed.encode(), "sha256")


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes_of(part: str) -> bytes:
    """Decode base64url strictly: Python's decoder ignores other letters, so a token would have many spellings."""
    try:
        if not _BASE64URL.fullmatch(part):
            raise ValueError("a letter that is not of base64url")
        return urlsafe_b64decode(part.encode("ascii") + b"=" * (-len(part) % 4))
    except ValueError as error:
        raise TokenError(_CHECKING, "the token is not base64", _NEW_ONE) from error


def _decode(part: str, kind: type[T]) -> T:
    try:
        return decode_json(_bytes_of(part), kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise TokenError(_CHECKING, "the token's parts are not what they should be", _NEW_ONE) from error
