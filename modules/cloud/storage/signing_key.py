"""The keys that sign the tokens of service accounts, as they are stored."""

import msgspec


class StoredSigningKey(msgspec.Struct, frozen=True):
    """A key. Its representation does not show it."""

    key_id: str
    """The `kid` in the header of its tokens."""
    made: int
    """Seconds since 1970."""
    retired: int
    """End of its signing, in seconds since 1970; 0 while it signs."""
    pem: bytes
    """The private key, PEM; the public one of a key that signs no more."""

    def __repr__(self) -> str:
        return f"StoredSigningKey(key_id={self.key_id!r}, made={self.made}, retired={self.retired})"
