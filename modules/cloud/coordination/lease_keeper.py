"""Keeps the Lease of a cloudcore, and divides duties by the others' Leases."""

import logging
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from beehive.clock import Clock, Timer
from modules.apimachinery.kinds import version_of
from modules.cloud.client.calls import ApiCall, ApiResult, JsonObject
from modules.cloud.client.reflector.request_state import is_lower
from modules.cloud.coordination.known_cloudcores import KnownCloudcores, owner_of
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.coordination.leases import ObservedLease, call, lease_name, lease_of, observed

_log = logging.getLogger(__name__)

_JITTER: Final = 0.2
"""Share of the period that is added at most: cloudcores that start together do not stay in step."""
_RETRY: Final = 2.0
"""Seconds until a failed renewal is tried again (client-go's retry period)."""
_SLOW_RETRY: Final = 60.0
"""The same when the right or the namespace is missing."""
_COLLECTED_AFTER: Final = 3600.0
"""Seconds of silence after which the Lease of a cloudcore that did not give it up is deleted."""
_MISSING: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)

Perform = Callable[[ApiCall, Callable[[ApiResult], None]], None]

_MOST: Final = 256
"""Leases that are looked at; there are a few cloudcores."""


class LeaseThread(Protocol):
    """The thread of a module, on which functions are called; `Module` has these methods."""

    @property
    def clock(self) -> Clock:
        """The module's clock."""

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call a function later."""


class LeaseListener(Protocol):
    """A listener to the Leases of cloudcores, which answers which duties are this cloudcore's."""

    def owns(self, key: str, /) -> bool:
        """Return whether a duty is this cloudcore's."""

    def observe(self, name: str, lease: JsonObject) -> None:
        """Handle a Lease that exists, or has changed."""

    def gone(self, name: str) -> None:
        """Handle the deletion of a Lease."""

    def synced(self) -> None:
        """Note that the initial list of Leases is complete."""


class _Seen(msgspec.Struct):
    lease: ObservedLease
    since: float
    """When its last renewal was noticed, or it was found."""
    until: float
    """When it expires; not after `since` before its first renewal."""


class Membership:
    """The other cloudcores, as their Leases were seen to change.

    As in client-go's leader election, a Lease counts for its duration from the time when this process has noticed
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

    def duties(self, now: float) -> dict[str, frozenset[str]]:
        """Return what the live cloudcores do, by their identities."""
        return {seen.lease.holder: seen.lease.duties for seen in self._seen.values() if seen.until > now}

    def next_expiry(self, now: float) -> float | None:
        """Return when the next Lease expires unless it is renewed; None when none is alive."""
        return min((seen.until for seen in self._seen.values() if seen.until > now), default=None)

    def silent_for(self, seconds: float, now: float) -> list[ObservedLease]:
        """Return the Leases without a noticed renewal for so many seconds; no Lease lasts as long."""
        return [seen.lease for seen in self._seen.values() if seen.since + seconds <= now]


class LeaseKeeper:
    """The renewer of this cloudcore's Lease, which knows which others are alive (`LeaseListener`).

    A duty is done by the cloudcore that rendezvous hashing gives its key to. A cloudcore that sees no other one alive,
    or cannot read the Leases, does all duties: duties are such that doing one twice harms nothing.

    Args:
        settings: of the Lease.
        identity: of this process, among all cloudcores.
        thread: the module; all methods are called on its thread.
        perform: makes an API call.
        changed: called when others have come or gone, perhaps with duties for this one, or say something else of
            themselves.
        went_back: called when the API server does not have the Lease as it was written: it was restored, which no watch
            tells if others have written as much since, or somebody has deleted the Lease.
        known: what this cloudcore says of itself: its router and duties.
    """

    def __init__(
        self,
        settings: LeaseSettings,
        identity: str,
        thread: LeaseThread,
        perform: Perform,
        changed: Callable[[], None],
        went_back: Callable[[], None],
        known: KnownCloudcores,
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._name = lease_name(settings, identity)
        self._thread = thread
        self._perform = perform
        self._changed = changed
        self._went_back = went_back
        self._known = known
        self._membership = Membership()
        self._others: frozenset[str] = frozenset()
        self.routers: Mapping[str, str] = {}
        """Addresses of the routers of the other live cloudcores, by their identities."""
        self.duties: Mapping[str, AbstractSet[str]] = {}
        """What the other live cloudcores do, by their identities."""
        self._is_synced = False
        self._lease: JsonObject | None = None
        """This cloudcore's, as the API server has answered last."""
        self._is_released = False
        self._is_writing = False
        self._end: Callable[[], None] | None = None
        """Gives up the Lease, after the answer to the write that is under way."""
        self._has_warned = False
        self._was_refused = False
        """Whether the last write was refused since the Lease had changed."""
        self._expiry: Timer | None = None

    @property
    def alive(self) -> tuple[str, ...]:
        """The identities of the cloudcores that are alive, this one included unless it has given up its Lease."""
        own = () if self._is_released else (self._identity,)
        return tuple(sorted({*own, *self._others}))

    def owns(self, key: str) -> bool:
        """Return whether a duty is this cloudcore's."""
        return not self._is_released and (not self._others or owner_of(key, self.alive) == self._identity)

    def start(self) -> None:
        """Write the Lease, and renew it from now on."""
        self._write()

    def release(self, done: Callable[[], None]) -> None:
        """Delete the Lease, as cloudcore stops: others take over its duties at once. It stays when the next process,
        with the same configured name, has it already. `done` is called in any case.

        The answer to a write that is under way comes first: until then the Lease may still be that of the former
        process, or become another version before the deletion.
        """
        self._is_released = True
        if self._is_writing:
            self._end = lambda: self._give_up(done)
        else:
            self._give_up(done)

    def _give_up(self, done: Callable[[], None]) -> None:
        def read(result: ApiResult) -> None:
            if result.object is None or _holder(result.object) != self._identity:
                done()
                return
            options = {"preconditions": {"resourceVersion": result.object["metadata"]["resourceVersion"]}}
            self._perform(call("delete", self._settings, name=self._name, options=options), lambda _: done())

        self._perform(call("get", self._settings, name=self._name), read)

    def observe(self, name: str, lease: JsonObject) -> None:
        """Handle a Lease that exists, or has changed."""
        seen = observed(lease)
        if seen is None:
            self.gone(name)
        elif seen.holder != self._identity:
            self._membership.observe(seen, self._now(), is_new=self._is_synced)
            self._check()

    def gone(self, name: str) -> None:
        """Handle the deletion of a Lease."""
        self._membership.remove(name)
        self._check()

    def synced(self) -> None:
        """Note that the initial list of Leases is complete: a Lease that comes from now on was just made."""
        self._is_synced = True

    def _now(self) -> float:
        return self._thread.clock.monotonic()

    def _check(self) -> None:
        """Determine the live cloudcores, and do so again when the next Lease expires."""
        now = self._now()
        others, before = self._membership.alive(now), self._others
        said, former = (self._membership.routers(now), self._membership.duties(now)), (self.routers, self.duties)
        self._others, (self.routers, self.duties) = others, said
        until = self._membership.next_expiry(now)
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = self._thread.after(until - now, self._check) if until is not None else None
        for each in sorted(others ^ before):
            _log.info("cloudcore %s is %s", each, "alive" if each in others else "gone")
        if (others, said) != (before, former):
            self._changed()

    def _write(self) -> None:
        if self._is_released:
            return
        self._is_writing = True
        router, duties = self._known.own_router, self._known.own_duties
        body = lease_of(self._settings, self._identity, self._thread.clock.now(), self._lease, router, duties)
        if self._lease is None:
            self._perform(call("create", self._settings, body=body), self._written)
        else:
            self._perform(call("update", self._settings, name=self._name, body=body), self._written)
            self._collect()

    def _written(self, result: ApiResult) -> None:
        self._is_writing = False
        if self._end is not None:
            self._end()
            return
        if result.object is not None:
            self._lease = result.object
            self._has_warned = self._was_refused = False
            period = self._settings.period
            self._again(period * (1.0 + _JITTER * self._thread.clock.random.random()))
            return
        code = int((result.refusal or {}).get("code", 0))
        if code == HTTPStatus.CONFLICT:
            self._perform(call("get", self._settings, name=self._name), self._read)
        elif code == HTTPStatus.NOT_FOUND and self._lease is not None:
            self._lease = None
            self._went_back()
            self._again(_RETRY)
        else:
            self._warn(result)
            self._again(_SLOW_RETRY if code in _MISSING else _RETRY)

    def _read(self, result: ApiResult) -> None:
        """Go on with the Lease as it is: the answer to an earlier write was lost, another process has the name, or the
        API server was restored.
        """
        before, self._lease = self._lease, result.object
        if before is not None and result.object is not None and is_lower(version_of(result.object), version_of(before)):
            self._went_back()
        holder = _holder(result.object or {})
        if holder and holder != self._identity:
            _log.warning("the Lease %s was that of %s: does another cloudcore have this name?", self._name, holder)
        is_first, self._was_refused = not self._was_refused, True
        self._again(0.0 if is_first and result.object is not None else _RETRY)

    def _warn(self, result: ApiResult) -> None:
        if not self._has_warned:
            self._has_warned = True
            message = str((result.refusal or {}).get("message", ""))[:300]
            where = f"{self._settings.namespace}/{self._name}"
            hint = "deploy/cloudcore.yaml has the namespace and the rights, --lease-namespace names another"
            text = "the Lease %s cannot be written, so other cloudcores do not see this one: %s (%s)"
            _log.warning(text, where, message, hint)

    def _again(self, seconds: float) -> None:
        self._thread.after(seconds, self._write)

    def _collect(self) -> None:
        """Delete the Leases of cloudcores that were killed long ago, unless this one has it now."""
        for lease in self._membership.silent_for(_COLLECTED_AFTER, self._now()):
            if lease.name != self._name and self.owns(f"lease/{lease.name}"):
                options = {"preconditions": {"resourceVersion": lease.version}}
                self._perform(call("delete", self._settings, name=lease.name, options=options), lambda _: None)


def _holder(lease: JsonObject) -> object:
    return (lease.get("spec") or {}).get("holderIdentity")
