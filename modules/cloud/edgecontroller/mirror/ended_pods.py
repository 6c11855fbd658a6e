"""The pods that nodes have ended, until the watch of pods reports it, too."""

from collections.abc import Iterable, Iterator
from typing import Final

from modules.apimachinery.kinds import JsonObject, kind_named, uid_of, version_of
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.client.reflector.request_state import is_lower

_PODS: Final = kind_named("Pod")
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_OTHER_UID: Final = "UID in precondition"
"""kube-apiserver's text about a deletion when another object has the name (`storage.Preconditions.Check`)."""


def ended_uid(call: ApiCall, result: ApiResult) -> str:
    """Return the uid of the pod that a node's deletion has ended; "" when it has ended none, or names no uid."""
    wanted = call.options.get("preconditions")
    uid = str(wanted.get("uid") or "") if isinstance(wanted, dict) else ""
    if result.refusal is None:
        return uid if _is_complete(uid, result.object) else ""
    code, message = result.refusal.get("code"), str(result.refusal.get("message"))
    return uid if code == _NOT_FOUND or (code == _CONFLICT and _OTHER_UID in message) else ""


def missing_pods(call: ApiCall, node: str, result: ApiResult, known: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield the known pods that a node's list of all its pods shows to be gone.

    Args:
        call: the node's call.
        node: its name.
        result: the API server's answer.
        known: the pods of all nodes, as a watch has told them.
    """
    is_of_all = (
        call.verb == "list" and not call.namespace and call.options == {"fieldSelector": f"spec.nodeName={node}"}
    )
    if not is_of_all or (call.api_version, call.plural) != ("v1", _PODS.plural) or result.object is None:
        return
    metadata, items = result.object.get("metadata"), result.object.get("items")
    if not isinstance(metadata, dict) or not isinstance(items, list) or metadata.get("continue"):
        return
    version = str(metadata.get("resourceVersion") or "")
    there = {uid_of(item) for item in items if isinstance(item, dict) and isinstance(item.get("metadata"), dict)}
    for pod in known:
        is_older = is_lower(version_of(pod), version)
        if is_older and uid_of(pod) not in there and (pod.get("spec") or {}).get("nodeName") == node:
            yield pod


def listed_pods(call: ApiCall, node: str, result: ApiResult) -> Iterator[JsonObject]:
    """Yield the pods of a node in the answer to its list, with their kind: the node keeps them.

    Args:
        call: the node's call.
        node: its name.
        result: the API server's answer.
    """
    if call.verb != "list" or (call.api_version, call.plural) != ("v1", _PODS.plural) or result.object is None:
        return
    items = result.object.get("items")
    for item in items if isinstance(items, list) else ():
        is_object = isinstance(item, dict) and isinstance(item.get("metadata"), dict)
        if is_object and (item.get("spec") or {}).get("nodeName") == node:
            yield {**item, "kind": _PODS.name, "apiVersion": _PODS.api_version}


def _is_complete(uid: str, answer: JsonObject | None) -> bool:
    """Return whether an answer to a deletion shows that the object is deleted: it is a Status, or has no more time."""
    if answer is None or answer.get("kind") == "Status":
        return answer is not None
    metadata = answer.get("metadata")
    if not isinstance(metadata, dict) or uid_of(answer) != uid or metadata.get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")
