"""Decides from their Leases which cloudcores are alive."""

from typing import Final

import msgspec

from modules.cloud.coordination.leases import ObservedLease

_MOST: Final = 256
"""Leases that are looked at; there are a few cloudcores."""


class _Seen(msgspec.Struct):
    lease: ObservedLease
    since: float
    """When its last renewal was noticed, or it was found."""
    until: float
    """When it expires; not after `since` for one that has not renewed yet."""


class Membership:
    """The other cloudcores, as their Leases were seen to change.

    As in client-go's leader election, a Lease counts for its duration from the time at which this process has noticed
    its last renewal, by the monotonic clock of this process: clocks of machines differ. A Lease that is there at the
    start counts from its next renewal on: so a cloudcore that starts after a crash does not wait for
    the Leases of dead processes to expire.

    All times are monotonic seconds.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        """The observed Leases, by name."""

    def observe(self, lease: ObservedLease, now: float, *, is_new: bool) -> None:
        """Note a Lease as it is now.

        Args:
            lease: the Lease.
            now: the time.
            is_new: whether a Lease that is not known yet was made just now; otherwise it may be old.
        """
        seen = self._seen.get(lease.name)
        if seen is None and len(self._seen) >= _MOST:
            return
        if seen is not None and seen.lease.renewal == lease.renewal:
            seen.lease = lease
            return
        counts = seen is not None or is_new
        self._seen[lease.name] = _Seen(lease, now, now + lease.duration if counts else now)

    def remove(self, name: str) -> None:
        """Note that a Lease was deleted, or given up."""
        self._seen.pop(name, None)

    def alive(self, now: float) -> frozenset[str]:
        """Return the identities that hold a Lease that has not expired."""
        return frozenset(seen.lease.holder for seen in self._seen.values() if seen.until > now)

    def routers(self, now: float) -> dict[str, str]:
        """Return the addresses of the live cloudcores' routers, by the cloudcores' identities."""
        alive = (seen.lease for seen in self._seen.values() if seen.until > now)
        return {lease.holder: lease.router for lease in alive if lease.router}

    def next_expiry(self, now: float) -> float | None:
        """Return when the next Lease expires unless it is renewed; None when none is alive."""
        return min((seen.until for seen in self._seen.values() if seen.until > now), default=None)

    def silent_for(self, seconds: float, now: float) -> list[ObservedLease]:
        """Return the expired Leases without a noticed renewal for so many seconds."""
        return [seen.lease for seen in self._seen.values() if seen.until <= now and seen.since + seconds <= now]
