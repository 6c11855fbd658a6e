"""Registers the node, reports its status, and keeps what the cloud says of it in agreement with what it is.

The steps are a kubelet's as KubeEdge's cloud sees them: insert the node (or take the one that is there), patch its
status until it says Ready, then again when it changes, else every hour. Each waits for its answer in a callback; what
fails is tried again at the next tick or as soon as the cloud is connected.

The cloud says what has become of the Node object, in messages and in its answers. Where that differs in what the node
decides (`edged.node.ownership`), it is put right at once; everything else is taken as it is. A node that was deleted
registers again at once, whether its deletion says so, or a patch or a lease that is not found.

Lives on the edged module's thread.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from beehive import Clock, ResourceType
from edged.api import Nanoseconds, Node, NodeStatus, encode
from edged.events.node import NodeEvents
from edged.node.ownership import is_newer
from edged.node.status import ANNOTATIONS, Report, labels, node_object, node_status, own_labels, worth_sending
from edged.pods.patch import diff_node
from edged.report.allowance import Allowance
from edged.report.lease import LeaseKeeper
from edged.report.marks import NodeMarks, NoMarks
from edged.report.reading import read_answer
from edged.settings import EdgedSettings
from metamanager.client import AlreadyExistsError, CallError, MetaTurnClient, NoAnswerError, NotFoundError

_log = logging.getLogger(__name__)

CORRECTIONS: Final = 3
"""How often what others have written is put right at once. Two writers that do not agree must not fill the link."""
CORRECTION_PERIOD: Final = 30.0
"""Seconds after which it may be once more."""
REGISTRATION_PAUSE: Final = 5.0
"""Seconds that are at least between two registrations that the cloud's not knowing the node has caused."""


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
        self._is_registered = False
        self._anew = True
        """Whether the node has not said yet how it is since this process, or its object, began."""
        self._said: Any = None
        """What the node said of itself last, apart from others' parts; None: nothing that the cloud has taken."""
        self._sent_at = float("-inf")
        self._missed_at = float("-inf")
        self._allowance = Allowance(clock, CORRECTIONS, CORRECTION_PERIOD)
        self._registering = False
        self._register_again = False
        self._patching = False
        self._answering: list[Callable[[], None]] | None = None
        """Who waits for the answer about the node that is under way; None: none is."""
        self._waiting: list[Callable[[], None]] = []
        """Who has asked since that was sent."""
        self._lease = LeaseKeeper(meta, clock, settings, lambda: self.node, self._doubted)

    @property
    def node(self) -> Node | None:
        """The node as the cloud has it; None while it has not said so."""
        return self._node if self._is_registered else None

    @property
    def known(self) -> Node | None:
        """The node as the cloud or the store has said it last, with its own labels; None while nobody has."""
        if self._node is None:
            return None
        metadata = replace(self._node.metadata, labels={**self._node.metadata.labels, **self._own_labels()})
        return replace(self._node, metadata=metadata)

    def tick(self) -> None:
        """Do what is due: register, or report.

        While a registration is under way, another follows it if it fails: the cloud may have come after it was refused
        and before we hear of that.
        """
        if self._is_registered:
            self._patch_status()
        else:
            self._register()

    def renew(self) -> None:
        """Renew the lease, or make it."""
        self._lease.renew()

    def connected(self) -> None:
        """The cloud is there: say what is due, and ask what has become of the node meanwhile."""
        self.tick()
        if self._answering is None:
            self.ask(lambda: None)
        self.renew()

    def ask(self, then: Callable[[], None]) -> bool:
        """Ask the cloud how the node is; `then` is called when it has said so, or does not. False, and no call: it does
        not know the node yet.
        """
        if not self._is_registered:
            return False
        self._waiting.append(then)
        if self._answering is None:
            self._ask()
        return True

    def _ask(self) -> None:
        self._answering, self._waiting = self._waiting, []
        self._meta.get(ResourceType.NODE, "", self._settings.node_name, then=self._asked)

    def stored(self, node: Node) -> None:
        """The store has the node so. What the cloud says itself counts more."""
        if not self._is_registered and is_newer(node, self._node):
            self._node = node

    def heard(self, node: Node) -> None:
        """The cloud says that the node is so now: put right what it has wrong of it."""
        if not is_newer(node, self._node):
            return
        if self._node is not None and self._node.metadata.uid != node.metadata.uid:
            self._lease.forget()
        self._node = node
        if self._is_registered:
            self._patch_status()
        elif not self._registering:
            self._register()

    def deleted(self, uid: str) -> None:
        """The cloud has deleted the node: make it again. Empty: it has not said which object of the name, and is asked,
        for there may be another by now.
        """
        if self._node is None or uid == self._node.metadata.uid:
            self._lost()
        elif not uid and not self.ask(lambda: None):
            self._register()

    def _lost(self) -> None:
        """The cloud has no such node. It may still answer otherwise, from what it remembers: hence the pause."""
        _log.warning("the cloud has no node %s any more: it registers again", self._settings.node_name)
        self._node, self._is_registered, self._anew = None, False, True
        self._lease.forget()
        now = self._clock.monotonic()
        if now - self._missed_at >= REGISTRATION_PAUSE:
            self._missed_at = now
            self._register()

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
        node = node_object(
            report,
            settings.node_labels,
            self._now(),
            taints=settings.node_taints,
            schedulable=settings.register_schedulable,
        )
        self._registering = True
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
        node, report = read_answer(Node, answer), self._report()
        if node is not None and report is not None:
            self._events.found(node.status, report.machine.boot_id)
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
        self._node = node if is_newer(node, self._node) else self._node
        self._is_registered, self._said, self._sent_at = True, None, self._clock.monotonic()
        self._patch_status()
        self._lease.renew(is_known=True)
        self._registered()

    def _asked(self, answer: bytes | CallError) -> None:
        waited, self._answering = self._answering or [], None
        node = read_answer(Node, answer)
        if isinstance(answer, NotFoundError) and self._is_registered:
            self._lost()
        elif node is not None:
            self.heard(node)
        if self._waiting:
            self._ask()
        for then in waited:
            then()

    def _patch_status(self) -> None:
        """Say what the cloud's word on the node lacks. What others have written is put right within limits only."""
        report, node = self._report(), self.node
        if self._patching or report is None or node is None:
            return
        wanted, saying = self._wanted(node, report), self._own_word(report)
        self._events.conditions(wanted.status.conditions)
        overdue = self._clock.monotonic() - self._sent_at >= self._settings.node_report_period
        changed = worth_sending(wanted.status, node.status) or wanted.metadata != node.metadata
        if not overdue and not (changed and (saying != self._said or self._allowance.take())):
            self._anew = self._anew and changed
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
                self._is_registered = self._is_registered and not isinstance(answer, NoAnswerError)
                _log.debug("the node's status was not taken: %s", answer)
            elif self._is_registered:
                self._taken(wanted, answer)

        self._patching = True
        self._meta.patch(ResourceType.NODEPATCH, "", wanted.metadata.name, patch, then=done)

    def _taken(self, wanted: Node, answer: bytes) -> None:
        """The cloud has taken a patch, and says how the node is since; a cloud that does not has what was wanted."""
        self._anew, self._sent_at = False, self._clock.monotonic()
        told = read_answer(Node, answer)
        node = wanted if told is None or not told.metadata.uid else told
        if is_newer(node, self._node):
            self._node = node
        self._patch_status()

    def _wanted(self, node: Node, report: Report) -> Node:
        """The node with this machine's labels and the status of this moment."""
        ours = self._labels(report) if self._anew else self._own_labels()
        metadata = replace(
            node.metadata,
            labels={**node.metadata.labels, **ours},
            annotations=self._marks.annotations({**node.metadata.annotations, **ANNOTATIONS}),
        )
        return replace(node, metadata=metadata, status=node_status(report, node.status, self._now(), anew=self._anew))

    def _own_word(self, report: Report) -> Any:
        """What the node says of itself, whatever the cloud shows; the same as long as nothing changes here."""
        status = node_status(report, NodeStatus(), Nanoseconds(0))
        return status, self._own_labels(), self._marks.annotations(ANNOTATIONS)

    def _labels(self, report: Report) -> dict[str, str]:
        return {**labels(report.machine, self._settings.node_name, self._settings.node_labels), **self._marks.labels()}

    def _own_labels(self) -> dict[str, str]:
        report, settings = self._report(), self._settings
        own = own_labels(report.machine, settings.node_name, settings.node_labels) if report is not None else {}
        return {**own, **self._marks.labels()}

    def _doubted(self, *, gone: bool) -> None:
        """The cloud has refused the lease. The next status shows whether there is a node; at once when it is gone."""
        self._sent_at = float("-inf")
        if gone:
            self._patch_status()
