"""The table of metamanager's operations, KubeEdge's (docs/protocol.md, "Message table" and "Queries").

Pure: `plan` maps operation, type, source and connection to the steps that `metamanager.module` carries out. The
differences from KubeEdge:

- configmaps and secrets come from the store, if it has them, and not from the cloud (`Origin.STORE_FIRST`): the cloud
  pushes changes of objects that the node's pods use, and a pod must start as fast without a cloud;
- volumes, claims, attachments and tokens too (`STORE_REFRESHED`), with a query to the cloud in the background, for it
  does not push them: no pod waits for a cloud that is connected and silent;
- nodes come from the cloud, so that registration sees its object; the store answers while the cloud cannot
  (`CLOUD_FIRST`);
- without a connection, a delete that only the cloud can carry out is refused immediately, not after a time-out;
- so is the delete of a pod that has ended while the store, which could not be written, still has it as one to run: once
  the cloud has deleted the pod another may take its place, and a start without the cloud would run both;
- the store keeps a limited number of this node's events, whether or not they go to the cloud (KubeEdge keeps none);
- metamanager asks the cloud for a named pod that is not stored (`metamanager.remote_query`): this repairs a lost store
  without ending a pod;
- edged receives the Node object like any other (KubeEdge: not its updates);
- metaserver deletes what the cloud has deleted without telling the node;
- devicetwin receives each Device and DeviceModel, and keeps its devices here.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum, auto
from functools import partial
from typing import Final

import msgspec

from beehive import DeliveryMode, Group, ModuleName, Operation, ResourceType
from beehive.cache import cached_for_short_texts
from metamanager.query_origins import Origin, origin_of


class Change(IntEnum):
    """Change of the store."""

    NONE = auto()
    PUT = auto()
    """Put the content under the message's resource, unless a newer state of the object is stored."""
    PUT_EVENT = auto()
    """Put an event; the oldest beyond a limit is deleted."""
    PUT_ANSWER = auto()
    """Put the object in a late answer; an OK or a refusal changes nothing."""
    DELETE = auto()
    """Delete the row under the message's resource, if it has the uid in the content."""


class Step(IntEnum):
    """Step after the change is durable, in the order of the plan."""

    TO_EDGED = auto()
    TO_MESH = auto()
    """Forward to edgemesh, if the node has it."""
    TO_TWIN = auto()
    """Forward with source `meta` and group `twin`, as devicetwin expects."""
    TO_CLOUD = auto()
    """Forward unchanged: the cloud's answer finds the sender by the message's id."""
    DELETION_TO_CLOUD = auto()
    """Forward the deletion of a pod that has ended, if the store knows that it is deleted; else refuse."""
    REPORT_TO_CLOUD = auto()
    """Forward as a message without a waiting sender, which may wait for the connection."""
    EVENT_TO_CLOUD = auto()
    """Report to the cloud, if events are reported."""
    OK_TO_CLOUD = auto()
    """Acknowledge to the cloud."""
    OK_TO_CLOUD_AS_META = auto()
    """Acknowledge with source `meta` and group `twin`, as KubeEdge does for a new object that its twin receives."""
    OK_TO_SENDER = auto()
    ASK_CLOUD = auto()
    """Query under a new id, store the answer, pass it to the sender (processRemote)."""
    ANSWER = auto()
    """Answer from the store: the object, or all of the type."""
    ANSWER_OR_ASK = auto()
    """Answer from the store if it has the object, else ask the cloud."""
    ANSWER_OR_REFUSE = auto()
    """Answer from the store if it has the object, else refuse: there is no connection."""
    ANSWER_AND_REFRESH = auto()
    """Answer from the store if it has the object, and query the cloud in the background; else ask the cloud."""
    REFUSE = auto()
    """Refuse, because there is no connection."""
    REFUSE_PATCH = auto()
    """Refuse in KubeEdge's words for patches."""
    TO_VOLUME_PLUGIN = auto()
    """Ask edged and send its answer to the cloud."""
    UNSUPPORTED = auto()


class Destination(msgspec.Struct, frozen=True):
    """The receiver of a message that is forwarded, and the form in which it gets it."""

    mode: DeliveryMode
    """SEND to a module, BROADCAST to a group."""
    name: str
    """Name of the module or group."""
    as_meta: bool = False
    """Whether the message gets source `meta` and group `twin`."""
    may_answer: bool = True
    """Whether a waiting sender gets the receiver's answer. A message that nobody waits for may wait for the connection.
    """
    is_optional: bool = False
    """Whether a node may run without the receiver."""


DESTINATIONS: Final[Mapping[Step, Destination]] = {
    Step.TO_EDGED: Destination(DeliveryMode.SEND, ModuleName.EDGED),
    Step.TO_MESH: Destination(DeliveryMode.BROADCAST, Group.MESH, is_optional=True),
    Step.TO_TWIN: Destination(DeliveryMode.SEND, ModuleName.DEVICETWIN, as_meta=True),
    Step.TO_CLOUD: Destination(DeliveryMode.BROADCAST, Group.HUB),
    Step.REPORT_TO_CLOUD: Destination(DeliveryMode.BROADCAST, Group.HUB, may_answer=False),
}
"""Where the steps that forward a message send it. They are omitted for one with an older state than the stored one."""


class Plan(msgspec.Struct, frozen=True):
    """Change and steps for one message."""

    change: Change
    steps: tuple[Step, ...]
    even_if_old: bool = False
    """Whether a message that changed nothing is forwarded nevertheless."""
    even_if_lost: bool = False
    """Whether the message is forwarded although its change cannot be stored: statuses of the node and its pods must
    reach the cloud, above all when the disk is full."""


_NOT_KEPT = frozenset(
    {ResourceType.LEASE, ResourceType.PODPATCH, ResourceType.NODEPATCH, ResourceType.SERVICE_ACCOUNT_TOKEN}
)

VOLUME_OPERATIONS = (
    Operation.CREATE_VOLUME,
    Operation.DELETE_VOLUME,
    Operation.CONTROLLER_PUBLISH_VOLUME,
    Operation.CONTROLLER_UNPUBLISH_VOLUME,
)

_OF_DEVICES = frozenset({ResourceType.DEVICE, ResourceType.DEVICE_MODEL})
_OF_MESH = frozenset(
    {
        ResourceType.SERVICE, ResourceType.SERVICELIST, ResourceType.ENDPOINTS, ResourceType.ENDPOINTSLIST,
        ResourceType.ENDPOINTSLICE, ResourceType.PODLIST, ResourceType.NODE,
    }
)  # fmt: skip
"""Types that edgemesh receives from the cloud."""
_CLOUD_CHANGES = frozenset({Operation.INSERT, Operation.UPDATE, Operation.DELETE})

_NOTHING = Plan(Change.NONE, (Step.UNSUPPORTED,))
_PASS_ON = Plan(Change.NONE, (Step.TO_CLOUD,))
_RECORD = Plan(Change.PUT_EVENT, (Step.EVENT_TO_CLOUD,), even_if_old=True, even_if_lost=True)


@cached_for_short_texts(512)
def plan(operation: str, kind: str, source: str, *, named: bool, connected: bool) -> Plan:
    """Return the plan for a message.

    Args:
        operation: `route.operation`.
        kind: the type token of the resource; empty without one.
        source: `route.source`.
        named: whether the resource names one object, not a collection.
        connected: whether there is a connection to the cloud.
    """
    if kind in _OWN:
        return _OWN[kind](operation, source)
    if kind in _OF_DEVICES and source == ModuleName.EDGECONTROLLER and operation in _CLOUD_CHANGES:
        return _of_devices(operation)
    if kind == ResourceType.EVENT and operation in (Operation.INSERT, Operation.UPDATE):
        return _RECORD
    if kind == ResourceType.EVENT and operation == Operation.PATCH:
        return _PASS_ON
    match operation:
        case Operation.INSERT:
            return _for_mesh(kind, _insert(source, connected=connected))
        case Operation.UPDATE:
            return _for_mesh(kind, _update(kind, source, connected=connected))
        case Operation.PATCH:
            return Plan(Change.PUT, (Step.TO_CLOUD if connected else Step.REFUSE_PATCH,), even_if_lost=True)
        case Operation.DELETE:
            return _for_mesh(kind, _delete(kind, source, connected=connected))
        case Operation.QUERY:
            return Plan(Change.NONE, (_query(origin_of(kind, named=named), connected=connected),))
        case Operation.RESPONSE:
            to_edged = source == ModuleName.EDGECONTROLLER
            return Plan(Change.PUT_ANSWER, (Step.TO_EDGED if to_edged else Step.TO_CLOUD,))
        case _ if operation in VOLUME_OPERATIONS:
            return Plan(Change.NONE, (Step.TO_VOLUME_PLUGIN,))
    return _NOTHING


def is_kept(kind: str) -> bool:
    """Return whether the cloud's answer about a type is stored under its name.

    Not a lease: it is useless without the cloud and would cost the flash a write every ten seconds. Not the answer to a
    patch, because its row holds the patch. Not a token, which belongs to a request and not to a name.
    """
    return kind not in _NOT_KEPT


def _for_mesh(kind: str, planned: Plan) -> Plan:
    """Add edgemesh to the receivers of what edged receives from the cloud."""
    if kind not in _OF_MESH or Step.TO_EDGED not in planned.steps:
        return planned
    after = planned.steps.index(Step.TO_EDGED) + 1
    return msgspec.structs.replace(planned, steps=(*planned.steps[:after], Step.TO_MESH, *planned.steps[after:]))


def _of_the_store_itself(operation: str, source: str) -> Plan:
    """Plan a message about this node's notes on its own store, which never leave it."""
    if operation == Operation.QUERY:
        return Plan(Change.NONE, (Step.ANSWER,))
    if operation == Operation.UPDATE and source == ModuleName.EDGED:
        return Plan(Change.PUT, (Step.OK_TO_SENDER,))
    return _NOTHING


def _of_a_module(owner: ModuleName, operation: str, source: str) -> Plan:
    """Plan a message about rows that one module of this node keeps in the store; nobody else writes them."""
    if operation == Operation.QUERY:
        return Plan(Change.NONE, (Step.ANSWER,))
    if source != owner:
        return _NOTHING
    if operation == Operation.UPDATE:
        return Plan(Change.PUT, (Step.OK_TO_SENDER,))
    return Plan(Change.DELETE, (Step.OK_TO_SENDER,)) if operation == Operation.DELETE else _NOTHING


def _of_devices(operation: str) -> Plan:
    """Plan a Device or DeviceModel that changed while the node was offline and that the cloud sends again: devicetwin
    receives it, and not edged as in KubeEdge.
    """
    if operation == Operation.DELETE:
        return Plan(Change.DELETE, (Step.TO_TWIN, Step.OK_TO_CLOUD), even_if_old=True)
    return Plan(Change.PUT, (Step.TO_TWIN, Step.OK_TO_CLOUD))


_OWN: Final[dict[str, Callable[[str, str], Plan]]] = {
    ResourceType.STORE: _of_the_store_itself,
    ResourceType.DEVICE_TWIN: partial(_of_a_module, ModuleName.DEVICETWIN),
    ResourceType.DEVICE_MAPPER: partial(_of_a_module, ModuleName.DMI),
    ResourceType.MQTT_TOPICS: partial(_of_a_module, ModuleName.EVENTBUS),
    ResourceType.TARGET_URLS: partial(_of_a_module, ModuleName.SERVICEBUS),
    ResourceType.NODE_TASK: partial(_of_a_module, ModuleName.TASKMANAGER),
}
"""Plans of the types that only modules of this node write."""


def _insert(source: str, *, connected: bool) -> Plan:
    match source:
        case ModuleName.EDGED:
            return Plan(Change.NONE, (_remote(connected=connected),))
        case ModuleName.DEVICECONTROLLER:
            return Plan(Change.PUT, (Step.TO_TWIN, Step.OK_TO_CLOUD_AS_META))
        case ModuleName.POLICYCONTROLLER:
            return Plan(Change.PUT, (Step.OK_TO_CLOUD,))
    return Plan(Change.PUT, (Step.TO_EDGED, Step.OK_TO_CLOUD))


def _update(kind: str, source: str, *, connected: bool) -> Plan:
    match source:
        case ModuleName.EDGED if kind == ResourceType.LEASE:
            return Plan(Change.NONE, (_remote(connected=connected),))
        case ModuleName.EDGED:
            return Plan(Change.PUT, (Step.REPORT_TO_CLOUD, Step.OK_TO_SENDER), even_if_old=True)
        case ModuleName.EDGECONTROLLER | ModuleName.DYNAMICCONTROLLER:
            return Plan(Change.PUT, (Step.TO_EDGED, Step.OK_TO_CLOUD))
        case ModuleName.DEVICECONTROLLER:
            return Plan(Change.PUT, (Step.OK_TO_CLOUD, Step.TO_TWIN))
        case ModuleName.POLICYCONTROLLER:
            return Plan(Change.PUT, (Step.OK_TO_CLOUD,))
        case ModuleName.METAMANAGER:
            return Plan(Change.PUT, (Step.TO_TWIN, Step.OK_TO_SENDER))
    return _NOTHING


def _delete(kind: str, source: str, *, connected: bool) -> Plan:
    match source:
        case ModuleName.EDGED:
            step = Step.DELETION_TO_CLOUD if kind == ResourceType.POD else Step.TO_CLOUD
            return Plan(Change.NONE, (step if connected else Step.REFUSE,))
        case ModuleName.DEVICECONTROLLER:
            return Plan(Change.DELETE, (Step.TO_TWIN, Step.TO_EDGED, Step.OK_TO_CLOUD), even_if_old=True)
        case ModuleName.POLICYCONTROLLER:
            return Plan(Change.DELETE, (Step.OK_TO_CLOUD,))
        case ModuleName.METASERVER:
            return Plan(Change.DELETE, (Step.TO_MESH,), even_if_lost=True)  # the cloud waits for no answer
    return Plan(Change.DELETE, (Step.TO_EDGED, Step.OK_TO_CLOUD), even_if_old=True)


def _query(origin: Origin, *, connected: bool) -> Step:
    match origin:
        case Origin.STORE:
            return Step.ANSWER
        case Origin.STORE_FIRST:
            return Step.ANSWER_OR_ASK if connected else Step.ANSWER_OR_REFUSE
        case Origin.STORE_REFRESHED:
            return Step.ANSWER_AND_REFRESH if connected else Step.ANSWER_OR_REFUSE
        case Origin.CLOUD_FIRST:
            return Step.ASK_CLOUD if connected else Step.ANSWER_OR_REFUSE
    return _remote(connected=connected)


def _remote(*, connected: bool) -> Step:
    return Step.ASK_CLOUD if connected else Step.REFUSE
