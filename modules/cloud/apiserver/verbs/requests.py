"""What an API request is about: its kind, and its body as objects of that kind are stored."""

from typing import Final

import msgspec

from modules.apimachinery.api_errors import BadRequestError, UnknownKindError
from modules.apimachinery.autoscaler_versions import KIND as AUTOSCALER
from modules.apimachinery.autoscaler_versions import OLDER, is_older
from modules.apimachinery.computed import computed
from modules.apimachinery.event_versions import EVENTS_VERSION, core_selector, is_of_events, operations_to_core, to_core
from modules.apimachinery.go_json import type_error
from modules.apimachinery.kinds import JsonObject, Kind, kind_named
from modules.cloud.apiextensions.kinds import ServedKinds
from modules.cloud.apiserver.fields.bodies import LONGEST_SHOWN, check_kind
from modules.cloud.apiserver.fields.types import decoded, decoded_custom
from modules.cloud.apiserver.unreadable_bodies import not_an_object
from modules.cloud.authorization.attributes import NODE_GROUPS, user_of
from modules.cloud.client.calls import APPLY, JSON_PATCH, ApiCall

WITH_OBJECT: Final = ("create", "update", "updatestatus", "patch")
"""The verbs of requests whose body is an object, or a patch of one."""
_CORE: Final = "v1"
_CSR: Final = kind_named("CertificateSigningRequest")
_REQUESTER: Final = ("username", "uid", "groups", "extra")
"""The fields of a certificate request's spec about who asks."""


def find_kind(kinds: ServedKinds, request: ApiCall) -> Kind | None:
    """Return the kind of a request's resource; None if the API server stores no such objects."""
    try:
        return kind_of(kinds, request)
    except UnknownKindError:
        return None


def kind_of(kinds: ServedKinds, request: ApiCall) -> Kind:
    """Return the kind of a request's resource.

    Raises:
        UnknownKindError: the API server stores no such objects.
    """
    return kinds.at(stored_version(request), request.plural)


def is_of(request: ApiCall, kind: Kind) -> bool:
    """Return whether a request is about objects of a kind. A custom one of another group may have its plural."""
    return (request.api_version, request.plural) == (kind.api_version, kind.plural)


def is_event(request: ApiCall) -> bool:
    """Return whether a request is about an Event of events.k8s.io, whose errors and rules are that group's."""
    return request.api_version == EVENTS_VERSION and is_of_events(request.api_version, request.plural)


def stored_version(request: ApiCall) -> str:
    """Return the stored API version of a request's objects; several versions of a custom kind are one."""
    version = request.api_version
    if version == OLDER and is_older(version, request.plural):
        return AUTOSCALER.api_version
    return _CORE if version == EVENTS_VERSION and is_event(request) else version


def with_requester(request: ApiCall) -> ApiCall:
    """Return a request that makes a certificate request with the user who asks in its spec, regardless of the body:
    kube-controller-manager approves requests by the rights of that user (csrStrategy.PrepareForCreate).
    """
    is_asked = request.verb == "create" or request.patch_type == APPLY
    spec = request.body.get("spec") if isinstance(request.body, dict) else None
    name = request.user or request.node or (request.author if request.groups else "")
    if not is_asked or not isinstance(spec, dict) or not name or not is_of(request, _CSR):
        return request
    who: JsonObject = {"username": name, "groups": [*request.groups]}
    if request.uid:
        who["uid"] = request.uid
    if request.extra:
        who["extra"] = {name: [*texts] for name, texts in request.extra}
    if request.node:
        who = {"username": user_of(request.node), "groups": [*NODE_GROUPS]}
    others = {name: value for name, value in spec.items() if name not in _REQUESTER}
    return msgspec.structs.replace(request, body={**request.body, "spec": {**others, **who}})


def with_core_event(request: ApiCall) -> ApiCall:
    """Return a request about an Event of events.k8s.io with its body and its selector as core/v1 has them.

    Raises:
        BadRequestError: the body has another apiVersion.
    """
    if request.api_version != EVENTS_VERSION or not is_event(request):
        return request
    body, options = request.body, request.options
    if isinstance(body, dict):
        check_version(body, EVENTS_VERSION)
        body = to_core(body)
    elif request.patch_type == JSON_PATCH:
        body = operations_to_core(body)
    if fields := options.get("fieldSelector"):
        options = {**options, "fieldSelector": core_selector(str(fields))}
    return msgspec.structs.replace(request, body=body, options=options)


def check_version(body: JsonObject, wanted: str) -> None:
    """Check that an object is of the version of the request's path. Raises BadRequestError."""
    version = str(body.get("apiVersion") or "")[:LONGEST_SHOWN]
    if version not in ("", wanted):
        data = f"the API version in the data ({version})"
        raise BadRequestError(f"{data} does not match the expected API version ({wanted})")


def object_of(request: ApiCall, kind: str = "") -> JsonObject:
    if not isinstance(request.body, dict):
        raise not_an_object(request.body, kind)
    return request.body


def patch_of(request: ApiCall, before: str) -> JsonObject:
    if not isinstance(request.body, dict):
        raise BadRequestError(before + type_error(request.body, "map[string]interface {}"))
    return request.body


def named(obj: JsonObject, kind: Kind, request: ApiCall) -> JsonObject:
    """Return the object with kind, namespace and name of the request's path."""
    check_kind(kind, obj)
    obj = computed(decoded_custom if kind.is_custom else decoded, kind, obj)
    metadata = dict(obj.get("metadata") or {})
    if not kind.namespaced:
        metadata.pop("namespace", None)
    if request.verb == "update" and not metadata.get("name"):
        unknown = f"the name of the object ({request.name} based on URL) was undeterminable"
        raise BadRequestError(f"{unknown}: name must be provided")
    wanted = {"namespace": request.namespace} if kind.namespaced and request.namespace else {}
    wanted |= {"name": request.name} if request.name else {}
    for field, value in wanted.items():
        if (metadata.get(field) or value) != value:
            raise misnamed(request, field, str(metadata[field])[:LONGEST_SHOWN], value)
    return {**obj, "kind": kind.name, "apiVersion": kind.api_version, "metadata": {**metadata, **wanted}}


def check_namespace(obj: JsonObject, request: ApiCall) -> None:
    """Check that an object is in the namespace of the request's path.

    Raises:
        BadRequestError: it names another one.
    """
    namespace = (obj.get("metadata") or {}).get("namespace") or request.namespace
    if namespace != request.namespace:
        raise misnamed(request, "namespace", namespace, request.namespace)


def misnamed(request: ApiCall, field: str, given: str, value: str) -> BadRequestError:
    """Return the error for an object with another name or namespace than its path."""
    if request.verb == "create" or field != "name":
        return BadRequestError(f"the {field} of the provided object does not match the {field} sent on the request")
    return BadRequestError(f"the {field} of the object ({given}) does not match the name on the URL ({value})")
