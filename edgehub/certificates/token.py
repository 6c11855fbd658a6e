"""The token of a joining node: `{hex SHA-256 of the CA as DER}.{JWT}` (docs/protocol.md, "Tokens"). Pure.

By the first part the node verifies the CA that it fetches over an unverified connection; by the JWT the cloud admits
the node. The node cannot verify the JWT, which the CA's key has signed; it reads the expiry only for its error text.
"""

import base64
import hashlib
import re
from typing import Final

import msgspec

from beehive.decoding import decode_json
from beehive.patterns import pattern
from edgehub.certificates.certificate import format_time
from edgehub.errors import AuthorityError, TokenError

LONGEST: Final = 4096
"""Largest token in characters."""

_FORM: Final = pattern(r"([0-9a-fA-F]{64})\.([\w-]+\.[\w-]+\.[\w-]+)", re.ASCII)
HOW_TO_GET_ONE: Final = "`cloudcore token`, or `keadm gettoken`, prints one"


class _Claims(msgspec.Struct):
    exp: float | None = None
    node: str = ""
    replace: bool = False


class Token(msgspec.Struct, frozen=True):
    """A parsed token; `repr` omits the secret."""

    authority: str
    """SHA-256 of the CA, in lower case hexadecimal digits."""

    bearer: str
    """The JWT; a secret."""

    expires: float | None
    """Unix time when the JWT expires; None if it has no readable time."""

    node: str = ""
    """The only node that can join with it; empty for any."""

    replaces: bool = False
    """Whether the node's name may belong to another machine then."""

    def __repr__(self) -> str:
        return f"Token(authority={self.authority[:8]}…, expires={self.expires})"

    @classmethod
    def parse(cls, text: str) -> "Token":
        """Parse a token.

        Raises:
            TokenError: the text is empty or malformed; the error does not quote it.
        """
        if not text.strip():
            raise TokenError("this node has no certificate, and no token to get one with", "", HOW_TO_GET_ONE)
        match = _FORM.fullmatch(text.strip()) if len(text) <= LONGEST else None
        if match is None:
            parts = text.strip().count(".") + 1
            form = "{64 hexadecimal digits}.{JWT of three parts} is wanted"
            raise TokenError("the token is malformed", f"{len(text)} characters in {parts} parts",
                             f"{form}; was it copied whole? {HOW_TO_GET_ONE}")  # fmt: skip
        claims = _claims(match[2])
        return cls(match[1].lower(), match[2], claims.exp, claims.node, claims.replace)

    def check_valid(self, now: float) -> None:
        """Raise TokenError if the token has expired by `now`, the Unix time of the cloud's clock if it is known."""
        if self.expires is not None and self.expires <= now:
            raise TokenError(
                "the token has expired", f"at {format_time(self.expires)}, it is {format_time(now)} now", HOW_TO_GET_ONE
            )

    def check_node(self, node: str, *, replaces: bool) -> None:
        """Raise TokenError if the token is for another node or, for a machine that takes another's place, not for
        that.
        """
        if self.node and self.node != node:
            hint = f"`edgecore join --name {self.node}`, or a token for this name: {HOW_TO_GET_ONE}"
            raise TokenError("the token is for another node", f"for {self.node}, this node is {node}", hint)
        if replaces and not self.replaces:
            hint = f"`cloudcore token --node {node} --replace` prints one that does"
            raise TokenError("the token does not allow a machine to replace another", f"node {node}", hint)

    def check_authority(self, certificate: bytes, server: str) -> None:
        """Raise AuthorityError unless the CA (DER) that a server sent is the token's."""
        digest = hashlib.sha256(certificate).hexdigest()
        if digest != self.authority:
            hint = f"the token is for the CA {self.authority[:16]}…: is the address right, is the token of this cloud?"
            raise AuthorityError("the cloud's CA is not the token's", f"{server} has {digest[:16]}…", hint)


def _claims(jwt: str) -> _Claims:
    payload = jwt.split(".")[1]
    try:
        return decode_json(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), _Claims)
    except (ValueError, msgspec.MsgspecError):
        return _Claims()
