"""Signed tokens in the compact form (JWS, RFC 7515) with the algorithm ES256 (RFC 7518).

`cryptography` is loaded with the first signature: it takes 8 MB.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.errors import BeehiveError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

ALGORITHM: Final = "ES256"
LONGEST: Final = 16 * 1024
"""Characters of a token."""
_PART: Final = re.compile(r"[\w-]+", re.ASCII)
_PARTS: Final = 3
_SIZE: Final = 32
"""Bytes of a coordinate, and of each of the two numbers of a signature."""
_LONGEST_KEY_ID: Final = 253


class JwsError(BeehiveError):
    """A text is no signed token. The error does not show it."""

    def __init__(self, why: str) -> None:
        super().__init__("cannot read the token", "", why)


class _Header(msgspec.Struct):
    alg: str
    kid: str = ""
    crit: Any = None


class Jws(msgspec.Struct, frozen=True):
    """A token whose signature is not checked yet. Its representation does not show it."""

    key_id: str
    algorithm: str
    payload: bytes
    signed: bytes
    """The text that is signed."""
    signature: bytes

    def __repr__(self) -> str:
        return f"Jws(key_id={self.key_id!r}, algorithm={self.algorithm!r})"


def read_jws(token: str) -> Jws:
    """Return the parts of a token.

    Raises:
        JwsError: it is not a token in the compact form, longer than 16 KiB, or demands extensions.
    """
    parts = token.split(".") if len(token) <= LONGEST else []
    if len(parts) != _PARTS or not all(map(_PART.fullmatch, parts)):
        raise JwsError("it is not three parts of base64url with dots between them")
    try:
        head, payload, signature = (urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in parts)
        header = decode_json(head, _Header)
    except (ValueError, RecursionError) as error:
        raise JwsError("its header is not what it should be") from error
    if header.crit is not None or len(header.kid) > _LONGEST_KEY_ID:
        raise JwsError("its header demands what is not known here")
    return Jws(header.kid, header.alg, payload, f"{parts[0]}.{parts[1]}".encode(), signature)


def sign(payload: bytes, key_id: str, key: ec.EllipticCurvePrivateKey) -> str:
    """Return a new token."""
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - 8 MB
    from cryptography.hazmat.primitives.asymmetric import ec, utils  # noqa: PLC0415 - 8 MB

    header = msgspec.json.encode({"alg": ALGORITHM, "kid": key_id})
    signed = f"{to_base64url(header)}.{to_base64url(payload)}"
    r, s = utils.decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{to_base64url(r.to_bytes(_SIZE, 'big') + s.to_bytes(_SIZE, 'big'))}"


def is_signed_by(jws: Jws, key: ec.EllipticCurvePublicKey) -> bool:
    """Return whether a key on the curve P-256 has signed a token, with ES256."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - 8 MB
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - 8 MB
    from cryptography.hazmat.primitives.asymmetric import ec, utils  # noqa: PLC0415 - 8 MB

    if jws.algorithm != ALGORITHM or len(jws.signature) != 2 * _SIZE:
        return False
    r, s = (int.from_bytes(number, "big") for number in (jws.signature[:_SIZE], jws.signature[_SIZE:]))
    try:
        key.verify(utils.encode_dss_signature(r, s), jws.signed, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def public_jwk(key_id: str, key: ec.EllipticCurvePublicKey) -> dict[str, str]:
    """Return a public key on the curve P-256 as a JSON Web Key (RFC 7517)."""
    numbers = key.public_numbers()
    x, y = (to_base64url(number.to_bytes(_SIZE, "big")) for number in (numbers.x, numbers.y))
    return {"use": "sig", "kty": "EC", "kid": key_id, "crv": "P-256", "alg": ALGORITHM, "x": x, "y": y}


def to_base64url(data: bytes) -> str:
    """Return bytes in base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
