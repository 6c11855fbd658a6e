"""The lease that shows the cloud that the node is alive: its content, how often it is renewed, and who renews it."""

from typing import Final, Protocol

import msgspec

from beehive import Clock, ResourceType
from edged.node.api_answers import read_answer
from edged.node.state import LocalNode
from edged.settings import EdgedSettings
from metamanager.client import AsyncMetaClient, CallError, NotFoundError, RejectedError
from modules.apimachinery.types import Lease, Nanoseconds, Node, ObjectMeta, OwnerReference, encode
from modules.apimachinery.types.leases import LeaseSpec
from modules.apimachinery.types.times import format_micro_time

LEASE_NAMESPACE: Final = "kube-node-lease"

LEASE_RENEW_FRACTION: Final = 5 / 16
"""Part of a lease's duration after which it is renewed. A kubelet does so after a quarter; but a renewal with its
answer and the acknowledgement takes 1.5 KB, most of an idle node's traffic. Two of three renewals in a row may be lost
before the cloud, which waits for 40 s (`--node-monitor-grace-period`), gives the node up."""


class LeaseRefused(Protocol):
    """Called when the Node object may be gone."""

    def __call__(self, *, gone: bool) -> None:
        """`gone`: the cloud has no lease; the Node object is checked immediately."""


class LeaseController:
    """The controller that creates and renews the node's lease (kubelet's lease controller). Lives on the edged module's
    thread.

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


def new_lease(node: Node, seconds: int, now: Nanoseconds) -> Lease:
    """Return the lease of a registered node. The node owns it, so that it is deleted with the node."""
    name = node.metadata.name
    return Lease(
        metadata=ObjectMeta(name=name, namespace=LEASE_NAMESPACE, owner_references=(_owner(node),)),
        spec=LeaseSpec(holder_identity=name, lease_duration_seconds=seconds, renew_time=format_micro_time(now)),
    )


def renewed_lease(lease: Lease, node: Node, seconds: int, now: Nanoseconds) -> Lease:
    """Return the lease held for another `seconds` from now on. The lease of an earlier Node object gets this one as its
    owner, or it would be collected with the earlier one; so does a lease without owners, or it would outlive the node.

    Fields that the API server ignores in an update are left out: a lease is sent seven thousand times a day.
    """
    spec = msgspec.structs.replace(lease.spec, lease_duration_seconds=seconds, renew_time=format_micro_time(now))
    owners = lease.metadata.owner_references
    if not owners or any(owner.kind == "Node" and owner.uid != node.metadata.uid for owner in owners):
        owners = (_owner(node),)
    metadata = msgspec.structs.replace(lease.metadata, uid="", creation_timestamp=None, owner_references=owners)
    return msgspec.structs.replace(lease, metadata=metadata, spec=spec)


def _owner(node: Node) -> OwnerReference:
    return OwnerReference(api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid)
