"""Keeps the lease by which the cloud sees that the node lives (kubelet's lease controller).

Lives on the edged module's thread.
"""

from collections.abc import Callable
from typing import Protocol

from beehive import Clock, ResourceType
from edged.api import Lease, Nanoseconds, Node, encode
from edged.node.status import LEASE_NAMESPACE, new_lease, renewed
from edged.report.reading import read_answer
from edged.settings import EdgedSettings
from metamanager.client import CallError, MetaTurnClient, NotFoundError, RejectedError


class Doubted(Protocol):
    """Told that the node's object may be gone."""

    def __call__(self, *, gone: bool) -> None:
        """`gone`: the cloud has said that there is no lease; the node is looked for at once."""


class LeaseKeeper:
    """See the module's docstring.

    Args:
        node: the registered node, which owns the lease; None while there is none.
        doubted: called when the cloud has refused the lease, or has none.
    """

    def __init__(
        self,
        meta: MetaTurnClient,
        clock: Clock,
        settings: EdgedSettings,
        node: Callable[[], Node | None],
        doubted: Doubted,
    ) -> None:
        self._meta = meta
        self._clock = clock
        self._settings = settings
        self._node = node
        self._doubted = doubted
        self._lease: Lease | None = None
        self._busy = False

    def forget(self) -> None:
        """The node is another one, or gone: its lease is not to be renewed."""
        self._lease = None

    def renew(self, *, is_known: bool = False) -> None:
        """Renew the lease, or make it.

        Args:
            is_known: the cloud has just said that it knows the node. Otherwise the node may be gone where its lease is.
        """
        node = self._node()
        if node is None or self._busy:
            return
        if self._lease is None:
            self._ask(is_known=is_known)
        else:
            lease = renewed(self._lease, node, self._settings.lease_duration, self._now())
            self._busy = True
            self._meta.update(*self._address(), encode(lease), then=self._answered)

    def _ask(self, *, is_known: bool) -> None:
        self._busy = True

        def asked(answer: bytes | CallError) -> None:
            self._busy = False
            if isinstance(answer, NotFoundError):
                if not is_known:
                    self._doubted(gone=False)
                self._make()
            else:
                self._answered(answer)

        self._meta.get(*self._address(), then=asked)

    def _make(self) -> None:
        node = self._node()
        if node is not None:
            lease = new_lease(node, self._settings.lease_duration, self._now())
            self._busy = True
            self._meta.create(*self._address(), encode(lease), then=self._answered)

    def _answered(self, answer: bytes | CallError | None) -> None:
        """A refusal makes the next turn ask for the lease as it is: it may be gone, or newer than ours."""
        self._busy = False
        lease = None if answer is None else read_answer(Lease, answer)
        if lease is not None:
            self._lease = lease
        elif isinstance(answer, RejectedError):
            self._lease = None
            self._doubted(gone=isinstance(answer, NotFoundError))

    def _address(self) -> tuple[ResourceType, str, str]:
        return ResourceType.LEASE, LEASE_NAMESPACE, self._settings.node_name

    def _now(self) -> Nanoseconds:
        return Nanoseconds(self._clock.now_ns())
