"""The API calls in HTTP requests."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.http.request import Request
from modules.apimachinery.api_errors import (
    BadRequestError,
    MethodNotAllowedError,
    TooLargeError,
    UnsupportedMediaTypeError,
)
from modules.apimachinery.application import Target
from modules.apimachinery.errors import no_such_path
from modules.apimachinery.go_json import int64_error, syntax_error
from modules.apimachinery.kinds import Kind
from modules.apimachinery.limits import REQUEST_BYTES, VALUES, is_too_large
from modules.apimachinery.options import check_list_options
from modules.apimachinery.protobuf.decoding import MEDIA as PROTOBUF
from modules.apimachinery.protobuf.decoding import ProtobufError, TooManyMembersError, decode_protobuf
from modules.apimachinery.resources import Resource
from modules.apimachinery.served_resources import REVIEWS
from modules.apimachinery.validation.invalid_fields import MOST
from modules.apimachinery.yaml_reader import RepeatedKey, YamlError, has_more_values
from modules.cloud.apiserver.fields.bodies import DELETE_OPTIONS, LONGEST_SHOWN, TOKEN_REQUEST, read_body
from modules.cloud.apiserver.fields.types import decoded as typed
from modules.cloud.apiserver.fields.validation import STRICT, check_faults, duplicate_fields, faults_of_object
from modules.cloud.apiserver.manifests import ManifestError, read_manifests
from modules.cloud.apiserver.unreadable_bodies import unrecognized
from modules.cloud.apiserver.write_options import check_manager, check_options
from modules.cloud.client.calls import APPLY, JSON_PATCH, MERGE, STRATEGIC, ApiCall
from modules.cloud.storage.object_storage import LARGE

_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_WRITTEN: Final = (_JSON, _YAML, PROTOBUF, "")
"""Media types of objects; patches' media types follow."""
_PATCHES: Final = (JSON_PATCH, MERGE, STRATEGIC, APPLY)
_OF_LISTS: Final = ("labelSelector", "fieldSelector", "continue", "resourceVersion", "resourceVersionMatch",
                    "timeoutSeconds", "limit")  # fmt: skip
_OF_WRITES: Final = ("fieldManager", "fieldValidation", "dryRun")
_OF_DELETES: Final = ("gracePeriodSeconds", "orphanDependents", "propagationPolicy", "dryRun")
_PARAMETERS: Final = {
    "get": ("resourceVersion",),
    "list": _OF_LISTS,
    "create": _OF_WRITES,
    "update": _OF_WRITES,
    "patch": (*_OF_WRITES, "force"),
    "delete": _OF_DELETES,
    "deletecollection": (*_OF_LISTS, *_OF_DELETES),
}
"""The query's fields that a verb has, in the order in which an API server reads them. It ignores others."""
_NUMBERS: Final = ("timeoutSeconds", "limit", "gracePeriodSeconds")
_FLAGS: Final = ("force", "orphanDependents")
_GIVEN: Final = (*_NUMBERS, *_FLAGS, "propagationPolicy")
"""The fields that have a meaning although they are empty."""
_PRECONDITIONS: Final = ("uid", "resourceVersion")
"""The fields of the query of a deletion that are its preconditions."""
_VERBS: Final = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PROXY: Final = "proxy"
"""The subresource whose path goes on."""
_OF_COLLECTIONS: Final = {"get": "list", "delete": "deletecollection"}
_MANAGED: Final = ("create", "update", "patch")
"""The verbs whose changes are attributed to a manager."""
_LONGEST_MANAGER: Final = 128
_OF_DELETIONS: Final = ("gracePeriodSeconds", "preconditions", "orphanDependents", "propagationPolicy", "dryRun")
"""The fields of DeleteOptions. The selection of a collection is the query's, which the authorizer has seen."""
_BODY_OF_OPTIONS: Final = ("delete", "deletecollection")
_OPTIONS_BYTES: Final = 4096
"""Maximum of the body of a deletion; it has seven fields at most."""
REVIEW_BYTES: Final = 64 * 1024
"""Maximum of the body of a review: every user may ask for one."""
REVIEW_VALUES: Final = 2_000
"""Maximum of the values in it. A review has about ten, and the groups of a user."""
_REVIEWED: Final = (_JSON, PROTOBUF, "")
_REVIEWS: Final = {
    **{one.plural: Kind(one.kind, one.group_version, one.plural) for one in REVIEWS},
    "token": TOKEN_REQUEST,
}
"""The kinds of reviews by the last part of their paths; what a node asks a token for is read like one."""
_LARGE_PROTOBUF: Final = 4096
"""Bytes of protobuf that take as long to read as `LARGE` bytes of JSON."""


def methods_of(target: Target, resource: Resource) -> tuple[str, ...]:
    """Return the methods of a path, those of reads first. Raise ApiStatusError for a subresource that is not there."""
    verbs: tuple[str, ...] = ("get", "update", "patch", "delete") if target.name else ("get", "create", "delete")
    if target.subresource:
        name, _, rest = target.subresource.partition("/")
        found = next((each.verbs for each in resource.all_subresources() if each.name == name), None)
        if found is None or (rest and name != _PROXY):
            raise no_such_path()
        verbs = found
    elif target.name:
        verbs = tuple(verb for verb in verbs if verb in resource.verbs)
    elif resource.namespaced and not target.namespace:
        verbs = ("get",)
    else:
        verbs = tuple(verb for verb in verbs if _OF_COLLECTIONS.get(verb, verb) in resource.verbs)
    is_stream = bool(target.subresource) and "create" in verbs
    return tuple(method for method, verb in _VERBS.items() if verb in verbs and (method != "HEAD" or not is_stream))


def check_method(method: str, target: Target, resource: Resource) -> None:
    """Check that the path of a request that writes has its method.

    Raises:
        MethodNotAllowedError: it has not.
        ApiStatusError: the resource has no such subresource.
    """
    if method not in methods_of(target, resource):
        raise MethodNotAllowedError("the server does not allow this method on the requested resource")


def call_of_request(request: Request, target: Target, kind: str = "") -> ApiCall:
    """Return the API call of a request that is no watch.

    Args:
        request: the request, with its body, of a method that its path has.
        target: the resource and object of its path.
        kind: the kind of object in its body; empty: it has another.

    Raises:
        ApiError: a parameter or the body cannot be read.
    """
    verb = _VERBS[request.method]
    if not target.name:
        verb = _OF_COLLECTIONS.get(verb, verb)
    media = _media_of(request)
    options = {} if verb in _BODY_OF_OPTIONS else _options(request, _PARAMETERS[verb])
    body: Any = None
    duplicates: tuple[str, ...] = ()
    document = b""
    if verb in _BODY_OF_OPTIONS:
        options = _options_of_deletion(request, verb, media)
    elif request.method not in ("GET", "HEAD"):
        if media not in ((*_PATCHES,) if verb == "patch" else _WRITTEN):
            raise _unknown_media(verb)
        if request.body or not target.subresource:  # a stream, which is not served here, begins without a body
            repeated: list[RepeatedKey] = []
            body = decoded(request.body, media, kind, repeated=repeated)
            twice = duplicate_fields(request.body)
            if twice and media == APPLY:  # it is read as YAML
                read_manifests(request.body.decode(), "the body", repeated)
            document = request.body if twice and media != APPLY else b""
            of_lines = tuple(f"line {each.line}: {each.why}" for each in repeated[:MOST])
            duplicates = of_lines or tuple(f'duplicate field "{path}"' for path in twice)
    if verb == "patch":
        check_manager(media, options)
    if verb in _MANAGED:
        options.setdefault("fieldManager", manager_of_agent(request.header("user-agent")))
    return ApiCall(
        verb=verb,
        api_version=f"{target.group}/{target.version}" if target.group else target.version,
        plural=target.plural,
        namespace=target.namespace,
        name=target.name,
        subresource=target.subresource,
        patch_type=media if verb == "patch" else "",
        options=options,
        body=body,
        duplicates=duplicates,
        document=document,
    )


def review_of(request: Request) -> Any:
    """Return the review in the body of a request. It is small, and not in YAML, which takes long to read: reviews are
    read for everybody, before it is known what they may do.

    Raises:
        InvalidFieldsError: its CreateOptions have a value that no API server takes.
        UnsupportedMediaTypeError: it is neither in JSON nor in protobuf.
        TooLargeError: it exceeds the limits of a review.
        BadRequestError: it cannot be read, is no such review, or has unknown or duplicate fields and is strict.
    """
    body, media = request.body, _media_of(request)
    check_options(ApiCall(verb="create", api_version="", plural="", options=_options(request, _OF_WRITES)))
    if media not in _REVIEWED:
        raise _unknown_media("create", _REVIEWED)
    if len(body) > REVIEW_BYTES:
        raise TooLargeError(f"a review has at most {REVIEW_BYTES} bytes")
    kind, found = _REVIEWS[request.parts[-1]], decoded(body, media, most=REVIEW_VALUES)
    if request.first("fieldValidation") == STRICT and isinstance(found, dict):
        twice = duplicate_fields(body)
        check_faults(kind, faults_of_object(kind, found, body if twice else b"", twice), None)
    return read_body(kind, found)


def has_large_body(request: Request) -> bool:
    """Return whether it takes long to read the body of a request, and perhaps to do what it asks for: it is large, or
    in YAML, which takes a hundred times as long as JSON.
    """
    body, media = request.body, _media_of(request)
    if not body or request.method in ("GET", "HEAD", "DELETE"):
        return False
    is_json = media not in (_YAML, APPLY, PROTOBUF) or (media != PROTOBUF and len(body) < LARGE and _is_json(body))
    return len(body) >= (LARGE if is_json else _LARGE_PROTOBUF if media == PROTOBUF else 1)


def _media_of(request: Request) -> str:
    return request.header("content-type").partition(";")[0].strip().lower()


def manager_of_agent(agent: str) -> str:
    """Return the field manager of a client that does not name one: its program, as in an API server."""
    return "".join(filter(str.isprintable, agent.partition("/")[0]))[:_LONGEST_MANAGER]


def decoded(
    body: bytes, media: str, kind: str = "", most: int = VALUES, repeated: list[RepeatedKey] | None = None
) -> Any:
    """Return the value in a body of JSON or YAML; kubectl applies in JSON, which YAML's reader takes long for.

    Args:
        body: the body.
        media: its media type.
        kind: the kind of object in it; empty: it has another.
        most: values that it may have.
        repeated: takes the keys that a map of YAML has twice; None: such a body is refused.

    Raises:
        TooLargeError: it exceeds the limits of a request.
        BadRequestError: it cannot be read.
    """
    if is_too_large(body, most):
        raise TooLargeError(f"limit is {REQUEST_BYTES} bytes and {most} values")
    if media == PROTOBUF:
        return _from_protobuf(body, most)
    try:
        if media in (_YAML, APPLY) and not _is_json(body):
            return _from_yaml(body, repeated)
        return decode_json(body)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _unreadable(body, media, str(error), kind) from error
    except ManifestError as error:
        raise BadRequestError(f"the body of the request cannot be read: line {error.line}: {error.why}") from error
    except YamlError as error:
        raise BadRequestError(f"the body of the request cannot be read: {error}") from error


def _from_protobuf(body: bytes, most: int) -> dict[str, Any]:
    try:
        found = decode_protobuf(body, most)
    except TooManyMembersError as error:
        raise TooLargeError from error
    except ProtobufError as error:
        raise BadRequestError(str(error)) from error
    if is_too_large(msgspec.json.encode(found), most):
        raise TooLargeError
    return found


def _unreadable(body: bytes, media: str, why: str, kind: str) -> BadRequestError:
    """Return the error for a body that is not JSON: an API server looks for the kind in it first."""
    fault = syntax_error(body) or why
    if media in (MERGE, JSON_PATCH):
        return BadRequestError(f"error decoding patch: {fault}")
    return BadRequestError(fault) if media in _PATCHES else unrecognized(body, fault, kind)


def _is_json(body: bytes) -> bool:
    if not body.lstrip().startswith(b"{"):
        return False
    try:
        decode_json(body, dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError):
        return False
    return True


def _from_yaml(body: bytes, repeated: list[RepeatedKey] | None) -> Any:
    text = body.decode()
    if has_more_values(text, 2 * VALUES):
        raise TooLargeError
    found = read_manifests(text, "the body", repeated)
    if len(found) != 1:
        raise BadRequestError(f"the body of the request has {len(found)} documents, and one is wanted")
    return found[0].content


def _unknown_media(verb: str, known: Sequence[str] = _WRITTEN) -> UnsupportedMediaTypeError:
    if verb == "patch":
        return UnsupportedMediaTypeError("415: Unsupported Media Type")
    why = "the body of the request was in an unknown format - accepted media types include"
    return UnsupportedMediaTypeError(f"{why}: {', '.join(filter(None, known))}")


def _options(request: Request, names: Iterable[str]) -> dict[str, Any]:
    """Return metav1.ListOptions, CreateOptions, PatchOptions, … out of the query.

    Raises:
        BadRequestError: a number cannot be read.
    """
    options: dict[str, Any] = {}
    for name in names:
        values = request.all(name)
        if not values or not (values[0] or name in _GIVEN or name == "dryRun"):
            continue
        if name == "dryRun":
            options[name] = list(values)
        elif name in _NUMBERS:
            options[name] = number(request, name)
        else:
            options[name] = request.flag(name) if name in _FLAGS else values[0]
    return options


def number(request: Request, name: str, otherwise: int = 0) -> int:
    """Return a number of the query.

    Raises:
        BadRequestError: it is no such request.
    """
    text = next(iter(request.all(name)), None)
    if text is None:
        return otherwise
    if why := int64_error(text):
        raise BadRequestError(why)
    return int(text)


def _options_of_deletion(request: Request, verb: str, media: str) -> dict[str, Any]:
    """Return the options of a deletion: those of the body, or else of the query (DeleteResource). Beyond Kubernetes, a
    dry run that the query asks for is one whatever the body says.

    Raises:
        ApiError, ApiStatusError: they cannot be read.
    """
    body = request.body
    if not body:
        options = _options(request, _PARAMETERS[verb])
        if verb == "deletecollection":
            check_list_options(request)
        given = {name: value for name in _PRECONDITIONS if (value := request.first(name))}
        return {**options, "preconditions": given} if given and verb == "delete" else options
    options = _options(request, (*(_OF_LISTS if verb == "deletecollection" else ()), "dryRun"))
    if verb == "deletecollection":
        check_list_options(request)
    if media not in _WRITTEN:
        raise _unknown_media("delete")
    if len(body) > _OPTIONS_BYTES:
        raise TooLargeError(f"the options of a deletion have at most {_OPTIONS_BYTES} bytes")
    written = decoded(body, media)
    if not isinstance(written, dict):
        raise BadRequestError("DeleteOptions: an object is wanted")
    if (kind := written.get("kind") or DELETE_OPTIONS.name) != DELETE_OPTIONS.name:
        version = written.get("apiVersion") or DELETE_OPTIONS.api_version
        raise BadRequestError(f'no kind "{kind}" is registered for version "{version}"'[:LONGEST_SHOWN])
    written = typed(DELETE_OPTIONS, written)
    options |= {name: written[name] for name in _OF_DELETIONS if name in written and name != "dryRun"}
    return {**options, "dryRun": written["dryRun"]} if written.get("dryRun") else options
