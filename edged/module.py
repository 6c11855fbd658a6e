"""edged: the pods of this node. A slim kubelet on the bus.

The module takes messages and makes the parts; it never waits itself. The way of a pod through it:

    message → PodKeeper (desired state) → Pool (queues) → Worker → container runtime
                  ↑                                          │            │
    cloud ← PodReporter ← status ← facts ←───────────────────┴─── PLEG ───┘
"""

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any

import msgspec

from beehive import ContentError, Group, Message, Module, ModuleName, Operation, Resource, ResourceType, handles
from beehive.errors import NotStartedError
from beehive.names import CLOUD_CONNECTED
from edged.cgroups.tree import Tree
from edged.cri.contract import ContainerRuntime
from edged.devices.contract import DeviceWorld
from edged.errors import EdgedError
from edged.node.machine import Figures
from edged.parts import Given, Parts
from edged.probes.network import Network
from edged.probes.sockets import SocketNetwork
from edged.reading import belongs_to, read_cloud_pod, read_node, read_pod
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from edged.shutdown.logind import ShutdownSource
from edged.static_pods.keeper import FILE
from edged.volumes import KernelMounts, Mounts
from edged.volumes.csi.controller import OPERATIONS

_log = logging.getLogger(__name__)


class _Metadata(msgspec.Struct):
    uid: str = ""
    grace: int | None = msgspec.field(default=None, name="deletionGracePeriodSeconds")


class _Skeleton(msgspec.Struct):
    """What a delete message must say of the object: the cloud sends it whole, or only its identity."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class Edged(Module):
    """See the module's docstring.

    Args:
        settings: see there.
        connect: makes the client of the container runtime; called at each start of the module.
        snapshots: where the local HTTP server finds what it serves.
        version: of the agent, reported as `kubeletVersion`.
        figures: of the machine; the kernel's unless given.
        network: over which probes and hooks reach containers; real sockets unless given.
        mounts: of the node; the kernel's unless given.
        cgroups: where pods get control groups; none unless given.
        devices: where device plug-ins are; this node has no devices unless given.
        shutdown: makes who says that the machine is about to shut down, at each start; nobody does unless given.
    """

    name = ModuleName.EDGED
    group = Group.EDGED
    announces_readiness = True

    def __init__(
        self,
        settings: EdgedSettings,
        connect: Callable[[], ContainerRuntime],
        snapshots: Snapshots,
        version: str,
        figures: Figures | None = None,
        *,
        network: Network | None = None,
        mounts: Mounts | None = None,
        cgroups: Tree | None = None,
        devices: DeviceWorld | None = None,
        shutdown: Callable[[], ShutdownSource] | None = None,
    ) -> None:
        super().__init__()
        network = network or SocketNetwork(self.clock)
        figures, mounts = figures or Figures(), mounts or KernelMounts()
        self._given = Given(settings, connect, snapshots, version, figures, network, mounts, cgroups, devices, shutdown)
        self._parts: Parts | None = None

    @property
    def parts(self) -> Parts:
        """What it consists of, once it has started."""
        if self._parts is None:
            raise NotStartedError("edged has no parts", hint="they are made when it starts")
        return self._parts

    def on_start(self) -> None:
        """Make the parts and start them."""
        self._parts = Parts(self, self._given)
        self._parts.start()

    def on_stop(self) -> None:
        """Let go of the runtime: calls that are under way end, a container's start in its own time. Containers are left
        running.
        """
        if self._parts is not None:
            self._parts.close()

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let go of the runtime here too, so that no worker is held up by it."""
        super().on_failure(exception_type, exception_value, traceback)
        if self._parts is not None:
            self._parts.let_go()

    @handles(ResourceType.POD, Operation.INSERT, Operation.UPDATE)
    def on_pod(self, message: Message) -> None:
        """A pod is wanted, or is wanted otherwise."""
        try:
            read = read_pod if message.route.source == FILE else read_cloud_pod
            pod = read(message.content_bytes(), message.route.resource)
        except ContentError as error:
            _log.error("pod %s is left out: %s", message.route.resource, error)
            return
        if pod is not None and belongs_to(pod, self._given.settings.node_name):
            self.parts.take(pod)
        elif pod is not None:
            self.parts.keeper.remove(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)

    @handles(ResourceType.POD, Operation.DELETE)
    def on_pod_delete(self, message: Message) -> None:
        """A pod is gone in the cloud."""
        resource = Resource.parse(message.route.resource)
        identity = _identity_in(message)
        if not self.parts.static_pods.was_mirror(message, resource.namespace, resource.name, identity.uid):
            self.parts.keeper.remove(resource.namespace, resource.name, identity.uid, identity.grace)
            self.parts.static_pods.tick()

    @handles(ResourceType.NODE, Operation.INSERT, Operation.UPDATE)
    def on_node(self, message: Message) -> None:
        """The cloud says how it has this node now."""
        node = read_node(message.content_bytes(), message.route.resource, self._given.settings.node_name)
        if node is not None:
            self.parts.node.heard(node)

    @handles(ResourceType.NODE, Operation.DELETE)
    def on_node_delete(self, message: Message) -> None:
        """The Node object is gone in the cloud. KubeEdge's does not say which it was, only its name."""
        if Resource.parse(message.route.resource).name == self._given.settings.node_name:
            self.parts.node.deleted(_identity_in(message).uid)

    @handles(ResourceType.CONFIGMAP)
    @handles(ResourceType.SECRET)
    def on_dependency(self, message: Message) -> None:
        """What pods mount has changed."""
        resource = Resource.parse(message.route.resource)
        self.parts.keeper.dependency_changed(resource.type, resource.namespace, resource.name)

    @handles(ResourceType.PERSISTENT_VOLUME)
    @handles(ResourceType.PERSISTENT_VOLUME_CLAIM)
    @handles(ResourceType.VOLUME_ATTACHMENT)
    @handles(ResourceType.CSI_DRIVER)
    def on_storage(self, message: Message) -> None:
        """What volumes wait for may have come: an attachment, a volume for a claim."""
        _log.debug("%s %s", message.route.operation, message.route.resource)
        self.parts.keeper.connected()

    @handles(ResourceType.VOLUME, *OPERATIONS)
    def on_volume(self, message: Message) -> None:
        """The cloud asks something of this node's storage driver; it hears what the driver says."""

        def then(answer: dict[str, Any] | EdgedError) -> None:
            if isinstance(answer, EdgedError):
                self.respond(message.error(self.clock, str(answer), source=self.name))
            else:
                self.reply(message, answer)

        self.parts.storage.operate(message.route.operation, message.content_bytes(), then)

    @handles(ResourceType.CONNECTION, Operation.CONNECT)
    def on_connection(self, message: Message) -> None:
        """The cloud is there: tell it what it has not heard."""
        if message.content_bytes() == CLOUD_CONNECTED.encode():
            self.parts.connected()

    @handles(ResourceType.DISK, source=ModuleName.METAMANAGER)
    def on_full_disk(self, message: Message) -> None:
        """metamanager's database found no room."""
        _log.debug("%s says that the disk is full", message.route.source)
        self.parts.look_at_disk()

    @handles(ResourceType.SHUTDOWN)
    def on_shutdown(self, message: Message) -> None:
        """The machine is about to shut down, or does not after all."""
        if message.content_bytes() == b"true":
            self.parts.shutdown.begin()
        else:
            self.parts.shutdown.cancel()

    @handles()
    def on_other(self, message: Message) -> None:
        """What metamanager hands on and this node has no use for."""
        _log.debug("not for edged: %s %s", message.route.operation, message.route.resource)


def _identity_in(message: Message) -> _Metadata:
    """Whom a delete message means; nobody in particular when it has no content."""
    try:
        return message.content_as(_Skeleton).metadata
    except ContentError:
        return _Metadata()
