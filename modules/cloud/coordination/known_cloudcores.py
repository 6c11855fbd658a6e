"""The live cloudcores, for code that only reads them, and which of them has a duty."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from hashlib import blake2b
from typing import Final

CLOUDCORES_ORGANIZATION: Final = "kubeedge:cloudcores"
"""The organization in cloudcores' certificates for calls to each other. An authority signs it for nobody else."""


class Duty(StrEnum):
    """Work that one of several cloudcores does. Not each does all: of an API server's cloudcores, those that have it
    embedded may run its controllers, and those at it as a cluster do not.
    """

    CONTROLLERS = "controllers"
    """Deployments, Jobs and their likes (`--controllers embedded`)."""
    DEVICES = "devices"
    """DeviceStatuses of nodes that are not connected."""
    JOBS = "jobs"
    """Node jobs, in a cluster with `--jobs`."""


class KnownCloudcores:
    """Written by edgecontroller, `own_router` by the router, each time as a whole, and read by any thread.

    Args:
        own: the identity of this cloudcore.
        duties: what this cloudcore does if it is the one.
    """

    def __init__(self, own: str = "", duties: AbstractSet[Duty] = frozenset(Duty)) -> None:
        self.own = own
        self.own_duties = duties
        self.alive: tuple[str, ...] = ()
        """Their identities, this one's included; empty before edgecontroller has begun and after it has given up."""
        self.own_router = ""
        """Address and port of this cloudcore's router for other cloudcores; "" if they cannot."""
        self.routers: Mapping[str, str] = {}
        """The same of the others that are alive, by their identities."""
        self.duties: Mapping[str, AbstractSet[str]] = {}
        """What the others that are alive do, by their identities; all that a cloudcore of a former release may do."""

    @property
    def present(self) -> tuple[str, ...]:
        """The live cloudcores; this one while none is known."""
        return self.alive or (self.own,)

    @property
    def is_alone(self) -> bool:
        """Whether no other is known."""
        return len(self.present) == 1

    def owns(self, duty: Duty, key: str = "") -> bool:
        """Return whether a duty is this cloudcore's, of all that do it: for an object with this key, or as a whole."""
        doing = (each for each in self.present if each == self.own or duty in self.duties.get(each, Duty))
        return owner_of(key or duty, doing) == self.own


def owner_of(key: str, identities: Iterable[str]) -> str:
    """Return the identity that owns a key; "" without identities. The order of the identities does not matter.

    Rendezvous hashing (highest random weight): each cloudcore computes it by itself from the identities that are alive.
    When one comes or goes, only the keys that it gets or had change their owner.
    """
    return max(identities, key=lambda identity: (_weight(key, identity), identity), default="")


def _weight(key: str, identity: str) -> bytes:
    return blake2b(f"{key}\0{identity}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
