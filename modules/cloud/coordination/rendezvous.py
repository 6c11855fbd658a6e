"""Rendezvous hashing (highest random weight): which of several cloudcores has a duty.

Each cloudcore computes it by itself from the identities that are alive. When one comes or goes, only the keys that it
gets or had change their owner.
"""

from collections.abc import Iterable
from hashlib import blake2b


def owner_of(key: str, identities: Iterable[str]) -> str:
    """Return the identity that owns a key; "" without identities. The order of the identities does not matter."""
    return max(identities, key=lambda identity: (_weight(key, identity), identity), default="")


def _weight(key: str, identity: str) -> bytes:
    return blake2b(f"{key}\0{identity}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
