"""The live cloudcores, for code that only reads them, and which of them has a duty."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

CLOUDCORES_ORGANIZATION: Final = "kubeedge:cloudcores"
"""The organization in cloudcores' certificates for calls to each other. An authority signs it for nobody else."""


class KnownCloudcores:
    """Written by edgecontroller, `own_router` by the router, each time as a whole, and read by any thread.

    Args:
        own: the identity of this cloudcore.
    """

    def __init__(self, own: str = "") -> None:
        self.own = own
        self.alive: tuple[str, ...] = ()
        """Their identities, this one's included; empty before edgecontroller has begun and after it has given up."""
        self.own_router = ""
        """Address and port of this cloudcore's router for other cloudcores; "" if they cannot."""
        self.routers: Mapping[str, str] = {}
        """The same of the others that are alive, by their identities."""

    @property
    def present(self) -> tuple[str, ...]:
        """The live cloudcores; this one while none is known."""
        return self.alive or (self.own,)

    @property
    def is_alone(self) -> bool:
        """Whether no other is known."""
        return len(self.present) == 1

    def owns(self, key: str) -> bool:
        """Return whether a duty is this cloudcore's."""
        return owner_of(key, self.present) == self.own


def owner_of(key: str, identities: Iterable[str]) -> str:
    """Return the identity that owns a key; "" without identities. The order of the identities does not matter.

    Rendezvous hashing (highest random weight): each cloudcore computes it by itself from the identities that are alive.
    When one comes or goes, only the keys that it gets or had change their owner.
    """
    return max(identities, key=lambda identity: (_weight(key, identity), identity), default="")


def _weight(key: str, identity: str) -> bytes:
    return blake2b(f"{key}\0{identity}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
