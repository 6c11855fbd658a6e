"""The requests of the Kubernetes API that follow from the messages of nodes."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec

from modules.apimachinery.api_errors import RefusedError
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, key_of, kind_named
from modules.cloud.client.calls import MERGE, STRATEGIC, ApiCall
from modules.cloud.edgecontroller.upstream.requests import Steps, UpstreamRequest

_UNCHECKED = {"fieldValidation": "Ignore"}
"""A Go edge may know fields that the API server does not."""

_PAGE = 500
"""Objects of a page."""

NEWEST: Final[JsonObject] = {"resourceVersion": ""}
"""Options of a get for which no mirror will do."""
_RETRIED: Final = 4
"""Attempts to write a status, before the last one, beside others who write the object (client-go's `DefaultRetry`). A
pod that is being deleted would not end: its node reports the end of its containers once.
"""

_Written = TypeVar("_Written")


def get(key: ObjectKey) -> ApiCall:
    """Return the request for an object."""
    return _call("get", key)


def page_of(kind: str, token: str = "") -> ApiCall:
    """Return the request for a page of all objects of a kind: the first one, or the page of a continue token."""
    options: JsonObject = {"limit": _PAGE, **({"continue": token} if token else {})}
    return _call("list", ObjectKey(kind, "", ""), options=options)


def create(obj: JsonObject) -> ApiCall:
    """Return the request to create an object."""
    key = key_of(obj)
    return _call("create", ObjectKey(key.kind, key.namespace, ""), body=obj, options=_UNCHECKED)


def create_token(namespace: str, account: str, body: JsonObject) -> ApiCall:
    """Return the TokenRequest of a service account."""
    key = ObjectKey("ServiceAccount", namespace, account)
    return _call("create", key, "token", body=body, options=_UNCHECKED)


def update(obj: JsonObject) -> ApiCall:
    """Return the request to replace an object."""
    return _call("update", key_of(obj), body=obj, options=_UNCHECKED)


def update_status(obj: JsonObject) -> ApiCall:
    """Return the request to replace the status of an object by the given object's."""
    return _call("update", key_of(obj), "status", body=obj, options=_UNCHECKED)


def patch_status(request: UpstreamRequest, kind: Kind, body: JsonObject) -> ApiCall:
    """Return the request to merge a node's strategic merge patch into the status and metadata of the object that its
    message names; the answer is passed on to the node.
    """
    key, content = request.key(kind), request.message.content
    return ApiCall(
        verb="patch",
        api_version=kind.api_version,
        plural=kind.plural,
        namespace=key.namespace,
        name=key.name,
        subresource="status",
        patch_type=STRATEGIC,
        options=_UNCHECKED,
        body=body,
        size=len(content) if isinstance(content, msgspec.Raw) else 0,
        is_passed_on=True,
    )


def patch_metadata(key: ObjectKey, metadata: JsonObject) -> ApiCall:
    """Return the request to merge metadata into the metadata of an object."""
    return _call("patch", key, body={"metadata": metadata}, patch_type=MERGE, options=_UNCHECKED)


def patch(key: ObjectKey, strategic: JsonObject) -> ApiCall:
    """Return the request to merge a strategic merge patch into an object."""
    return _call("patch", key, body=strategic, patch_type=STRATEGIC, options=_UNCHECKED)


def delete(key: ObjectKey, grace: int | None = None, uid: str = "") -> ApiCall:
    """Return the request to delete an object.

    Args:
        key: the object.
        grace: seconds; None: the pod's own.
        uid: precondition, or "".
    """
    options: JsonObject = {} if grace is None else {"gracePeriodSeconds": grace}
    if uid:
        options["preconditions"] = {"uid": uid}
    return _call("delete", key, options=options)


def find(key: ObjectKey, *, as_stored: bool = False) -> Steps[JsonObject | None]:
    """Return an object, or None when it does not exist.

    Args:
        key: the object.
        as_stored: whether the API server is asked: the mirror may be behind a write that has just been made.
    """
    try:
        return (yield _call("get", key, options=NEWEST if as_stored else {}))
    except RefusedError as error:
        if error.is_not_found:
            return None
        raise


def retried(write: Callable[[bool], Steps[_Written]]) -> Steps[_Written]:
    """Read and write an object, again when somebody else has written it in between.

    Args:
        write: does that; it is told whether it has to read the object as it is stored.
    """
    for attempt in range(_RETRIED):
        try:
            return (yield from write(attempt > 0))
        except RefusedError as error:
            if error.code != HTTPStatus.CONFLICT:
                raise
    return (yield from write(True))  # noqa: FBT003 - its only argument


def _call(verb: str, key: ObjectKey, subresource: str = "", **fields: Any) -> ApiCall:
    kind = kind_named(key.kind)
    return ApiCall(
        verb=verb,
        api_version=kind.api_version,
        plural=kind.plural,
        namespace=key.namespace,
        name=key.name,
        subresource=subresource,
        **fields,
    )
