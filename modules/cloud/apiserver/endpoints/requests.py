"""The API calls in HTTP requests."""

from collections.abc import Sequence
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
from modules.apimachinery.limits import REQUEST_BYTES, VALUES, is_too_large
from modules.apimachinery.protobuf.decoding import MEDIA as PROTOBUF
from modules.apimachinery.protobuf.decoding import ProtobufError, TooManyMembersError, decode_protobuf
from modules.apimachinery.resources import Resource
from modules.apimachinery.yaml_reader import YamlError, has_more_values
from modules.cloud.apiserver.fields.validation import duplicate_fields
from modules.cloud.apiserver.manifests import ManifestError, read_manifests
from modules.cloud.apiserver.unreadable_bodies import unrecognized
from modules.cloud.apiserver.write_options import check_manager
from modules.cloud.client.calls import APPLY, JSON_PATCH, MERGE, STRATEGIC, ApiCall
from modules.cloud.storage.object_storage import LARGE

_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_WRITTEN: Final = (_JSON, _YAML, PROTOBUF, "")
"""Media types of objects; patches' media types follow."""
_PATCHES: Final = (JSON_PATCH, MERGE, STRATEGIC, APPLY)
_TEXTS: Final = ("labelSelector", "fieldSelector", "continue", "resourceVersion",
                 "resourceVersionMatch", "fieldManager", "fieldValidation",
                 "propagationPolicy")  # fmt: skip
_NUMBERS: Final = ("limit", "gracePeriodSeconds")
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
_NAMESPACE: Final = "Namespace"
"""The kind whose objects are not deleted together."""
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
_LARGE_PROTOBUF: Final = 4096
"""Bytes of protobuf that take as long to read as `LARGE` bytes of JSON."""


def check_method(method: str, target: Target, resource: Resource) -> None:
    """Check that the path of a request that writes has its method.

    Raises:
        MethodNotAllowedError: it has not.
        ApiStatusError: the resource has no such subresource.
    """
    if target.subresource:
        verbs = next((each.verbs for each in resource.all_subresources() if each.name == target.subresource), None)
        if verbs is None:
            raise no_such_path()
    elif target.name:
        verbs = ("update", "patch", "delete")
    elif resource.namespaced and not target.namespace:
        verbs = ()
    else:
        verbs = ("create",) if resource.key_kind == _NAMESPACE else ("create", "delete")
    if _VERBS.get(method) not in verbs:
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
    options, media = _options(request), _media_of(request)
    body: Any = None
    duplicates: tuple[str, ...] = ()
    if verb in _BODY_OF_OPTIONS:
        options |= _delete_options(request.body, media)
    elif request.method not in ("GET", "HEAD"):
        if media not in ((*_PATCHES,) if verb == "patch" else _WRITTEN):
            raise _unknown_media(verb)
        if request.body or not target.subresource:  # a stream, which is not served here, begins without a body
            body = decoded(request.body, media, kind)
            duplicates = duplicate_fields(request.body)
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
    )


def review_of(request: Request) -> Any:
    """Return the review in the body of a request. It is small, and not in YAML, which takes long to read: reviews are
    read for everybody, before it is known what they may do.

    Raises:
        UnsupportedMediaTypeError: it is neither in JSON nor in protobuf.
        TooLargeError: it exceeds the limits of a review.
        BadRequestError: it cannot be read.
    """
    body, media = request.body, _media_of(request)
    if media not in _REVIEWED:
        raise _unknown_media("create", _REVIEWED)
    if len(body) > REVIEW_BYTES:
        raise TooLargeError(f"a review has at most {REVIEW_BYTES} bytes")
    return decoded(body, media, most=REVIEW_VALUES)


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


def decoded(body: bytes, media: str, kind: str = "", most: int = VALUES) -> Any:
    """Return the value in a body of JSON or YAML; kubectl applies in JSON, which YAML's reader takes long for.

    Args:
        body: the body.
        media: its media type.
        kind: the kind of object in it; empty: it has another.
        most: values that it may have.

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
            return _from_yaml(body)
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


def _from_yaml(body: bytes) -> Any:
    text = body.decode()
    if has_more_values(text, 2 * VALUES):
        raise TooLargeError
    found = read_manifests(text, "the body")
    if len(found) != 1:
        raise BadRequestError(f"the body of the request has {len(found)} documents, and one is wanted")
    return found[0].content


def _unknown_media(verb: str, known: Sequence[str] = _WRITTEN) -> UnsupportedMediaTypeError:
    if verb == "patch":
        return UnsupportedMediaTypeError("415: Unsupported Media Type")
    why = "the body of the request was in an unknown format - accepted media types include"
    return UnsupportedMediaTypeError(f"{why}: {', '.join(filter(None, known))}")


def _options(request: Request) -> dict[str, Any]:
    """Return metav1.ListOptions, CreateOptions, PatchOptions, … out of the query."""
    options: dict[str, Any] = {name: value for name in _TEXTS if (value := request.first(name))}
    options |= {name: number(request, name) for name in _NUMBERS if request.all(name)}
    if request.all("dryRun"):
        options["dryRun"] = list(request.all("dryRun"))
    if request.flag("force"):
        options["force"] = True
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


def _delete_options(body: bytes, media: str) -> dict[str, Any]:
    if not body:
        return {}
    if media not in _WRITTEN:
        raise _unknown_media("delete")
    if len(body) > _OPTIONS_BYTES:
        raise TooLargeError(f"the options of a deletion have at most {_OPTIONS_BYTES} bytes")
    options = decoded(body, media)
    if not isinstance(options, dict):
        raise BadRequestError("DeleteOptions: an object is wanted")
    given = {name: options[name] for name in _OF_DELETIONS if options.get(name) is not None}
    return given if given.get("dryRun") else {name: given[name] for name in given if name != "dryRun"}
