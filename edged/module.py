"""Edged: the module that takes pods and the Node object from the bus."""

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from beehive import ContentError, Group, Message, Module, ModuleName, Operation, ResourceType, handles
from beehive.errors import NotStartedError
from beehive.names import CLOUD_CONNECTED
from edged.cri.contract import ContainerRuntime
from edged.host import Host
from edged.node.state import NodeState
from edged.pod_workers.job import DeliveredObject
from edged.pods.decode import belongs_to, read_cloud_pod, read_node, read_pod
from edged.pods.hold import OWNER, Release
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from edged.static_pods.manager import FILE
from edged.sync.assembly import Assembly, Dependencies
from edged.volumes.csi.controller import OPERATIONS
from modules.apimachinery.attempts import AttemptError

_log = logging.getLogger(__name__)


class _Metadata(msgspec.Struct):
    uid: str = ""
    grace_period: int | None = msgspec.field(default=None, name="deletionGracePeriodSeconds")


class _Deleted(msgspec.Struct):
    """The part of a deleted object that is used: the cloud sends the whole object, or only its identity."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class Edged(Module):
    """The module that runs the pods of this node: a slim kubelet on the bus.

    The module reads messages and calls the sync loop; it never waits. The way of a pod through edged:

        message → SyncLoop → PodWorkers → PodSyncer → container runtime
                   ↑    │                     │             │
                   │    ├→ StatusGenerator    └── Done ──┐ PLEG
                   │    │    └→ StatusManager → cloud    │  │
                   │    └→ pod_machine.step              │  │
                   └─────────────────────────────────────┴──┘

    Args:
        settings: edged's.
        connect: makes the client of the container runtime; called at each start of the module.
        snapshots: the states that the local HTTP server serves.
        version: of the agent, reported as `kubeletVersion`.
        host: the machine; this process's own by default.
    """

    name = ModuleName.EDGED
    group = Group.EDGED
    announces_readiness = True
    has_turn_clock = True

    def __init__(
        self,
        settings: EdgedSettings,
        connect: Callable[[], ContainerRuntime],
        snapshots: Snapshots,
        version: str,
        host: Host | None = None,
    ) -> None:
        super().__init__()
        self._dependencies = Dependencies(settings, connect, snapshots, version, host or Host())
        self._parts: Assembly | None = None

    @property
    def assembly(self) -> Assembly:
        """The parts of edged. Raises NotStartedError before the start."""
        if self._parts is None:
            raise NotStartedError("edged has no parts", hint="they are made when it starts")
        return self._parts

    @property
    def node_state(self) -> NodeState:
        """State of this node. Raises NotStartedError before the start."""
        return self.assembly.node.state

    def on_start(self) -> None:
        """Make the parts and start them."""
        self._parts = Assembly(self, self._dependencies)
        self._parts.start()

    def on_stop(self) -> None:
        """Release all parts: calls to the runtime that are under way end, except the start of a container. Containers
        are left running.
        """
        if self._parts is not None:
            self._parts.close()

    def on_failure(self, *_error: object) -> None:
        """Release all parts here too, so that no worker still waits for the runtime."""
        if self._parts is not None:
            self._parts.release()

    @handles(ResourceType.POD, Operation.INSERT, Operation.UPDATE)
    def on_pod(self, message: Message) -> None:
        """Take a pod that is added or changed. If metamanager could not store a change that ends it, the
        message has metamanager as source, and the cloud sends the change again.
        """
        try:
            read = read_pod if message.route.source == FILE else read_cloud_pod
            pod = read(message.content_bytes(), message.route.resource)
        except ContentError as error:
            _log.error("pod %s is left out: %s", message.route.resource, error)
            return
        if pod is not None and belongs_to(pod, self._dependencies.settings.node_name):
            is_stored = message.route.source != ModuleName.METAMANAGER
            self.assembly.sync_loop.handle_pod_update(pod, is_stored=is_stored)
        elif pod is not None:
            self.assembly.sync_loop.handle_pod_remove(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)

    @handles(ResourceType.POD, Operation.DELETE)
    def on_pod_delete(self, message: Message) -> None:
        """Remove a pod that the cloud has deleted. If metamanager could not store the deletion, the message has
        metamanager as source, and the cloud sends the deletion again.
        """
        resource = message.subject
        identity = _identity_in(message)
        if not self.assembly.static_pods.is_mirror_deletion(message, resource.namespace, resource.name, identity.uid):
            is_stored = message.route.source != ModuleName.METAMANAGER
            self.assembly.sync_loop.handle_pod_remove(
                resource.namespace,
                resource.name,
                identity.uid,
                identity.grace_period,
                is_stored=is_stored,
                static=message.route.source == FILE,
            )
            self.assembly.static_pods.sync_mirrors()

    @handles(None, Operation.UNHOLD_UPGRADE, source=OWNER)
    def on_release(self, message: Message) -> None:
        """Let pods begin that wait for the owner of the node."""
        asked = message.content_as(Release)
        self.reply(message, self.assembly.sync_loop.release_pods(asked.namespace, asked.name))

    @handles(ResourceType.NODE, Operation.INSERT, Operation.UPDATE)
    def on_node(self, message: Message) -> None:
        """Take the Node object that the cloud has sent."""
        node = read_node(message.content_bytes(), message.route.resource, self._dependencies.settings.node_name)
        if node is not None:
            self.assembly.node_reporter.handle_node_update(node)

    @handles(ResourceType.NODE, Operation.DELETE)
    def on_node_delete(self, message: Message) -> None:
        """Take the deletion of the Node object. KubeEdge's cloud sends its name without its uid."""
        if message.subject.name == self._dependencies.settings.node_name:
            self.assembly.node_reporter.handle_node_delete(_identity_in(message).uid)

    @handles(ResourceType.CONFIGMAP)
    @handles(ResourceType.SECRET)
    def on_dependency(self, message: Message) -> None:
        """Sync the pods that use a configmap or secret."""
        resource = message.subject
        key = (resource.type, resource.namespace, resource.name)
        self.assembly.sync_loop.handle_dependency_change(key, _delivered_in(message))

    @handles(ResourceType.PERSISTENT_VOLUME)
    @handles(ResourceType.PERSISTENT_VOLUME_CLAIM)
    @handles(ResourceType.VOLUME_ATTACHMENT)
    @handles(ResourceType.CSI_DRIVER)
    def on_storage(self, message: Message) -> None:
        """Retry pods: their volumes may have waited for this object (an attachment, a volume of a claim)."""
        _log.debug("%s %s", message.route.operation, message.route.resource)
        self.assembly.sync_loop.retry_failed_pods()

    @handles(ResourceType.VOLUME, *OPERATIONS)
    def on_volume(self, message: Message) -> None:
        """Send a request of the cloud to a storage driver of this node, and its answer back."""

        def then(answer: dict[str, Any] | AttemptError) -> None:
            if isinstance(answer, AttemptError):
                self.respond(message.error(self.clock, str(answer), source=self.name))
            else:
                self.reply(message, answer)

        self.assembly.volume_manager.handle_csi_request(message.route.operation, message.content_bytes(), then)

    @handles(ResourceType.CONNECTION, Operation.CONNECT)
    def on_connection(self, message: Message) -> None:
        """Send the statuses that the cloud has not acknowledged, when it is connected."""
        if message.content_bytes() == CLOUD_CONNECTED.encode():
            self.assembly.sync_loop.handle_cloud_connected()

    @handles(ResourceType.DISK, source=ModuleName.METAMANAGER)
    def on_full_disk(self, message: Message) -> None:
        """Check the disk: metamanager's database has found it full."""
        _log.debug("%s says that the disk is full", message.route.source)
        self.assembly.housekeeping.check_now()

    @handles(ResourceType.SHUTDOWN)
    def on_shutdown(self, message: Message) -> None:
        """End the pods in their order when the machine is about to shut down, or stop that when it is not."""
        if message.content_bytes() == b"true":
            self.assembly.node_shutdown.begin()
        else:
            self.assembly.node_shutdown.cancel()

    @handles()
    def on_other(self, message: Message) -> None:
        """Log a message that edged does not use."""
        _log.debug("not for edged: %s %s", message.route.operation, message.route.resource)


def _delivered_in(message: Message) -> DeliveredObject | None:
    """Return the object in a message; None when it was deleted, or cannot be read: pods then request it."""
    if message.route.operation not in (Operation.INSERT, Operation.UPDATE):
        return None
    try:
        return DeliveredObject(message.content_bytes())
    except ContentError:
        return None


def _identity_in(message: Message) -> _Metadata:
    """Return the identity in a delete message; an empty one when the message has no content."""
    try:
        return message.content_as(_Deleted).metadata
    except ContentError:
        return _Metadata()
