"""NodeReporter: registers the node, and keeps its object in the cloud correct."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from msgspec.structs import replace

from beehive import Clock, ResourceType
from beehive.rate import TokenBucket
from edged.events.node import NodeEvents
from edged.eviction_api.signals import Pressure
from edged.node.api_answers import read_answer
from edged.node.lease import LeaseController
from edged.node.ownership import is_newer
from edged.node.state import LocalNode
from edged.node.status import (
    ANNOTATIONS,
    NodeReport,
    node_object,
    node_status,
    node_status_has_changed,
    own_labels,
    registration_labels,
)
from edged.pods.pod_status.patch import diff_node
from edged.settings import EdgedSettings
from metamanager.client import AlreadyExistsError, AsyncMetaClient, CallError, NoAnswerError, NotFoundError
from modules.apimachinery.types import Nanoseconds, Node, NodeStatus, encode

CORRECTIONS: Final = 3
"""Corrections of others' changes that are sent immediately: two writers that do not agree must not fill the link."""

CORRECTION_PERIOD: Final = 30.0
"""Seconds after which one more correction is sent."""

PORTLESS_SECONDS: Final = 60.0
"""Seconds for which a Node may lack a kubelet's port while its node dials a stream tunnel. The cloud writes the port of
its own end when the tunnel opens, and tries again every 20 s; after them no cloud will, and the node writes its own.
"""

REGISTRATION_PAUSE: Final = 5.0
"""Minimum of seconds between two registrations of a node that the cloud did not know."""


class NodeMetadata(Protocol):
    """A source of labels and annotations for the Node object."""

    def labels(self) -> Mapping[str, str]:
        """Return the labels to set."""

    def annotations(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return all annotations of the node, given its present ones."""


class NoNodeMetadata:
    """No labels or annotations (`NodeMetadata`)."""

    def labels(self) -> Mapping[str, str]:
        """Return no labels."""
        return {}

    def annotations(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return the present annotations."""
        return dict(known)


_log = logging.getLogger(__name__)


class NodeListener(Protocol):
    """A listener to the cloud's answers about the Node object."""

    def node_acknowledged(self) -> None:
        """Take that the cloud has acknowledged the node."""

    def node_confirmed(self) -> None:
        """Take that the cloud has confirmed the Node object, for the first time on this connection."""


class NodeReporter:
    """The reporter that registers the node, reports its status, and corrects its own parts of the Node object.

    The steps are a kubelet's as KubeEdge's cloud sees them: insert the node (or take the existing one), patch its
    status until it is Ready, then again when it changes, else every hour. Each step waits for its answer in a callback;
    a step that failed is tried again with the next call of `sync_node_status`, or when the cloud is connected.

    The cloud sends changes of the Node object in messages and in its answers. Where they differ in a part that the node
    decides (`edged.node.ownership`), that is corrected immediately; every other part is accepted. A node that was
    deleted registers again immediately, whether a message reports the deletion, or a patch or a lease that is not
    found.

    Lives on the edged module's thread, and is the only writer of the `LocalNode`.

    Args:
        meta: sends requests to the cloud.
        clock: the current time.
        settings: edged's.
        node: takes the state of the node.
        listener: told of the cloud's answers about the node.
        events: records changes of the node.
        marks: labels and annotations of other parts; none unless given.
    """

    def __init__(
        self,
        meta: AsyncMetaClient,
        clock: Clock,
        settings: EdgedSettings,
        node: LocalNode,
        listener: NodeListener,
        events: NodeEvents,
        marks: NodeMetadata | None = None,
    ) -> None:
        self._events = events
        self._meta = meta
        self._clock = clock
        self._settings = settings
        self._local = node
        self._marks = marks or NoNodeMetadata()
        self._listener = listener
        self._is_confirmed = False
        """Whether the cloud has confirmed the present Node object since it was connected last."""
        self._node: Node | None = None
        self._is_registered = False
        self._anew = True
        """Whether no status was accepted yet since this process started, or since its object was created."""
        self._said: Any = None
        """The node's own part of the status that was sent last; None if the cloud has not accepted it."""
        self._sent_at = float("-inf")
        self._missed_at = float("-inf")
        self._allowance = TokenBucket(1 / CORRECTION_PERIOD, CORRECTIONS)
        self._cloud_port = 0
        """The kubelet's port that the cloud has set last for the node's stream tunnel; 0 without one."""
        self._portless_since: float | None = None
        """Monotonic seconds since when the cloud, connected, shows no kubelet's port in the Node; None with a port."""
        self._registering = False
        self._register_again = False
        self._connected_since = False
        """Whether the cloud has been connected since the registration that is under way was sent."""
        self._patching = False
        self._requested: list[Callable[[], None]] | None = None
        """Callbacks of the request for the node that is under way; None while none is."""
        self._waiting: list[Callable[[], None]] = []
        """Callbacks of requests since that one was sent."""
        self._lease = LeaseController(meta, clock, settings, node, self._on_lease_refused)

    @property
    def registered_node(self) -> Node | None:
        """The Node object as the cloud has it; None while the node is not registered."""
        return self._node if self._is_registered else None

    @property
    def known_node(self) -> Node | None:
        """The Node object as the cloud or the store has sent it last, with the node's own labels; None before."""
        if self._node is None:
            return None
        metadata = replace(self._node.metadata, labels={**self._node.metadata.labels, **self._own_labels()})
        return replace(self._node, metadata=metadata)

    def set_report(self, report: NodeReport) -> None:
        """Take a report of the machine and the runtime, and send it."""
        self._local.set_report(report)
        self.sync_node_status()

    def set_pressures(self, pressures: frozenset[Pressure]) -> None:
        """Take the pressures on the node, and report them."""
        self._local.set_pressures(pressures)
        self.sync_node_status()

    def set_shutting_down(self, *, imminent: bool) -> None:
        """Take whether the machine is about to shut down, and report it."""
        self._local.set_shutting_down(imminent=imminent)
        self.sync_node_status()

    def sync_node_status(self) -> None:
        """Register the node, or report its status if it differs from the one in the cloud (kubelet's syncNodeStatus).

        If a registration is under way and fails, another one follows: the cloud may have been connected after the
        refusal and before its answer.
        """
        self._publish_node()
        if self._is_registered:
            self._patch_status()
        else:
            self._register()

    def renew_lease(self) -> None:
        """Renew the lease, or create it."""
        self._lease.renew()

    def connected(self) -> None:
        """Report the node now that the cloud is connected, and ask for its present object."""
        self._connected_since = self._registering
        self._is_confirmed = False
        if self._portless_since is not None:
            self._portless_since = self._clock.monotonic()
        self.sync_node_status()
        if self._requested is None:
            self.request_node(lambda: None)
        self.renew_lease()

    def request_node(self, then: Callable[[], None]) -> bool:
        """Ask the cloud for the Node object, and call `then` after its answer, whether or not it has one. Return False,
        without a call, while the node is not registered.
        """
        if not self._is_registered:
            return False
        self._waiting.append(then)
        if self._requested is None:
            self._ask()
        return True

    def _ask(self) -> None:
        self._requested, self._waiting = self._waiting, []
        self._meta.get(ResourceType.NODE, "", self._settings.node_name, then=self._asked)

    def handle_stored_node(self, node: Node) -> None:
        """Take the Node object of the store, unless the cloud has sent one."""
        if not self._is_registered and is_newer(node, self._node):
            self._set_node(node, registered=False)

    def handle_node_update(self, node: Node) -> None:
        """Take the Node object that the cloud has sent, and correct the node's own parts in it."""
        if not is_newer(node, self._node):
            return
        if self._node is not None and self._node.metadata.uid != node.metadata.uid:
            self._lease.forget()
        self._set_node(node, registered=self._is_registered)
        if self._is_registered:
            self._patch_status()
        elif not self._registering:
            self._register()

    def handle_node_delete(self, uid: str) -> None:
        """Register the node again after its deletion. With an empty uid the cloud is asked first, for it may have
        another object of that name by now.
        """
        if self._node is None or uid == self._node.metadata.uid:
            self._lost()
        elif not uid and not self.request_node(lambda: None):
            self._register()

    def _lost(self) -> None:
        """Register a node that the cloud does not have. Its caches may still have the node: hence the pause."""
        _log.warning("the cloud no longer has node %s: registering it again", self._settings.node_name)
        self._set_node(None, registered=False)
        self._anew, self._is_confirmed = True, False
        self._lease.forget()
        now = self._clock.monotonic()
        if now - self._missed_at >= REGISTRATION_PAUSE:
            self._missed_at = now
            self._register()

    def _set_node(self, node: Node | None, *, registered: bool) -> None:
        if node is not None:
            self._see_port(node.status.daemon_endpoints.kubelet_endpoint.port)
        self._node, self._is_registered = node, registered
        self._publish_node()

    def _see_port(self, port: int) -> None:
        if self._settings.has_stream_tunnel:
            self._cloud_port = port
        if port:
            self._portless_since = None
        elif self._portless_since is None:
            self._portless_since = self._clock.monotonic()

    def _publish_node(self) -> None:
        """Write the Node object into the state that other parts read, with the labels that the node has now."""
        self._local.set_node(registered=self.registered_node, known=self.known_node)

    def _now(self) -> Nanoseconds:
        return Nanoseconds(self._clock.now_ns())

    def _register(self) -> None:
        """Create the Node object; if the node does not register itself, wait for the object."""
        report = self._local.report()
        if report is None:
            return
        if self._registering:
            self._register_again = True
            return
        settings = self._settings
        node = node_object(
            replace(report, port=self._cloud_port or report.port),
            settings.node_labels,
            self._now(),
            taints=settings.node_taints,
            schedulable=settings.register_schedulable,
        )
        self._registering, self._connected_since = True, False
        if settings.register_node:
            self._meta.create(ResourceType.NODE, "", settings.node_name, encode(node), then=self._created)
        else:
            self._meta.get(ResourceType.NODE, "", settings.node_name, then=self._got)

    def _created(self, answer: bytes | CallError) -> None:
        if isinstance(answer, AlreadyExistsError):
            self._meta.get(ResourceType.NODE, "", self._settings.node_name, then=self._got)
            return
        self._found(answer)

    def _got(self, answer: bytes | CallError) -> None:
        node, report = read_answer(Node, answer), self._local.report()
        if node is not None and report is not None:
            self._events.node_known(node.status, report.machine.boot_id)
        self._found(answer)

    def _found(self, answer: bytes | CallError) -> None:
        self._registering = False
        again, self._register_again = self._register_again, False
        node = read_answer(Node, answer)
        if node is None:
            _log.info("the node is not registered yet: %s", answer)
            if again:
                self._register()
            return
        _log.info("node %s is registered", node.metadata.name)
        self._set_node(node if is_newer(node, self._node) else self._node, registered=True)
        self._said, self._sent_at = None, self._clock.monotonic()
        self._patch_status()
        self._lease.renew(is_known=True)
        if self._connected_since:  # the answer may be older than the connection, and the object gone
            self.request_node(lambda: None)
        else:
            self._confirm()
        self._listener.node_acknowledged()

    def _confirm(self) -> None:
        """Note that the cloud has the Node object, over the present connection."""
        if not self._is_confirmed:
            self._is_confirmed = True
            self._listener.node_confirmed()

    def _asked(self, answer: bytes | CallError) -> None:
        waited, self._requested = self._requested or [], None
        node = read_answer(Node, answer)
        if isinstance(answer, NotFoundError) and self._is_registered:
            self._lost()
        elif node is not None:
            self.handle_node_update(node)
            if self._is_registered:
                self._confirm()
        if self._waiting:
            self._ask()
        for then in waited:
            then()

    def _may_correct(self) -> bool:
        return not self._allowance.reserve(self._clock.monotonic())

    def _patch_status(self) -> None:
        """Send the difference to the Node object in the cloud. Changes by others are corrected within limits only."""
        report, node = self._local.report(), self.registered_node
        if self._patching or report is None or node is None:
            return
        wanted = self._wanted(node, report)
        self._events.conditions_changed(wanted.status.conditions)
        overdue = self._clock.monotonic() - self._sent_at >= self._settings.node_report_period
        changed = node_status_has_changed(wanted.status, node.status) or wanted.metadata != node.metadata
        if not changed and not overdue:
            self._anew = False
            return
        saying = self._own_part(report)
        if not overdue and saying == self._said and (_lacks_handlers_only(node, wanted) or not self._may_correct()):
            return
        patch = diff_node(node, wanted)
        if patch is not None:
            self._said = saying
            self._send(wanted, patch)

    def _send(self, wanted: Node, patch: str) -> None:
        def done(answer: bytes | CallError) -> None:
            self._patching = False
            if isinstance(answer, NotFoundError):
                self._lost()
            elif isinstance(answer, CallError):
                self._said = None
                registered = self._is_registered and not isinstance(answer, NoAnswerError)
                self._set_node(self._node, registered=registered)
                _log.debug("the cloud did not accept the node's status: %s", answer)
            elif self._is_registered:
                self._read_answer(wanted, answer)

        self._patching = True
        self._meta.patch(ResourceType.NODEPATCH, "", wanted.metadata.name, patch, then=done)

    def _read_answer(self, wanted: Node, answer: bytes) -> None:
        """Take the Node object in the answer to a patch; without one the cloud has the patched object."""
        self._anew, self._sent_at = False, self._clock.monotonic()
        told = read_answer(Node, answer)
        node = wanted if told is None or not told.metadata.uid else told
        if is_newer(node, self._node):
            self._set_node(node, registered=self._is_registered)
        self._confirm()
        self._patch_status()

    def _wanted(self, node: Node, report: NodeReport) -> Node:
        """Return the node with this machine's labels and its present status."""
        ours = self._labels(report) if self._anew else self._own_labels()
        metadata = replace(
            node.metadata,
            labels={**node.metadata.labels, **ours},
            annotations=self._marks.annotations({**node.metadata.annotations, **ANNOTATIONS}),
        )
        status = node_status(report, node.status, self._now(), own_port=self._owns_port())
        return replace(node, metadata=metadata, status=status)

    def _owns_port(self) -> bool:
        """Return whether the kubelet's port in the Node is the node's to write. A status that is sent while the tunnel
        is being opened must not replace the port that the cloud writes then.
        """
        since = self._portless_since
        if self._settings.has_stream_tunnel:
            return since is not None and self._clock.monotonic() - since >= PORTLESS_SECONDS
        return self._anew or since is not None

    def _own_part(self, report: NodeReport) -> Any:
        """Return the node's own part of the object, which only changes with the node."""
        status = node_status(report, NodeStatus(), Nanoseconds(0))
        return status, self._own_labels(), self._marks.annotations(ANNOTATIONS)

    def _labels(self, report: NodeReport) -> dict[str, str]:
        return {
            **registration_labels(report.machine, self._settings.node_name, self._settings.node_labels),
            **self._marks.labels(),
        }

    def _own_labels(self) -> dict[str, str]:
        report, settings = self._local.state.report, self._settings
        own = own_labels(report.machine, settings.node_name, settings.node_labels) if report is not None else {}
        return {**own, **self._marks.labels()}

    def _on_lease_refused(self, *, gone: bool) -> None:
        """Check with the next status whether the cloud has the node; immediately when the lease was deleted."""
        self._sent_at = float("-inf")
        if gone:
            self._patch_status()


def _lacks_handlers_only(node: Node, wanted: Node) -> bool:
    """Return whether the cloud has all but the runtime's handlers: API servers before 1.31 do not keep them."""
    there = replace(node.status, runtime_handlers=wanted.status.runtime_handlers)
    is_same = node.metadata == wanted.metadata and not node_status_has_changed(wanted.status, there)
    return is_same and not node.status.runtime_handlers
