"""Registers the node, keeps its lease, and reports its status: when it changed, else every hour.

The steps are a kubelet's as KubeEdge's cloud sees them: insert the node (or take the one that is there), patch its
status until it says Ready, insert or renew the lease. Each waits for its answer in a callback; what fails is tried
again at the next tick or as soon as the cloud is connected.

Lives on the edged module's thread.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from beehive import Clock, ResourceType
from edged.api import Lease, Nanoseconds, Node, decode, encode
from edged.api.codec import DecodeError
from edged.events.node import NodeEvents
from edged.node.status import (
    LEASE_NAMESPACE,
    Report,
    labels,
    new_lease,
    node_object,
    node_status,
    renewed,
    worth_sending,
)
from edged.pods.patch import diff_node
from edged.settings import EdgedSettings
from metamanager.client import (
    AlreadyExistsError,
    CallError,
    MetaTurnClient,
    NoAnswerError,
    NotFoundError,
    RejectedError,
)

T = TypeVar("T", bound=msgspec.Struct)
_log = logging.getLogger(__name__)


class NodeMarks(Protocol):
    """What somebody has to say of the node in its metadata."""

    def labels(self) -> Mapping[str, str]:
        """Labels to set."""

    def annotations(self, known: Mapping[str, str]) -> dict[str, str]:
        """All annotations of the node, given those that it has."""


class NoMarks:
    """Nobody has anything to say (`NodeMarks`)."""

    def labels(self) -> Mapping[str, str]:
        """None."""
        return {}

    def annotations(self, known: Mapping[str, str]) -> dict[str, str]:
        """Those that it has."""
        return dict(known)


class NodeReporter:
    """See the module's docstring.

    Args:
        report: makes the report of this moment; None while the machine's figures cannot be read.
        registered: is told whenever the cloud has said that it knows the node.
        events: is told what becomes of the node.
        marks: what others have to say of the node in its labels and annotations; nobody unless given.
    """

    def __init__(
        self,
        meta: MetaTurnClient,
        clock: Clock,
        settings: EdgedSettings,
        report: Callable[[], Report | None],
        registered: Callable[[], None],
        events: NodeEvents,
        marks: NodeMarks | None = None,
    ) -> None:
        self._events = events
        self._meta = meta
        self._clock = clock
        self._settings = settings
        self._report = report
        self._marks = marks or NoMarks()
        self._registered = registered
        self._node: Node | None = None
        self._sent_at = float("-inf")
        self._lease: Lease | None = None
        self._registering = False
        self._register_again = False
        self._patching = False
        self._leasing = False

    @property
    def node(self) -> Node | None:
        """The node as the cloud has it; None while it has not said so."""
        return self._node

    def tick(self) -> None:
        """Do what is due: register, or report.

        While a registration is under way, another follows it if it fails: the cloud may have come after it was refused
        and before we hear of that.
        """
        if self._node is None:
            self._register()
        else:
            self._patch_status()

    def renew(self) -> None:
        """Renew the lease, or make it."""
        self._renew(is_known=False)

    def _renew(self, *, is_known: bool) -> None:
        if self._node is None or self._leasing:
            return
        if self._lease is None:
            self._ask_for_lease(is_known=is_known)
        else:
            lease = renewed(self._lease, self._settings.lease_duration, self._now())
            self._leasing = True
            self._meta.update(*self._lease_address(), encode(lease), then=self._lease_answered)

    def _now(self) -> Nanoseconds:
        return Nanoseconds(self._clock.now_ns())

    def _register(self) -> None:
        """Make the node known; one that does not register itself waits until somebody else has made it."""
        report = self._report()
        if report is None:
            return
        if self._registering:
            self._register_again = True
            return
        settings = self._settings
        node = node_object(report, settings.node_labels, self._now(), schedulable=settings.register_schedulable)
        self._registering = True
        if settings.register_node:
            self._meta.create(ResourceType.NODE, "", settings.node_name, encode(node), then=self._created)
        else:
            self._meta.get(ResourceType.NODE, "", settings.node_name, then=self._known)

    def _created(self, answer: bytes | CallError) -> None:
        if isinstance(answer, AlreadyExistsError):
            self._meta.get(ResourceType.NODE, "", self._settings.node_name, then=self._known)
            return
        self._found(answer)

    def _known(self, answer: bytes | CallError) -> None:
        node, report = _read(Node, answer), self._report()
        if node is not None and report is not None:
            self._events.found(node.status, report.machine.boot_id)
        self._found(answer)

    def _found(self, answer: bytes | CallError) -> None:
        self._registering = False
        again, self._register_again = self._register_again, False
        node = _read(Node, answer)
        if node is None:
            _log.info("the node is not registered yet: %s", answer)
            if again:
                self._register()
            return
        _log.info("node %s is registered", node.metadata.name)
        self._node, self._sent_at = node, self._clock.monotonic()
        self._patch_status()
        self._renew(is_known=True)
        self._registered()

    def _patch_status(self) -> None:
        report, node = self._report(), self._node
        if self._patching or report is None or node is None:
            return
        wanted = self._wanted(node, report)
        self._events.conditions(wanted.status.conditions)
        overdue = self._clock.monotonic() - self._sent_at >= self._settings.node_report_period
        changed = worth_sending(wanted.status, node.status) or wanted.metadata != node.metadata
        patch = diff_node(node, wanted) if overdue or changed else None
        if patch is None:
            return

        def done(answer: bytes | CallError) -> None:
            self._patching = False
            if isinstance(answer, NotFoundError):
                self._node = self._lease = None
            elif isinstance(answer, CallError):
                self._node = None if isinstance(answer, NoAnswerError) else self._node
                _log.debug("the node's status was not taken: %s", answer)
            else:
                self._node, self._sent_at = wanted, self._clock.monotonic()
                self._patch_status()

        self._patching = True
        self._meta.patch(ResourceType.NODEPATCH, "", node.metadata.name, patch, then=done)

    def _wanted(self, node: Node, report: Report) -> Node:
        """The node with this machine's labels and the status of this moment."""
        ours = labels(report.machine, self._settings.node_name, self._settings.node_labels)
        metadata = replace(
            node.metadata,
            labels={**node.metadata.labels, **ours, **self._marks.labels()},
            annotations=self._marks.annotations(node.metadata.annotations),
        )
        return replace(node, metadata=metadata, status=node_status(report, node.status, self._now()))

    def _lease_address(self) -> tuple[ResourceType, str, str]:
        return ResourceType.LEASE, LEASE_NAMESPACE, self._settings.node_name

    def _ask_for_lease(self, *, is_known: bool) -> None:
        """Where there is none the node may be gone with it, which its status shows, unless the cloud has just said that
        it knows the node.
        """
        self._leasing = True

        def asked(answer: bytes | CallError) -> None:
            self._leasing = False
            if isinstance(answer, NotFoundError):
                self._sent_at = self._sent_at if is_known else float("-inf")
                self._make_lease()
            else:
                self._lease_answered(answer)

        self._meta.get(*self._lease_address(), then=asked)

    def _make_lease(self) -> None:
        if self._node is not None:
            lease = new_lease(self._node, self._settings.lease_duration, self._now())
            self._leasing = True
            self._meta.create(*self._lease_address(), encode(lease), then=self._lease_answered)

    def _lease_answered(self, answer: bytes | CallError | None) -> None:
        """A refusal makes the next turn ask for the lease as it is: it may be gone, or newer than ours.

        When it is gone the node may be too, so its status is sent, which would show that.
        """
        self._leasing = False
        lease = None if answer is None else _read(Lease, answer)
        if lease is not None:
            self._lease = lease
        elif isinstance(answer, RejectedError):
            self._lease = None
            self._sent_at = float("-inf")


def _read(kind: type[T], answer: bytes | CallError) -> T | None:
    if isinstance(answer, CallError):
        return None
    try:
        return decode(kind, answer)
    except DecodeError as error:
        _log.warning("an answer of the cloud cannot be read: %s", error)
        return None
