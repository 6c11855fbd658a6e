"""What edgecontroller answers an edge, in the forms that KubeEdge's Go structs have on the wire (spec/07
§3.2).
"""

from copy import deepcopy
from typing import Any

import msgspec

from beehive.names import OK
from modules.edgecontroller.errors import ApiError
from modules.edgecontroller.kinds import JsonObject, version_of

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


class Answer(msgspec.Struct, frozen=True):
    """The response to one request, before it has an id and a time."""

    content: Any = OK
    version: str = ""
    """Header resourceversion."""
    resource_type: str = ""
    """When not empty: the type token of the answer's resource, where it is not the request's."""


def object_answer(obj: JsonObject) -> Answer:
    """The object itself, with its kind: what KubeEdge's listers and the API give."""
    return Answer(obj, version_of(obj))


def typed_answer(obj: JsonObject, *, with_version: bool = True, keep_kind: bool = False) -> Answer:
    """ObjectResp with the object; a Go client drops `kind` and `apiVersion` of what it created or patched."""
    shown = obj if keep_kind else {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
    return Answer({"Object": shown, "Err": None}, version_of(obj) if with_version else "")


def refusal(error: ApiError, kind: str = "", **metadata: Any) -> Answer:
    """ObjectResp with the error.

    Args:
        error: why.
        kind: whose empty Go struct stands beside the error; without it `null` does, as with a lister.
        metadata: what the empty struct's metadata has after all.
    """
    empty = deepcopy(_EMPTY.get(kind))
    if empty is not None:
        empty["metadata"].update(metadata)
    return Answer({"Object": empty, "Err": {"ErrStatus": error.status()}})


def status_error(error: ApiError) -> Answer:
    """A bare StatusError, as a Go `error` in a message's content."""
    return Answer({"ErrStatus": error.status()})
