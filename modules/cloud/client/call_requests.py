"""API calls as HTTP requests, and their responses (kubernetes.io, "API concepts")."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from beehive.cache import cached_for_short_texts
from beehive.decoding import decode_json, json_decoder
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.client.calls import DOCUMENT, ApiCall, ApiResult, JsonObject
from modules.cloud.client.transport import ApiRequest, ApiResponse

_METHODS: Final = {
    DOCUMENT: "GET",
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "update": "PUT",
    "updatestatus": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}
_NODE_USER: Final = "system:node:"
_NODE_GROUPS: Final = (("Impersonate-Group", "system:nodes"), ("Impersonate-Group", "system:authenticated"))
_OF_COLLECTION: Final = ("list", "create")
_NOT_SENT: Final = ("kind", "apiVersion", "watch")
"""Options that are no part of the query: a call cannot wait for the end of a watch."""
_JSON: Final = "application/json"
_LONGEST_MESSAGE: Final = 1000
_UNRESERVED: Final = re.compile("[A-Za-z0-9_.~-]+").fullmatch
_SEGMENT: Final = r"(?!\.\.?(?:/|$))[A-Za-z0-9_.~-]+"
"""A segment of a path with nothing to escape."""
_PLAIN: Final = re.compile(_SEGMENT).fullmatch
_PLAIN_VERSION: Final = re.compile(f"(?:{_SEGMENT}/)?{_SEGMENT}").fullmatch
_LARGE_PARTS: Final = ("spec", "status")
_PARTS: Final = json_decoder(dict[str, msgspec.Raw])


class CallError(ValueError):
    """A call has no form as a request."""


def size_of(call: ApiCall) -> int:
    """Return the bytes of a call's body. A call for a collection has no name. A call for one object needs a name,
    because without it it would be a call for the whole collection.

    Raises:
        CallError: the verb is unknown, a name is missing or cannot be part of a path, or the body is no JSON.
    """
    is_plain = call.verb in _METHODS and _PLAIN_VERSION(call.api_version) and _PLAIN(call.plural) and _PLAIN(call.name)
    if not (is_plain and _PLAIN(call.namespace or "-") and _PLAIN(call.subresource or "-")):
        _path_of(call)
    return call.size or len(_body_of(call))


def request_of(call: ApiCall) -> ApiRequest:
    """Return the HTTP request of a call; one with a node impersonates the node.

    Raises:
        CallError: as in `size_of`.
    """
    path, body, method = _path_of(call), _body_of(call), _METHODS[call.verb]
    query = "" if method == "DELETE" or not call.options else _query_text(call.options)
    headers = [("Accept", _JSON)]
    if body:
        headers.append(("Content-Type", call.patch_type if method == "PATCH" else _JSON))
    if call.node:
        headers += [("Impersonate-User", f"{_NODE_USER}{call.node}"), *_NODE_GROUPS]
    return ApiRequest(method=method, path=f"{path}?{query}" if query else path, headers=tuple(headers), body=body)


def _path_of(call: ApiCall) -> str:
    if call.verb == DOCUMENT:
        return _document_path(call.name)
    if call.verb not in _METHODS:
        raise CallError(f"the verb {call.verb[:40]!r} is no verb of the Kubernetes API")
    return collection_path(call.api_version, call.plural, call.namespace) + _of_one(call)


def _body_of(call: ApiCall) -> bytes:
    method = _METHODS[call.verb]
    body = {**call.options, "kind": "DeleteOptions", "apiVersion": "v1"} if method == "DELETE" else call.body
    if body is None or method == "GET":
        return b""
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError) as error:
        raise CallError(f"the body has no JSON form: {error}") from error


def result_of(response: ApiResponse, *, is_passed_on: bool = False) -> ApiResult:
    """Return the result in a response; anything but a JSON object is a refusal. `is_passed_on` as in `ApiCall`."""
    status = response.head.status
    is_success = HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES
    try:
        content = _with_text(response.body) if is_success and is_passed_on else decode_json(response.body)
    except (msgspec.DecodeError, UnicodeError):
        content = None
    if is_success and isinstance(content, dict):
        return ApiResult(content, created=status == HTTPStatus.CREATED)
    if isinstance(content, dict) and content.get("kind") == "Status":
        kept = {name: value for name, value in content.items() if name not in ("kind", "apiVersion")}
        return ApiResult(refusal={**kept, "code": status})
    text = response.body[:_LONGEST_MESSAGE].decode(errors="replace").strip()
    return failure(status, text or "the response is no JSON object")


def _with_text(body: bytes) -> JsonObject:
    """Return an object whose spec and status are JSON text."""
    return {name: value if name in _LARGE_PARTS else decode_json(value) for name, value in _PARTS.decode(body).items()}


def failure(code: int, message: str) -> ApiResult:
    """Return the result of a call that has no answer of the API server's own."""
    status = ApiStatusError(code, message).status()
    return ApiResult(refusal={name: value for name, value in status.items() if name not in ("kind", "apiVersion")})


@cached_for_short_texts(1024)
def collection_path(api_version: str, plural: str, namespace: str = "") -> str:
    """Return the path of a collection.

    Raises:
        CallError: a name cannot be part of a path.
    """
    root = "/apis/" if "/" in api_version else "/api/"
    parts = [_part(each) for each in api_version.split("/", 1)]
    place = f"/namespaces/{_part(namespace)}" if namespace else ""
    return f"{root}{'/'.join(parts)}{place}/{_part(plural)}"


def _document_path(path: str) -> str:
    return "".join(f"/{_part(each)}" for each in path.removeprefix("/").split("/"))


def _of_one(call: ApiCall) -> str:
    subresource = call.subresource or ("status" if call.verb == "updatestatus" else "")
    if call.verb in _OF_COLLECTION and not (call.verb == "create" and subresource):
        return ""
    return f"/{_part(call.name)}/{_part(subresource)}" if subresource else f"/{_part(call.name)}"


def _part(name: str) -> str:
    """Return a name as one segment of a path (`apimachinery/pkg/api/validation/path`)."""
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise CallError(f"{name[:80]!r} is no name of an object")
    return name if _UNRESERVED(name) else quote(name, safe="")


def _query_text(options: JsonObject) -> str:
    pairs = list(_query(options))
    if all(_UNRESERVED(name) and _UNRESERVED(value) for name, value in pairs):
        return "&".join([f"{name}={value}" for name, value in pairs])
    return urlencode(pairs)


def _query(options: JsonObject) -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None and name not in _NOT_SENT:
                yield name, str(each).lower() if isinstance(each, bool) else str(each)
