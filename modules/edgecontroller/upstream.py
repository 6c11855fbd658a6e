"""Which requests of edges there are, and what answers each (spec/07 §3.2); registration is the module's own work."""

from collections.abc import Callable
from typing import TypeVar

from beehive.handlers import handles
from beehive.message import Message
from beehive.names import Operation, ResourceType
from beehive.resource import Side, type_of
from modules.edgecontroller import upstream_nodes, upstream_objects, upstream_pods
from modules.edgecontroller.kinds import kind_named
from modules.edgecontroller.requests import Handling

Method = TypeVar("Method", bound=Callable[..., None])

_OF_ANY_OPERATION: dict[str, Handling] = {
    ResourceType.PODPATCH: upstream_pods.patch,
    ResourceType.NODEPATCH: upstream_nodes.patch,
}
_OF_ONE_OPERATION: dict[tuple[str, str], Handling] = {
    (ResourceType.PODSTATUS, Operation.UPDATE): upstream_pods.report,
    (ResourceType.POD, Operation.INSERT): upstream_pods.insert,
    (ResourceType.POD, Operation.DELETE): upstream_pods.delete,
    (ResourceType.NODE, Operation.QUERY): upstream_nodes.query,
    (ResourceType.NODE, Operation.UPDATE): upstream_nodes.update,
    (ResourceType.NODESTATUS, Operation.INSERT): upstream_nodes.report_insert,
    (ResourceType.NODESTATUS, Operation.UPDATE): upstream_nodes.report,
    (ResourceType.LEASE, Operation.QUERY): upstream_objects.query_lease,
    (ResourceType.LEASE, Operation.INSERT): upstream_objects.put_lease,
    (ResourceType.LEASE, Operation.UPDATE): upstream_objects.put_lease,
    (ResourceType.SERVICE_ACCOUNT_TOKEN, Operation.QUERY): upstream_objects.create_token,
    (ResourceType.CERTIFICATE_SIGNING_REQUEST, Operation.INSERT): upstream_objects.create_signing_request,
    (ResourceType.EVENT, Operation.INSERT): upstream_objects.record_event,
    (ResourceType.EVENT, Operation.UPDATE): upstream_objects.record_event,
    (ResourceType.EVENT, Operation.PATCH): upstream_objects.record_event,
    **{
        (kind.lower(), Operation.QUERY): upstream_objects.query_of(kind_named(kind))
        for kind in (
            "ConfigMap",
            "Secret",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "VolumeAttachment",
            "CertificateSigningRequest",
        )
    },
}


def handles_requests(method: Method) -> Method:
    """Mark a module's method as the handler of all of them."""
    for resource_type in _OF_ANY_OPERATION:
        handles(resource_type)(method)
    for resource_type, operation in _OF_ONE_OPERATION:
        handles(resource_type, operation)(method)
    return method


def handling_of(request: Message) -> Handling:
    """What answers a request that has come to the method marked."""
    resource_type = type_of(request.route.resource, Side.CLOUD)
    return _OF_ANY_OPERATION.get(resource_type) or _OF_ONE_OPERATION[resource_type, request.route.operation]
