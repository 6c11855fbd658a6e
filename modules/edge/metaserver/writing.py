"""create, update, patch and delete, by the cloud. The node receives the change from the cloud like every other."""

from http import HTTPStatus
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.http.request import Request
from beehive.http.responses import Response
from metamanager.application import PatchInfo, Target, Verb
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.protobuf.decoding import MEDIA as PROTOBUF
from modules.apimachinery.protobuf.decoding import ProtobufError, decode_protobuf
from modules.edge.metaserver.application_agent import ApplicationAgent

METHODS: Final = ("POST", "PUT", "PATCH", "DELETE")

_JSON: Final = "application/json"
_PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_TEXT_OPTIONS: Final = ("fieldManager", "fieldValidation", "propagationPolicy")
_SUCCESS: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def write(cloud: ApplicationAgent, target: Target, request: Request) -> Response:
    """Return the cloud's response to a request that changes an object.

    Raises:
        ApiStatusError: the request cannot be read, or the cloud refuses or does not answer.
    """
    match request.method, bool(target.name):
        case "POST", _:
            text = cloud.ask(target, Verb.CREATE, _options(request), _body(request))
            return _answer(text, HTTPStatus.CREATED)
        case "PUT", True:
            verb = Verb.UPDATE_STATUS if target.subresource == "status" else Verb.UPDATE
            return _answer(cloud.ask(target, verb, _options(request), _body(request)))
        case "PATCH", True:
            return _answer(cloud.ask(target, Verb.PATCH, _patch(request, target)))
        case "DELETE", True:
            text = cloud.ask(target, Verb.DELETE, _body(request) if request.body else _options(request))
            return _answer(text or _deleted(target))
        case _:
            raise ApiStatusError(405, f"{request.method} is not served on a collection; name the objects one by one")


def _answer(text: bytes, status: int = HTTPStatus.OK) -> Response:
    return Response(status, _JSON, text or msgspec.json.encode(_SUCCESS))


def _deleted(target: Target) -> bytes:
    """Return the Status of a deletion, as KubeEdge's metaserver has it."""
    return msgspec.json.encode({**_SUCCESS, "details": {"name": target.name}, "code": HTTPStatus.OK})


def _patch(request: Request, target: Target) -> bytes:
    media = _media(request)
    if media not in _PATCHES:
        raise ApiStatusError(
            415, f"the body of the request was in an unknown format - accepted media types: {', '.join(_PATCHES)}"
        )
    subresources = target.subresource.split("/") if target.subresource else None
    info = PatchInfo(
        name=target.name, patch_type=media, data=request.body, options=_query(request), subresources=subresources
    )
    return msgspec.json.encode(info)


def _body(request: Request) -> bytes:
    media = _media(request)
    if media == PROTOBUF:
        return _from_protobuf(request.body)
    if media not in (_JSON, ""):
        known = f"{_JSON}, {PROTOBUF}"
        why = f"the body of the request was in an unknown format - accepted media types include: {known}"
        raise ApiStatusError(415, why)
    try:
        decode_json(request.body, dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ApiStatusError(400, "the body of the request is no JSON object") from error
    return request.body


def _from_protobuf(body: bytes) -> bytes:
    """Return a body of kubectl's typed clients in JSON, because requests to the cloud are in JSON."""
    try:
        return msgspec.json.encode(decode_protobuf(body))
    except ProtobufError as error:
        raise ApiStatusError(400, str(error)) from error


def _media(request: Request) -> str:
    return request.header("content-type").partition(";")[0].strip()


def _options(request: Request) -> bytes:
    return msgspec.json.encode(_query(request))


def _query(request: Request) -> dict[str, Any]:
    """Return metav1.CreateOptions, UpdateOptions, … out of the query."""
    options: dict[str, Any] = {name: value for name in _TEXT_OPTIONS if (value := request.first(name))}
    if request.all("dryRun"):
        options["dryRun"] = list(request.all("dryRun"))
    if request.flag("force"):
        options["force"] = True
    grace = request.first("gracePeriodSeconds")
    if grace:
        if not (grace.isascii() and grace.isdecimal() and len(grace) < 10):
            raise ApiStatusError(400, "gracePeriodSeconds is a number of seconds")
        options["gracePeriodSeconds"] = int(grace)
    return options
