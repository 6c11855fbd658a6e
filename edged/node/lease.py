"""LeaseController: the lease that shows the cloud that the node is alive."""

from typing import Protocol

from beehive import Clock, ResourceType
from edged.node.api_answers import read_answer
from edged.node.state import LocalNode
from edged.node.status import LEASE_NAMESPACE, new_lease, renewed_lease
from edged.settings import EdgedSettings
from metamanager.client import AsyncMetaClient, CallError, NotFoundError, RejectedError
from modules.apimachinery.types import Lease, Nanoseconds, encode


class LeaseRefused(Protocol):
    """Called when the Node object may be gone."""

    def __call__(self, *, gone: bool) -> None:
        """`gone`: the cloud has no lease; the Node object is checked immediately."""


class LeaseController:
    """Creates and renews the lease of the node (kubelet's lease controller). Lives on the edged module's thread.

    Args:
        meta: sends the lease.
        clock: the time of a renewal.
        settings: the node's name, and the duration of the lease in seconds.
        node: the state of this node; the registered Node object owns the lease.
        refused: called when the cloud has refused the lease, or lacks it.
    """

    def __init__(
        self,
        meta: AsyncMetaClient,
        clock: Clock,
        settings: EdgedSettings,
        node: LocalNode,
        refused: LeaseRefused,
    ) -> None:
        self._meta = meta
        self._clock = clock
        self._settings = settings
        self._node = node
        self._refused = refused
        self._lease: Lease | None = None
        self._busy = False

    def forget(self) -> None:
        """Drop the lease of a Node object that was deleted or replaced."""
        self._lease = None

    def renew(self, *, is_known: bool = False) -> None:
        """Renew the lease, or create it.

        Args:
            is_known: whether the cloud has just acknowledged the node. Otherwise a missing lease may mean that the node
                is gone too.
        """
        node = self._node.state.registered
        if node is None or self._busy:
            return
        if self._lease is None:
            self._ask(is_known=is_known)
        else:
            lease = renewed_lease(self._lease, node, self._settings.lease_duration, self._now())
            self._busy = True
            self._meta.update(*self._address(), encode(lease), then=self._answered)

    def _ask(self, *, is_known: bool) -> None:
        self._busy = True

        def asked(answer: bytes | CallError) -> None:
            self._busy = False
            if isinstance(answer, NotFoundError):
                if not is_known:
                    self._refused(gone=False)
                self._make()
            else:
                self._answered(answer)
                if self._lease is not None:  # the lease of the node's former life, which may have expired
                    self.renew()

        self._meta.get(*self._address(), then=asked)

    def _make(self) -> None:
        node = self._node.state.registered
        if node is not None:
            lease = new_lease(node, self._settings.lease_duration, self._now())
            self._busy = True
            self._meta.create(*self._address(), encode(lease), then=self._answered)

    def _answered(self, answer: bytes | CallError | None) -> None:
        """Take the answer to a renewal. After a refusal the next renewal reads the lease: it may be gone, or newer."""
        self._busy = False
        lease = None if answer is None else read_answer(Lease, answer)
        if lease is not None:
            self._lease = lease
        elif isinstance(answer, RejectedError):
            self._lease = None
            self._refused(gone=isinstance(answer, NotFoundError))

    def _address(self) -> tuple[ResourceType, str, str]:
        return ResourceType.LEASE, LEASE_NAMESPACE, self._settings.node_name

    def _now(self) -> Nanoseconds:
        return Nanoseconds(self._clock.now_ns())
