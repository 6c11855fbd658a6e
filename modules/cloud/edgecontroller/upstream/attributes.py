"""The authorizer's attributes of an upstream message (KubeEdge's `GetBuilder` of resource attributes)."""

from typing import Final

from beehive.names import Operation, ResourceType
from modules.apimachinery.kinds import kind_named
from modules.cloud.authorization.attributes import Attributes
from modules.cloud.edgecontroller.upstream.requests import UpstreamRequest

_VERBS: Final[dict[str, str]] = {
    Operation.QUERY: "get",
    Operation.INSERT: "create",
    Operation.UPDATE: "update",
    Operation.PATCH: "patch",
    Operation.DELETE: "delete",
}
_STATUS: Final[dict[str, str]] = {
    ResourceType.PODPATCH: "Pod",
    ResourceType.PODSTATUS: "Pod",
    ResourceType.NODEPATCH: "Node",
    ResourceType.NODESTATUS: "Node",
}
_KINDS: Final[dict[str, str]] = {
    kind.lower(): kind
    for kind in (
        "Pod",
        "Node",
        "Lease",
        "ConfigMap",
        "Secret",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "VolumeAttachment",
        "CertificateSigningRequest",
        "Event",
        "Service",
        "Endpoints",
    )
}


def attributes_of(resource_type: str, operation: str, request: UpstreamRequest) -> Attributes:
    """Return the attributes of a node's message.

    Raises:
        ContentError: the content of a token request is not JSON.
    """
    if resource_type == ResourceType.SERVICE_ACCOUNT_TOKEN:
        body = request.plain_content()
        resource = "serviceaccounts/token"
        namespace, name = request.namespace, request.name
        return Attributes(
            node=request.node, verb="create", resource=resource, namespace=namespace, name=name, body=body
        )
    status = _STATUS.get(resource_type)
    registers = resource_type == ResourceType.NODESTATUS and operation == Operation.INSERT
    kind = kind_named(status or _KINDS[resource_type])
    key = request.key(kind)
    return Attributes(
        node=request.node,
        verb=_VERBS[operation],
        group=kind.api_group,
        resource=f"{kind.plural}/status" if status and not registers else kind.plural,
        namespace=key.namespace,
        name=key.name,
    )
