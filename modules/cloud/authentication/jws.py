"""Signed tokens in the compact form (JWS, RFC 7515) with the asymmetric algorithms of RFC 7518.

Own tokens are signed with ES256. `cryptography` is loaded with the first signature: it takes 8 MB.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.errors import BeehiveError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey

ALGORITHM: Final = "ES256"
"""Of own tokens."""
ALGORITHMS: Final = tuple(f"{family}{bits}" for family in ("RS", "ES", "PS") for bits in (256, 384, 512))
"""Whose signatures can be checked."""
CURVES: Final = {"P-256": "secp256r1", "P-384": "secp384r1", "P-521": "secp521r1"}
"""OpenSSL's names of JOSE's elliptic curves."""
LONGEST: Final = 16 * 1024
"""Characters of a token."""
_PART: Final = re.compile(r"[\w-]+", re.ASCII)
_PARTS: Final = 3
_SIZE: Final = 32
"""Bytes of a coordinate on P-256, and of each of the two numbers of its signatures."""
_SIZES: Final = {"ES256": ("P-256", _SIZE), "ES384": ("P-384", 48), "ES512": ("P-521", 66)}
"""The curve of an algorithm, and the bytes of each of the two numbers of a signature."""
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
    if len(parts) != _PARTS:
        raise JwsError("it is not three parts with dots between them")
    try:
        head, payload, signature = map(from_base64url, parts)
        header = decode_json(head, _Header)
    except ValueError as error:
        raise JwsError("a part is not base64url, or its header is not what it should be") from error
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


def is_signed_by(jws: Jws, key: PublicKey) -> bool:
    """Return whether a key has signed a token. The key decides on the algorithms: a curve has one, and RSA keys have
    RSASSA-PKCS1-v1_5 (RS256 …) and RSASSA-PSS (PS256 …), so no token is accepted whose key was used as a secret.
    """
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - 8 MB
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - 8 MB
    from cryptography.hazmat.primitives.asymmetric import ec, padding, utils  # noqa: PLC0415 - 8 MB

    if jws.algorithm not in ALGORITHMS:
        return False
    family = jws.algorithm[:2]
    algorithm = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}[jws.algorithm[2:]]
    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            curve, size = _SIZES.get(jws.algorithm, ("", 0))
            if CURVES.get(curve) != key.curve.name or len(jws.signature) != 2 * size:
                return False
            r, s = (int.from_bytes(number, "big") for number in (jws.signature[:size], jws.signature[size:]))
            key.verify(utils.encode_dss_signature(r, s), jws.signed, ec.ECDSA(algorithm))
            return True
        if family == "ES":
            return False
        pss = padding.PSS(padding.MGF1(algorithm), algorithm.digest_size)
        key.verify(jws.signature, jws.signed, pss if family == "PS" else padding.PKCS1v15(), algorithm)
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


def from_base64url(text: str) -> bytes:
    """Return the bytes of a text in base64url without padding.

    Raises:
        ValueError: it is not base64url, or empty.
    """
    if not _PART.fullmatch(text):
        raise ValueError("not base64url")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
