"""What metamanager does with a message, as a table: KubeEdge's operations (spec/05 §4 and §5, today's edgecore).

Pure: `plan` looks at the operation, the type, the source and the connection, and names the steps; `metamanager.module`
takes them. What differs from KubeEdge, and why:

- configmaps and secrets are answered from the store when it has them, not from the cloud (`Origin.STORE_FIRST`): the
  cloud pushes changes of what the node's pods use, and a pod must start as fast, and as well, without a cloud;
- volumes, claims, attachments and tokens too (`STORE_REFRESHED`): the cloud is asked behind, for it does not push them,
  so that no pod waits for a cloud that is connected and silent;
- nodes are asked of the cloud, so that registration sees what it has; what the cloud cannot be asked now is answered
  from the store where it has it (`CLOUD_FIRST`);
- a delete that only the cloud can carry out is refused at once without a connection, instead of a time-out;
- events of this node are kept, a limited number, whether or not the cloud is to have them (KubeEdge keeps none);
- a pod by its name that the store does not know is asked of the cloud (`metamanager.pod_question`): a store that was
  lost is mended so, and no pod ends because of it;
- the node's object is handed to edged like any other (KubeEdge: not its updates).
"""

from enum import Enum, auto
from typing import NamedTuple

from beehive import ModuleName, Operation, ResourceType
from beehive.cache import remembered


class Change(Enum):
    """What becomes of the store."""

    NONE = auto()
    PUT = auto()
    """The content under the message's resource, unless a newer state of the object is there."""
    PUT_EVENT = auto()
    """The same among a limited number: the oldest makes room."""
    PUT_ANSWER = auto()
    """The object in an answer that nobody waits for any more; an OK or a refusal changes nothing."""
    DELETE = auto()
    """The row under the message's resource, if it is of the uid that the content names."""


class Step(Enum):
    """What is done after the change is durable, in this order."""

    TO_EDGED = auto()
    TO_TWIN = auto()
    """With source `meta` and group `twin`, as devicetwin expects it."""
    TO_CLOUD = auto()
    """As it came: the cloud's answer finds the sender by the message's id."""
    REPORT_TO_CLOUD = auto()
    """The same, but nobody waits for an answer: it may wait for the connection."""
    EVENT_TO_CLOUD = auto()
    """The same, if the cloud is to have events."""
    OK_TO_CLOUD = auto()
    """The acknowledgement that the cloud's delivery waits for."""
    OK_TO_SENDER = auto()
    ASK_CLOUD = auto()
    """Ask with an id of our own, store the answer, hand it to the sender (processRemote)."""
    ANSWER = auto()
    """From the store: the object, or all of the type."""
    ANSWER_OR_ASK = auto()
    """From the store when it is there, else ask."""
    ANSWER_OR_REFUSE = auto()
    """From the store when it is there, else say that there is no connection."""
    ANSWER_AND_REFRESH = auto()
    """From the store when it is there, and ask the cloud behind; else ask."""
    REFUSE = auto()
    """Say that there is no connection (to what needed an answer)."""
    REFUSE_PATCH = auto()
    """The same in the words that KubeEdge has for patches."""
    TO_VOLUME_PLUGIN = auto()
    """Ask edged, and hand its answer to the cloud."""
    UNSUPPORTED = auto()


HANDED_ON = frozenset({Step.TO_EDGED, Step.TO_TWIN, Step.TO_CLOUD, Step.REPORT_TO_CLOUD})
"""Steps that are left out for a message about an older state than the stored one."""


class Plan(NamedTuple):
    """What is done with one message."""

    change: Change
    steps: tuple[Step, ...]
    even_if_old: bool = False
    """Whether a message that changed nothing is handed on all the same."""
    even_if_lost: bool = False
    """Whether it is handed on although the change cannot be stored: what this node says of itself and its pods must
    reach the cloud, above all when its disk is full."""


class Origin(Enum):
    """Where the answer to a query comes from."""

    STORE = auto()
    STORE_FIRST = auto()
    STORE_REFRESHED = auto()
    """The store first, and the cloud is asked behind: it does not push what changes."""
    CLOUD_FIRST = auto()
    """The store only while the cloud cannot be asked."""
    CLOUD = auto()


_ORIGINS: dict[str, Origin] = {
    ResourceType.POD: Origin.STORE_FIRST,
    ResourceType.CONFIGMAP: Origin.STORE_FIRST,
    ResourceType.SECRET: Origin.STORE_FIRST,
    ResourceType.NODE: Origin.CLOUD_FIRST,
    ResourceType.PERSISTENT_VOLUME: Origin.STORE_REFRESHED,
    ResourceType.PERSISTENT_VOLUME_CLAIM: Origin.STORE_REFRESHED,
    ResourceType.VOLUME_ATTACHMENT: Origin.STORE_REFRESHED,
    ResourceType.SERVICE_ACCOUNT_TOKEN: Origin.STORE_REFRESHED,
    ResourceType.CA_CERTIFICATE: Origin.CLOUD_FIRST,
    ResourceType.LEASE: Origin.CLOUD,
    ResourceType.CERTIFICATE_SIGNING_REQUEST: Origin.CLOUD,
}

_NOT_KEPT = frozenset(
    {ResourceType.LEASE, ResourceType.PODPATCH, ResourceType.NODEPATCH, ResourceType.SERVICE_ACCOUNT_TOKEN}
)

VOLUME_OPERATIONS = (
    Operation.CREATE_VOLUME,
    Operation.DELETE_VOLUME,
    Operation.CONTROLLER_PUBLISH_VOLUME,
    Operation.CONTROLLER_UNPUBLISH_VOLUME,
)

_NOTHING = Plan(Change.NONE, (Step.UNSUPPORTED,))
_PASS_ON = Plan(Change.NONE, (Step.TO_CLOUD,))
_RECORD = Plan(Change.PUT_EVENT, (Step.EVENT_TO_CLOUD,), even_if_old=True, even_if_lost=True)


@remembered(512)
def plan(operation: str, kind: str, source: str, *, named: bool, connected: bool) -> Plan:
    """The plan for a message.

    Args:
        operation: `route.operation`.
        kind: the type token of the resource; empty when it has none.
        source: `route.source`.
        named: whether the resource names one object, not a collection.
        connected: whether the cloud can be reached.
    """
    if kind == ResourceType.STORE:
        return _of_the_store_itself(operation, source)
    if kind == ResourceType.EVENT and operation in (Operation.INSERT, Operation.UPDATE):
        return _RECORD
    if kind == ResourceType.EVENT and operation == Operation.PATCH:
        return _PASS_ON
    match operation:
        case Operation.INSERT:
            return _insert(source, connected=connected)
        case Operation.UPDATE:
            return _update(kind, source, connected=connected)
        case Operation.PATCH:
            return Plan(Change.PUT, (Step.TO_CLOUD if connected else Step.REFUSE_PATCH,), even_if_lost=True)
        case Operation.DELETE:
            return _delete(source, connected=connected)
        case Operation.QUERY:
            return Plan(Change.NONE, (_query(origin_of(kind, named=named), connected=connected),))
        case Operation.RESPONSE:
            to_edged = source == ModuleName.EDGECONTROLLER
            return Plan(Change.PUT_ANSWER, (Step.TO_EDGED if to_edged else Step.TO_CLOUD,))
        case _ if operation in VOLUME_OPERATIONS:
            return Plan(Change.NONE, (Step.TO_VOLUME_PLUGIN,))
    return _NOTHING


def origin_of(kind: str, *, named: bool) -> Origin:
    """Where the answer to a query comes from. A collection is listed from the store; the CA certificate has no name."""
    if not named and kind != ResourceType.CA_CERTIFICATE:
        return Origin.STORE
    return _ORIGINS.get(kind, Origin.STORE)


def is_kept(kind: str) -> bool:
    """Whether the cloud's answer about such a resource is stored under its name.

    Not a lease: it is of no use without the cloud and would cost the flash a write every ten seconds. Not the answer to
    a patch, in whose place the patch is. Not a token, which belongs to one request and not to the name.
    """
    return kind not in _NOT_KEPT


def _of_the_store_itself(operation: str, source: str) -> Plan:
    """Notes of this node about its store: nobody else's affair."""
    if operation == Operation.QUERY:
        return Plan(Change.NONE, (Step.ANSWER,))
    if operation == Operation.UPDATE and source == ModuleName.EDGED:
        return Plan(Change.PUT, (Step.OK_TO_SENDER,))
    return _NOTHING


def _insert(source: str, *, connected: bool) -> Plan:
    match source:
        case ModuleName.EDGED:
            return Plan(Change.NONE, (_remote(connected=connected),))
        case ModuleName.DEVICECONTROLLER:
            return Plan(Change.PUT, (Step.TO_TWIN, Step.OK_TO_CLOUD))
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


def _delete(source: str, *, connected: bool) -> Plan:
    match source:
        case ModuleName.EDGED:
            return Plan(Change.NONE, (Step.TO_CLOUD if connected else Step.REFUSE,))
        case ModuleName.DEVICECONTROLLER:
            return Plan(Change.DELETE, (Step.TO_TWIN, Step.TO_EDGED, Step.OK_TO_CLOUD), even_if_old=True)
        case ModuleName.POLICYCONTROLLER:
            return Plan(Change.DELETE, (Step.OK_TO_CLOUD,))
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
