"""Responses to nodes, in the forms of KubeEdge's Go structs on the wire (docs/protocol.md, "Upstream")."""

from copy import deepcopy
from typing import Any

import msgspec

from beehive.names import OK
from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.kinds import JsonObject, version_of

_NO_NODE_INFO = dict.fromkeys(
    (
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ),
    "",
)
_EMPTY: dict[str, JsonObject] = {
    "Node": {
        "metadata": {"creationTimestamp": None},
        "spec": {},
        "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": _NO_NODE_INFO},
    },
    "Pod": {"metadata": {"creationTimestamp": None}, "spec": {"containers": None}, "status": {}},
    "Lease": {"metadata": {"creationTimestamp": None}, "spec": {}},
    "CertificateSigningRequest": {
        "metadata": {"creationTimestamp": None},
        "spec": {"request": None, "signerName": ""},
        "status": {},
    },
}


class UpstreamResponse(msgspec.Struct, frozen=True):
    """The response to one request, without id and time."""

    content: Any = OK
    version: str = ""
    """The header `resourceversion`."""
    resource_type: str = ""
    """The resource type of the response, where it differs from the request's."""
    held: JsonObject | None = None
    """The object in it, if the node holds that from then on."""


def object_response(obj: JsonObject, *, is_held: bool = True) -> UpstreamResponse:
    """Return the object with its kind, the form of KubeEdge's listers and the API."""
    return UpstreamResponse(obj, version_of(obj), held=obj if is_held else None)


def typed_response(
    obj: JsonObject, *, with_version: bool = True, keep_kind: bool = False, is_held: bool = False
) -> UpstreamResponse:
    """Return an ObjectResp with the object, without `kind` and `apiVersion`, which a Go client drops after a create or
    patch.
    """
    shown = obj
    if not keep_kind:
        shown = {**obj}
        shown.pop("kind", None)
        shown.pop("apiVersion", None)
    version = version_of(obj) if with_version else ""
    return UpstreamResponse({"Object": shown, "Err": None}, version, held=obj if is_held else None)


def error_response(error: ApiError, kind: str = "", **metadata: Any) -> UpstreamResponse:
    """Return an ObjectResp with an error.

    Args:
        error: the error.
        kind: the kind whose empty Go struct is sent beside the error; "" sends `null`, as with a lister.
        metadata: fields of the empty struct's metadata.
    """
    empty = deepcopy(_EMPTY.get(kind))
    if empty is not None:
        empty["metadata"].update(metadata)
    return UpstreamResponse({"Object": empty, "Err": {"ErrStatus": error.status()}})


def status_error(error: ApiError) -> UpstreamResponse:
    """Return a bare StatusError, the form of a Go `error` in a message's content."""
    return UpstreamResponse({"ErrStatus": error.status()})
