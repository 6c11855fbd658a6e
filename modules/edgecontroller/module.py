"""The module edgecontroller: requests of edges, commands of people and a directory of manifests on one side, the store
behind, messages to nodes on the other.
"""

import logging
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from beehive.errors import ContentError, ResourceError
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation, ResourceType
from beehive.resource import Resource, Side
from modules.edgecontroller import api_calls, commands, upstream_nodes
from modules.edgecontroller.answers import Answer, status_error
from modules.edgecontroller.cluster import Cluster
from modules.edgecontroller.commands import Changed, Verb
from modules.edgecontroller.downstream import Downstream, for_event, message
from modules.edgecontroller.errors import ApiError, BadRequestError
from modules.edgecontroller.journal import Journal
from modules.edgecontroller.kinds import JsonObject, ObjectKey, is_being_deleted, key_of, kind_named
from modules.edgecontroller.manifest_directory import ManifestDirectory
from modules.edgecontroller.references import LocationCache
from modules.edgecontroller.requests import Handling, Request
from modules.edgecontroller.store import Change, ObjectEvent
from modules.edgecontroller.upstream import handles_requests, handling_of

_log = logging.getLogger(__name__)
_LOOK_EVERY = 1.0
"""Seconds between looks at the manifests."""
_POD, _NODE, _DRIVER = kind_named("Pod"), kind_named("Node"), kind_named("CSIDriver")
_HELD = {
    kind_named(kind).singular: kind_named(kind)
    for kind in ("ConfigMap", "Secret", "PersistentVolumeClaim", "PersistentVolume", "VolumeAttachment")
}


class EdgeController(Module):
    """See the module's docstring.

    Args:
        cluster: the objects; handed in so that they outlive a restart of this module.
        manifests: the directory that is watched; None: none.
        journal: where changes are written down; None: objects live as long as the process.
    """

    name: ClassVar[str] = ModuleName.EDGECONTROLLER
    group: ClassVar[str] = Group.EDGECONTROLLER
    side: ClassVar[Side] = Side.CLOUD

    def __init__(
        self, cluster: Cluster, manifests: ManifestDirectory | None = None, journal: Journal | None = None
    ) -> None:
        super().__init__()
        self._cluster = cluster
        self._manifests = manifests
        self._journal = journal
        self._locations = LocationCache()

    def on_start(self) -> None:
        """Reads the manifests and begins to watch them."""
        self._learn_pods()
        if self._manifests is not None:
            self._look()
            self.every(_LOOK_EVERY, self._look)

    @handles_requests
    def on_request(self, message: Message) -> None:
        """An edge asks or reports."""
        self._note_holder(message)
        self._answer(message, handling_of(message))

    @handles(ResourceType.NODE, Operation.INSERT)
    def on_node_insert(self, message: Message) -> None:
        """A node registers, as it does at each start of its process. Its store may be a new one: send what it needs
        (cloudhub has forgotten what an earlier process acknowledged).
        """
        self._answer(message, upstream_nodes.insert)
        self._send_all(Resource.parse(message.route.resource, Side.CLOUD).node)

    @handles(None, Operation.CONNECTED)
    def on_connected(self, message: Message) -> None:
        """A node is there: send what it needs. cloudhub leaves out what the node has acknowledged before."""
        self._send_all(message.route.resource.partition("/")[2])

    @handles(None, Operation.DISCONNECTED)
    def on_disconnected(self, message: Message) -> None:
        """A node is gone; whether it is ready, its lease says."""
        _log.debug("%s disconnected", message.route.resource)

    @handles(None, Verb.APPLY, source=commands.SOURCE)
    def on_apply(self, message: Message) -> None:
        """`cloudcore apply`."""
        self._command(message, commands.Apply, commands.apply)

    @handles(None, Verb.GET, source=commands.SOURCE)
    def on_get(self, message: Message) -> None:
        """`cloudcore get`."""
        self._command(message, commands.Get, commands.get)

    @handles(None, Verb.DELETE, source=commands.SOURCE)
    def on_delete(self, message: Message) -> None:
        """`cloudcore delete`."""
        self._command(message, commands.Delete, commands.delete)

    @handles(None, Verb.CALL, source=ModuleName.DYNAMICCONTROLLER)
    def on_call(self, message: Message) -> None:
        """A node's metaserver, through dynamiccontroller."""
        self.reply(message, api_calls.call(self._cluster, message.content_as(api_calls.ApiCall)))
        self._tell_changes()

    def _note_holder(self, message: Message) -> None:
        """A node that asks for a configmap, or for storage, keeps it, and so must hear of its changes; also of its
        coming, when it was not there yet.
        """
        resource = Resource.parse(message.route.resource, Side.CLOUD)
        held = _HELD.get(resource.type)
        if held is not None:
            self._locations.note(Request.of(message, manifests_loaded=True).key(held), resource.node)

    def _answer(self, message: Message, handling: Handling) -> None:
        try:
            request = Request.of(message, manifests_loaded=self._knows_all())
            results = handling(self._cluster, request)
        except ApiError as error:
            results = [status_error(error)]
        except (ContentError, ResourceError) as error:
            _log.warning("an edge's request cannot be read: %s", error)
            results = [status_error(BadRequestError(str(error)))]
        for result in results:
            if isinstance(result, Answer):
                self._send_answer(message, result)
            else:
                self._send_down(result)
        self._tell_changes()

    def _command(self, message: Message, kind: type[Any], run: Callable[[Cluster, Any], commands.Result]) -> None:
        try:
            result = run(self._cluster, message.content_as(kind))
        except ContentError as error:
            result = commands.Result([commands.Item(error=str(error))])
        self.reply(message, result)
        self._tell_changes()

    def _knows_all(self) -> bool:
        return self._journal is not None or (self._manifests is not None and self._manifests.loaded)

    def _look(self) -> None:
        if self._manifests is not None:
            self._manifests.look()
            self._tell_changes()

    def _tell_changes(self) -> None:
        """Sends what the store's changes since the last call mean for the nodes and for who watches."""
        for event in self._cluster.store.take_events():
            if self._journal is not None:
                self._journal.write(event)
            self._tell_nodes(event)
            if self.hive.members(commands.SOURCE):
                changed = Changed(event.change, event.new)
                self.broadcast(commands.SOURCE, self.message(commands.RESOURCE, Verb.CHANGED, changed))

    def _tell_nodes(self, event: ObjectEvent) -> None:
        down = for_event(event, self._holders(event.key))
        if event.key.kind == _POD.name and event.change is not Change.DELETED:
            references = self._locations.learn(event.new)
            for one in down:
                if one.operation is Operation.INSERT:
                    self._send_references(one.node, references)
        for one in down:
            self._send_down(one)
        if event.change is Change.DELETED and self._locations.forget(event.key):
            self._learn_pods()

    def _holders(self, key: ObjectKey) -> list[str]:
        """Of storage drivers all nodes hear: they cannot ask, KubeEdge's cloud having no answer."""
        if key.kind == _DRIVER.name:
            return [node["metadata"]["name"] for node in self._cluster.list(_NODE)]
        return self._locations.nodes_of(key)

    def _learn_pods(self) -> None:
        for pod in self._cluster.list(_POD):
            self._locations.learn(pod)

    def _send_all(self, node: str) -> None:
        drivers = [key_of(driver) for driver in self._cluster.list(_DRIVER)]
        self._send_references(node, [*drivers, *self._locations.on_node(node)])
        for pod in self._cluster.pods_on(node):
            self._send_down(_message_for(node, pod))

    def _send_references(self, node: str, references: list[ObjectKey]) -> None:
        """Sends configmaps and secrets ahead of the pod that needs them, so that the node need not ask for
        them.
        """
        for key in references:
            obj = self._cluster.store.find(key)
            if obj is not None:
                self._send_down(_message_for(node, obj))

    def _send_down(self, down: Downstream) -> None:
        self.send(
            ModuleName.CLOUDHUB,
            self.message(
                down.resource,
                down.operation,
                down.content,
                group=Group.RESOURCE,
                resourceversion=down.version,
            ),
        )

    def _send_answer(self, request: Message, answer: Answer) -> None:
        reply = request.reply(self.clock, answer.content, source=self.name)
        resource = Resource.parse(request.route.resource, Side.CLOUD)
        if answer.resource_type:
            resource = msgspec.structs.replace(resource, type=answer.resource_type)
        routed = reply.with_route(group=Group.RESOURCE, resource=str(resource))
        self.send(ModuleName.CLOUDHUB, routed.with_header(resourceversion=answer.version))


def _message_for(node: str, obj: JsonObject) -> Downstream:
    """What a node must hear of an object that it may not know; the operations are those of its first
    sending.
    """
    key = key_of(obj)
    first = Operation.UPDATE if key.kind == "Secret" or is_being_deleted(obj) else Operation.INSERT
    return message(node, first, key, obj)
