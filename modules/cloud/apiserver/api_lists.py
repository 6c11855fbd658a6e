"""Lists of objects: selectors, and parts of long lists."""

from collections.abc import Iterator, Set
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.continue_tokens import read_continue, write_continue
from modules.apimachinery.errors import ApiStatusError, too_large_version
from modules.apimachinery.go_json import uint64_error
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey
from modules.apimachinery.options import EXACT, match_faults
from modules.apimachinery.selectors import Selector, parse_selector
from modules.apimachinery.validation.invalid_fields import InvalidFieldsError
from modules.cloud.apiextensions.calls import resource_in
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.storage.past_states import ForgottenError

PART_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a part of a list after which no further object is added, however many the client allows."""
_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class _Place(NamedTuple):
    """The place where a part of a list begins: the object before it, and the version of the list."""

    version: int
    namespace: str
    name: str


class _ExpiredError(ApiStatusError):
    """The state of a list in parts is forgotten; a token of its own goes on with the present one."""

    def __init__(self, token: str) -> None:
        super().__init__(410, _EXPIRED)
        self._token = token

    def status(self) -> dict[str, Any]:
        return {**super().status(), "metadata": {"continue": self._token}}


def list_objects(cluster: Cluster, kind: Kind, namespace: str, options: JsonObject) -> JsonObject:
    """Return a list of objects.

    All parts of a list have the objects as they were at the version of the first one, which is in the tokens.

    Args:
        cluster: the objects.
        kind: their kind.
        namespace: "" is all namespaces.
        options: ListOptions: `labelSelector`, `fieldSelector`, `limit`, `continue`, `resourceVersion` and
            `resourceVersionMatch`.

    Raises:
        BadRequestError: the continue parameter or the limit cannot be read.
        InvalidFieldsError: `resourceVersionMatch` does not fit the other options.
        ApiStatusError: 410 for an earlier version that is forgotten, 504 for a future one.
        ApiStatusError: a selector cannot be read.
    """
    present = cluster.storage.version
    token, limit = str(options.get("continue") or ""), _limit(options)
    exact = exact_version(options, present)
    place = _read_place(token, namespace, present) if token else _Place(exact or present, "", "")
    try:
        found = _selected_after(cluster, kind, namespace, options, place)
    except ForgottenError:
        raise _ExpiredError(_present(token)) if token else ApiStatusError(410, _TOO_OLD) from None
    metadata: dict[str, Any] = {"resourceVersion": str(place.version)}
    items = list(_part(found, limit) if limit else found)
    if limit and next(found, None) is not None:
        last = _key(items[-1])
        metadata["continue"] = _token(place.version, namespace, *last)
        if not (options.get("labelSelector") or options.get("fieldSelector")):
            count = cluster.storage.count_after(kind, namespace or None, last, place.version)
            metadata["remainingItemCount"] = count
    return {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata, "items": items}


def _part(found: Iterator[JsonObject], limit: int) -> Iterator[JsonObject]:
    """Yield the objects of one part of a list: so many, or fewer large ones, as Kubernetes' API allows."""
    size = 0
    for obj in islice(found, limit):
        yield obj
        size += len(msgspec.json.encode(obj))
        if size >= PART_BYTES:
            return


def exact_version(options: JsonObject, present: int) -> int:
    """Return the version of the wanted list, 0 for the present one.

    Raises:
        InvalidFieldsError: `resourceVersionMatch` does not fit the other options, or is unknown.
        BadRequestError: the version is no number.
        ApiStatusError: 504 for a version that is still to come.
    """
    match, text = (str(options.get(name) or "") for name in ("resourceVersionMatch", "resourceVersion"))
    if causes := match_faults(match, text, has_token=bool(options.get("continue"))):
        raise InvalidFieldsError("ListOptions", "meta.k8s.io", "", causes)
    if token := str(options.get("continue") or ""):
        _read_token(token)
        if text not in ("", "0"):
            raise BadRequestError("specifying resource version is not allowed when using continue")
    if text and (why := uint64_error(text)):
        raise BadRequestError(f'invalid resource version: resourceVersion: Invalid value: "{text[:40]}": {why}')
    version = int(text or 0)
    if version > present:
        raise too_large_version(version, present)
    return version if match == EXACT or (not match and _limit(options)) else 0


def _selected_after(
    cluster: Cluster, kind: Kind, namespace: str, options: JsonObject, place: _Place
) -> Iterator[JsonObject]:
    labels, fields = (str(options.get(name) or "") for name in ("labelSelector", "fieldSelector"))
    selector = parse_selector(resource_in(cluster.storage.kinds, kind), labels, fields)
    among = _among(cluster, kind, namespace, selector)
    shown = cluster.storage.list_after(kind, namespace or None, (place.namespace, place.name), place.version, among)
    return filter(selector.selects, shown)


def _among(cluster: Cluster, kind: Kind, namespace: str, selector: Selector) -> Set[ObjectKey] | None:
    """Return the keys of the present objects that an index has for a selector; None for all objects."""
    for term in selector.fields:
        value = next(iter(term.values), None) if term.equal else None
        if value is not None and kind.key_name == "Pod" and term.field == "spec.nodeName":
            return cluster.storage.pods_of(value)
        if value is not None and term.field == "metadata.name" and (namespace or not kind.namespaced):
            return {ObjectKey(kind.key_name, namespace, value)}
    return None


def _key(obj: JsonObject) -> tuple[str, str]:
    return str(obj["metadata"].get("namespace") or ""), str(obj["metadata"]["name"])


def _limit(options: JsonObject) -> int:
    limit = options.get("limit") or 0
    if not isinstance(limit, int):
        raise BadRequestError("limit is a number")
    return 0 if options.get("resourceVersion") == "0" and not options.get("continue") else max(limit, 0)


def _present(token: str) -> str:
    """Return the token that goes on at the same place with the present objects."""
    return write_continue(-1, read_continue(token)[1])


def _token(version: int, listed: str, namespace: str, name: str) -> str:
    """Return the continue token of a list that ended with an object, in the form of an API server on etcd.

    Args:
        version: the version of the list's first part.
        listed: the namespace of the list; "" is all.
        namespace: the object's.
        name: the object's.
    """
    start = name if listed or not namespace else f"{namespace}/{name}"
    return write_continue(version, f"{start}\0")


def _read_token(token: str) -> tuple[int, str]:
    try:
        return read_continue(token)
    except ValueError as error:
        raise BadRequestError(f"invalid continue token: {error}") from error


def _read_place(token: str, listed: str, present: int) -> _Place:
    version, start = _read_token(token)
    namespace, _, name = start.rstrip("\0").rpartition("/")
    return _Place(version if version > 0 else present, listed or namespace, name)
