"""The token that a node joins with: `{hex SHA-256 of the CA as DER}.{JWT}` (spec/03 §4.1). Pure.

The first part tells the node whether the CA that it fetches without verification is the right one; the JWT tells the
cloud that the node may join. The node cannot verify the JWT, which is signed with the CA's key; it reads when it ends,
only to say so.
"""

import base64
import binascii
import hashlib
import re
from typing import Final, NamedTuple

import msgspec

from edgehub.certificates.errors import AuthorityError, TokenError
from edgehub.certificates.times import shown

LONGEST: Final = 4096
"""Characters of a token that are read."""

_FORM: Final = re.compile(r"([0-9a-fA-F]{64})\.([\w-]+\.[\w-]+\.[\w-]+)", re.ASCII)
_HINT: Final = "`cloudcore token`, or `keadm gettoken`, prints one"


class _Claims(msgspec.Struct):
    exp: float | None = None


class Token(NamedTuple):
    """A token in parts; it does not show itself in a repr."""

    authority: str
    """SHA-256 of the CA, in lower case hexadecimal digits."""

    bearer: str
    """The JWT; a secret."""

    expires: float | None
    """Unix time that the JWT gives as its end; None when it gives none that can be read."""

    def __repr__(self) -> str:
        return f"Token(authority={self.authority[:8]}…, expires={self.expires})"

    @classmethod
    def parse(cls, text: str) -> "Token":
        """The token of a text.

        Raises:
            TokenError: there is none, or it has not the form. The text is not shown.
        """
        if not text.strip():
            raise TokenError("this node has no certificate, and no token to get one with", "", _HINT)
        match = _FORM.fullmatch(text.strip()) if len(text) <= LONGEST else None
        if match is None:
            parts = text.strip().count(".") + 1
            form = "{64 hexadecimal digits}.{JWT of three parts} is wanted"
            raise TokenError("the token has not the form of one", f"{len(text)} characters in {parts} parts",
                             f"{form}; was it copied whole? {_HINT}")  # fmt: skip
        return cls(match[1].lower(), match[2], _expiry(match[2]))

    def check_valid(self, now: float) -> None:
        """Raises TokenError when it has expired by a clock, the cloud's where it is known."""
        if self.expires is not None and self.expires <= now:
            raise TokenError("the token has expired", f"at {shown(self.expires)}, it is {shown(now)} now", _HINT)

    def check_authority(self, certificate: bytes, server: str) -> None:
        """Raises AuthorityError unless a CA (DER) that a server sent is the token's."""
        digest = hashlib.sha256(certificate).hexdigest()
        if digest != self.authority:
            hint = f"the token is for the CA {self.authority[:16]}…: is the address right, is the token of this cloud?"
            raise AuthorityError("the cloud's CA is not the token's", f"{server} has {digest[:16]}…", hint)


def _expiry(jwt: str) -> float | None:
    payload = jwt.split(".")[1]
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims).exp
    except (ValueError, binascii.Error, msgspec.MsgspecError, RecursionError):
        return None
