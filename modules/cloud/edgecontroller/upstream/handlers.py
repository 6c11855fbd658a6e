"""The handlers of nodes' messages (docs/protocol.md, "Upstream"), except registration, which the module handles."""

from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar

from beehive.handlers import handles
from beehive.message import Message
from beehive.names import Operation, ResourceType
from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.kinds import kind_named
from modules.cloud.devices import DEVICE, DEVICE_MODEL
from modules.cloud.edgecontroller.downstream.responses import UpstreamResponse, error_response, status_error
from modules.cloud.edgecontroller.upstream import devices, nodes, objects, pods
from modules.cloud.edgecontroller.upstream.requests import UpstreamHandler, UpstreamResult

Method = TypeVar("Method", bound=Callable[..., None])

HANDLERS: dict[tuple[str, str], UpstreamHandler] = {
    (ResourceType.PODPATCH, Operation.PATCH): pods.patch,
    (ResourceType.NODEPATCH, Operation.PATCH): nodes.patch,
    (ResourceType.PODSTATUS, Operation.UPDATE): pods.report_status,
    (ResourceType.POD, Operation.INSERT): pods.insert,
    (ResourceType.POD, Operation.DELETE): pods.delete,
    (ResourceType.NODE, Operation.QUERY): nodes.query,
    (ResourceType.NODE, Operation.UPDATE): nodes.update,
    (ResourceType.NODESTATUS, Operation.INSERT): nodes.insert_status,
    (ResourceType.NODESTATUS, Operation.UPDATE): nodes.report_status,
    (ResourceType.LEASE, Operation.QUERY): objects.query_lease,
    (ResourceType.LEASE, Operation.INSERT): objects.put_lease,
    (ResourceType.LEASE, Operation.UPDATE): objects.put_lease,
    (ResourceType.SERVICE_ACCOUNT_TOKEN, Operation.QUERY): objects.create_token,
    (ResourceType.CERTIFICATE_SIGNING_REQUEST, Operation.INSERT): objects.create_signing_request,
    (ResourceType.EVENT, Operation.INSERT): objects.record_event,
    (ResourceType.EVENT, Operation.UPDATE): objects.record_event,
    (ResourceType.EVENT, Operation.PATCH): objects.record_event,
    (ResourceType.DEVICE, Operation.QUERY): devices.comparison_of(DEVICE),
    (ResourceType.DEVICE_MODEL, Operation.QUERY): devices.comparison_of(DEVICE_MODEL),
    **{
        (kind.lower(), Operation.QUERY): objects.query_of(kind_named(kind))
        for kind in (
            "ConfigMap",
            "Secret",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "VolumeAttachment",
            "CertificateSigningRequest",
            "Service",
            "Endpoints",
        )
    },
}


def handles_requests(method: Method) -> Method:
    """Mark a module's method as the handler of all messages in `HANDLERS`."""
    for resource_type, operation in HANDLERS:
        handles(resource_type, operation)(method)
    return method


_EMPTY_OF: dict[str, str] = {
    ResourceType.PODPATCH: "Pod",
    ResourceType.NODEPATCH: "Node",
    ResourceType.POD: "Pod",
    ResourceType.NODE: "Node",
    ResourceType.LEASE: "Lease",
    ResourceType.CERTIFICATE_SIGNING_REQUEST: "CertificateSigningRequest",
}
_NOT_ANSWERED = frozenset(
    {
        (ResourceType.EVENT, Operation.INSERT),
        (ResourceType.EVENT, Operation.UPDATE),
        (ResourceType.EVENT, Operation.PATCH),
        (ResourceType.PODSTATUS, Operation.UPDATE),
        (ResourceType.NODESTATUS, Operation.UPDATE),
    }
)


def refusal_responses(request: Message, error: ApiError) -> list[UpstreamResult]:
    """Return the responses to a request that is refused, in KubeEdge's form for its type. To a query a failure has a
    lister's form: an edge would store the bare error as the object, as KubeEdge's metamanager does.
    """
    resource_type, operation = request.subject_on_cloud.type, request.route.operation
    if (resource_type, operation) in _NOT_ANSWERED:
        return [] if error.code == HTTPStatus.FORBIDDEN else [status_error(error)]
    if resource_type == ResourceType.NODESTATUS:
        return [UpstreamResponse(error.message, resource_type=ResourceType.NODE)]
    is_query = operation == Operation.QUERY
    if is_query and error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return [error_response(error)]
    is_bare = is_query and error.code != HTTPStatus.FORBIDDEN
    if is_bare or resource_type == ResourceType.SERVICE_ACCOUNT_TOKEN or operation == Operation.DELETE:
        return [status_error(error)]
    return [error_response(error, "" if is_query else _EMPTY_OF.get(resource_type, ""))]
