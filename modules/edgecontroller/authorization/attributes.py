"""A node's request as an authorizer sees it (Kubernetes' authorizer.Attributes), from either way that it can come."""

from typing import Any, Final

import msgspec

from beehive.names import Operation, ResourceType
from modules.edgecontroller.api_calls import ApiCall
from modules.edgecontroller.kinds import kind_named
from modules.edgecontroller.requests import Request

_USER: Final = "system:node:"


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants to do what to what."""

    node: str
    verb: str
    group: str = ""
    """API group; empty: the core."""
    resource: str
    """With the subresource: `pods`, `pods/status`."""
    namespace: str = ""
    name: str = ""
    body: Any = None
    """Where the decision depends on it: a TokenRequest."""
    field_selector: str = ""

    @property
    def user(self) -> str:
        """The node's name as a user of Kubernetes."""
        return user_of(self.node)


def user_of(node: str) -> str:
    """A node's name as a user of Kubernetes; its group is `system:nodes`."""
    return _USER + node


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
    )
}


def of_message(resource_type: str, operation: str, request: Request) -> Attributes:
    """Of a request that came as a message (KubeEdge's GetBuilder of resource attributes).

    Raises:
        ContentError: it is for a token, and its content is no JSON.
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


def of_call(node: str, call: ApiCall) -> Attributes:
    """Of a request of a node's metaserver, an Application; the verb `updatestatus` is its word for an update of the
    subresource.
    """
    group, slash, _ = call.api_version.partition("/")
    of_status = call.verb == "updatestatus"
    subresource = call.subresource or ("status" if of_status else "")
    return Attributes(
        node=node,
        verb="update" if of_status else call.verb,
        group=group if slash else "",
        resource=f"{call.plural}/{subresource}" if subresource else call.plural,
        namespace=call.namespace,
        name=call.name,
        field_selector=str(call.options.get("fieldSelector") or ""),
    )
