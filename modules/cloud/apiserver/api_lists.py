"""Lists of objects: selectors, and parts of long lists."""

import base64
import binascii
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.selectors import parse_selector
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.custom_resources.calls import resource_in
from modules.cloud.apiserver.errors import BadRequestError, InvalidError
from modules.cloud.apiserver.kinds import JsonObject, Kind

_EXACT: Final = "Exact"
_DIGITS: Final = 20
"""Digits of a resourceVersion, and one more."""


class _Place(NamedTuple):
    """The continue token: the last object of the previous part, and the version of the first."""

    version: str
    namespace: str
    name: str


def list_objects(cluster: Cluster, kind: Kind, namespace: str, options: JsonObject) -> JsonObject:
    """Return a list of objects.

    A list in parts keeps no snapshot: each part has the present objects, and all parts have the first one's version. A
    watch from this version reports all changes since, so a client misses none.

    Args:
        cluster: the objects.
        kind: their kind.
        namespace: "" is all namespaces.
        options: ListOptions: `labelSelector`, `fieldSelector`, `limit`, `continue`, `resourceVersion` and
            `resourceVersionMatch`.

    Raises:
        BadRequestError: the continue parameter or the limit cannot be read.
        InvalidError: `resourceVersionMatch` does not fit the other options.
        ApiStatusError: 410 for an earlier version that is to match exactly, 504 for one that is still to come.
        ApiStatusError: a selector cannot be read.
    """
    check_version(options, cluster.storage.version)
    metadata: dict[str, Any] = {"resourceVersion": str(cluster.storage.version)}
    token = str(options.get("continue") or "")
    place = _read_place(token) if token else _Place(metadata["resourceVersion"], "", "")
    metadata["resourceVersion"] = place.version
    limit = _limit(options)
    found = _selected_after(cluster, kind, namespace, options, place)
    items = list(islice(found, limit or None))
    if limit and (following := next(found, None)) is not None:
        metadata["continue"] = _token(_Place(place.version, *_key(items[-1])))
        if not (options.get("labelSelector") or options.get("fieldSelector")):
            metadata["remainingItemCount"] = len([following, *found])
    return {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata, "items": items}


def check_version(options: JsonObject, present: int) -> None:
    """Check the version of which a list is wanted; each list has the present objects.

    Raises:
        InvalidError: `resourceVersionMatch` does not fit the other options, or is unknown.
        BadRequestError: the version is no number.
        ApiStatusError: 410 for an earlier version that is to match exactly, 504 for one that is still to come.
    """
    match, text = (str(options.get(name) or "") for name in ("resourceVersionMatch", "resourceVersion"))
    if match and not text:
        raise _match_error("Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match and match not in (_EXACT, "NotOlderThan"):
        raise _match_error(f'Unsupported value: "{match[:40]}": supported values: "Exact", "NotOlderThan"')
    if match and options.get("continue"):
        raise _match_error("Forbidden: resourceVersionMatch is forbidden for continue")
    if text and not (text.isascii() and text.isdecimal() and len(text) < _DIGITS):
        raise BadRequestError(f"resourceVersion: Invalid value: {text[:40]!r}: a number is wanted")
    version = int(text or 0)
    if version > present:
        details = {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }
        raise ApiStatusError(504, f"Timeout: Too large resource version: {version}, current: {present}", details)
    if match == _EXACT and version < present:
        raise ApiStatusError(410, "The resourceVersion for the provided list is too old.")


def _match_error(why: str) -> InvalidError:
    return InvalidError("ListOptions", "", "resourceVersionMatch", why, "meta.k8s.io")


def selected_objects(cluster: Cluster, kind: Kind, namespace: str, options: JsonObject) -> list[JsonObject]:
    """Return the objects that the options' selectors select.

    Raises:
        ApiStatusError: a selector cannot be read.
    """
    return list(_selected_after(cluster, kind, namespace, options, _Place("", "", "")))


def _selected_after(
    cluster: Cluster, kind: Kind, namespace: str, options: JsonObject, place: _Place
) -> Iterator[JsonObject]:
    labels, fields = (str(options.get(name) or "") for name in ("labelSelector", "fieldSelector"))
    selector = parse_selector(resource_in(cluster.storage.kinds, kind), labels, fields)
    return filter(selector.selects, cluster.shown(kind, namespace or None, (place.namespace, place.name)))


def _key(obj: JsonObject) -> tuple[str, str]:
    return str(obj["metadata"].get("namespace") or ""), str(obj["metadata"]["name"])


def _limit(options: JsonObject) -> int:
    limit = options.get("limit") or 0
    if not isinstance(limit, int) or limit < 0:
        raise BadRequestError("limit is a number, 0 or more")
    return 0 if options.get("resourceVersion") == "0" and not options.get("continue") else limit


def _token(place: _Place) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode()


def _read_place(token: str) -> _Place:
    try:
        return decode_json(base64.urlsafe_b64decode(token), _Place)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise BadRequestError("the continue parameter is not one of this server's") from error
