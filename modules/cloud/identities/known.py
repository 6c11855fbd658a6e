"""The checks of a client's certificate, for the servers of cloudcore."""

import threading
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol

import msgspec

from beehive.clock import Clock
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.identities import rules
from modules.cloud.identities.peer import CertifiedPeer, read_peer
from modules.cloud.identities.records import (
    JoinToken,
    Key,
    NodeIdentity,
    Record,
    RevokedCertificate,
    RevokedUser,
    key_of,
)

NOT_YET: Final = "this cloudcore does not know yet which certificates are revoked: try again soon"
_HELD_SECONDS: Final = 5.0
"""Seconds after the start that connections wait for the records; later ones are refused."""
_MOST_REFUSED: Final = 1000
"""Refused nodes that are remembered, for `cloudcore nodes`."""


class ServesCertified(Protocol):
    """A server with the connections of clients that have certificates."""

    def end_connections(self, refused: Callable[[Mapping[str, Any] | None, str], bool], /) -> None:
        """End the connections of clients whose certificates or credentials (`Authorization`) are refused."""


class RefusedNode(msgspec.Struct, frozen=True):
    """A node whose connection was refused."""

    node: str
    why: str
    at: float
    """Monotonic seconds."""


class KnownIdentities:
    """The records as this cloudcore knows them. Written by the module `identities`, read by any thread.

    The object is made by the process, so it outlives restarts of the module.

    Args:
        clock: for the times of refusals, and how long the records have been loading.
        note_use: called with an accepted certificate that changes its node's record; never blocks.
    """

    def __init__(self, clock: Clock, note_use: Callable[[CertifiedPeer], None] = lambda _: None) -> None:
        self._clock = clock
        self._note_use = note_use
        self._began = clock.monotonic()
        self._lock = threading.Lock()
        self._records: dict[Key, Record] = {}
        self._versions: dict[Key, int] = {}
        self._refused: dict[str, RefusedNode] = {}
        self._changed: list[Callable[[], None]] = []
        self.is_complete = False
        """Whether all records are known."""

    @property
    def is_loading(self) -> bool:
        """Whether connections are to wait for the records, which come soon."""
        return not self.is_complete and self._clock.monotonic() - self._began < _HELD_SECONDS

    def forget(self, changed: Callable[[], None]) -> None:
        """Call a function of `on_change` no more."""
        with self._lock:
            self._changed = [each for each in self._changed if each != changed]

    def on_change(self, changed: Callable[[], None]) -> None:
        """Have a function called, on the module's thread, when a certificate that was accepted may be refused now."""
        with self._lock:
            self._changed.append(changed)

    def put(self, record: Record, version: int = 0) -> None:
        """Take over a record that is new or has changed.

        Args:
            record: the record.
            version: of its object. News of a version before the known one is late, and counts for nothing.
        """
        key = key_of(record)
        with self._lock:
            if version and version < self._versions.get(key, 0):
                return
            before, self._records[key], self._versions[key] = self._records.get(key), record, version
            listeners = list(self._changed)
        if _may_refuse(record, before):
            for changed in listeners:
                changed()

    def remove(self, key: Key, version: int = 0) -> None:
        """Take that a record was deleted; one that was made since then, by the deletion's version, stays."""
        with self._lock:
            if version and version < self._versions.get(key, 0):
                return
            self._records.pop(key, None)
            self._versions.pop(key, None)

    def forget_versions(self) -> None:
        """Note that the versions of the API server started over."""
        with self._lock:
            self._versions.clear()

    def complete(self, keys: Collection[Key], version: int = 0) -> None:
        """Take that all records are known now: those with these keys, and those that this cloudcore has written since
        the list was made, by its version.
        """
        self.is_complete = True
        with self._lock:
            for key in self._records.keys() - set(keys):
                if self._versions.get(key, 0) <= version:
                    del self._records[key]
                    self._versions.pop(key, None)
            listeners = list(self._changed)
        for changed in listeners:
            changed()

    def records(self) -> list[Record]:
        """Return all records, in the order of their kinds and names."""
        with self._lock:
            return [self._records[key] for key in sorted(self._records)]

    def labels_of(self, node: str) -> Mapping[str, str]:
        """Return the labels that a node gets when it registers."""
        with self._lock:
            identity = self._records.get(("node", node))
        return identity.labels if isinstance(identity, NodeIdentity) else {}

    def refused(self) -> list[RefusedNode]:
        """Return the nodes that were refused since they were connected last."""
        with self._lock:
            return list(self._refused.values())

    def refusal(self, certificate: Mapping[str, Any] | None) -> str:
        """Return why a client with this certificate is refused; "" if it is accepted, or without one.

        Args:
            certificate: as `beehive.sockets.tls` returns it.
        """
        peer = read_peer(certificate)
        return self.refusal_of(peer) if peer is not None else ""

    def refusal_of_node(self, node: str, peer: CertifiedPeer | None, *, is_open: bool = False) -> str:
        """Return why the connection of a node is refused; "" if it is accepted. One that is open, and stays so, says
        nothing about another machine that was refused since.

        Without TLS its name counts alone, which proves nothing, and so it need not wait for the records.
        """
        is_early = peer is None and not self.is_complete
        why = "" if is_early else self.refusal_of(peer or CertifiedPeer("", 0.0, node=node))
        with self._lock:
            if why or not is_open:
                self._refused.pop(node, None)
            if why and self.is_complete and len(self._refused) < _MOST_REFUSED:
                self._refused[node] = RefusedNode(node, why, self._clock.monotonic())
        return why

    def accepted(self, peer: CertifiedPeer) -> None:
        """Take that the connection of a node was accepted; any thread."""
        with self._lock:
            identity = self._records.get(("node", peer.node))
        known = identity if isinstance(identity, NodeIdentity) else None
        if rules.used(peer, known, self._clock.now()) is not None:
            self._note_use(peer)

    def refuses_token(self, node: str, issued_at: float) -> bool:
        """Return whether a service account's token is refused because of its pod's node (`rules.refuses_token`).

        Raises:
            ApiStatusError: not all records are known yet.
        """
        if not self.is_complete:
            raise ApiStatusError(HTTPStatus.SERVICE_UNAVAILABLE, NOT_YET)
        with self._lock:
            identity = self._records.get(("node", node))
        return rules.refuses_token(identity if isinstance(identity, NodeIdentity) else None, issued_at)

    def end_connections(
        self, server: ServesCertified, refuses: Callable[[str], bool] = lambda _: False
    ) -> Callable[[], None]:
        """End, whenever something is revoked, the connections of a server whose clients are refused from then on.

        Args:
            server: the server.
            refuses: returns whether the credentials in a header `Authorization` are refused.

        Returns:
            A function that ends this.
        """

        def is_refused(certificate: Mapping[str, Any] | None, credentials: str) -> bool:
            return self.is_complete and (bool(self.refusal(certificate)) or refuses(credentials))

        def changed() -> None:
            server.end_connections(is_refused)

        self.on_change(changed)
        return lambda: self.forget(changed)

    def refusal_of(self, peer: CertifiedPeer) -> str:
        """Return why a client with a certificate is refused; "" if it is accepted."""
        if not self.is_complete:
            return NOT_YET
        with self._lock:
            identity = self._records.get(("node", peer.node)) if peer.node else None
            certificate = self._records.get(("certificate", peer.serial))
            user = self._records.get(("user", peer.user))
        return rules.refusal(
            peer,
            identity if isinstance(identity, NodeIdentity) else None,
            certificate if isinstance(certificate, RevokedCertificate) else None,
            user if isinstance(user, RevokedUser) else None,
        )


def _may_refuse(record: Record, before: Record | None) -> bool:
    """Return whether certificates that were accepted may be refused by a new record."""
    if isinstance(record, NodeIdentity):
        known = before if isinstance(before, NodeIdentity) else None
        is_replaced = known is not None and (record.key, record.replaced_at) != (known.key, known.replaced_at)
        return bool(record.revoked_at) or is_replaced
    return record != before and not isinstance(record, JoinToken)
