"""The Kubernetes API as a service of an HTTP server."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from beehive.clock import Clock
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Reply, Response, Stream, StreamHead, json, text
from beehive.on_failure import on_failure
from modules.apimachinery.aggregated_discovery import aggregated, aggregated_version, content_type
from modules.apimachinery.api_errors import ApiError, BadRequestError, MethodNotAllowedError
from modules.apimachinery.application import Target
from modules.apimachinery.discovery import Discovery
from modules.apimachinery.errors import ApiStatusError, CloudRefusalError, no_such_path, too_large_version, unread
from modules.apimachinery.go_json import uint64_error
from modules.apimachinery.kinds import JsonObject, metadata_of, uid_of, version_of
from modules.apimachinery.object_encoder import ObjectEncoder, encoded
from modules.apimachinery.openapi import V2_PATH, V2_PROTOBUF, V2_PROTOBUF_TYPE, OpenApi, swagger, swagger_protobuf
from modules.apimachinery.options import Form, ReadOptions, check_plain, check_timeout, form_of, read_options
from modules.apimachinery.paths import parse_target
from modules.apimachinery.resources import SCALE, Resource
from modules.apimachinery.served_resources import BINDINGS, BUILT_IN, REVIEWS
from modules.apimachinery.watch_errors import failed_watch
from modules.cloud.apiextensions.kinds import readable_kinds_of
from modules.cloud.apiserver.endpoints.health import health
from modules.cloud.apiserver.endpoints.indented_answers import indented, wants_indented
from modules.cloud.apiserver.endpoints.list_answers import Turn, list_answer
from modules.cloud.apiserver.endpoints.module_caller import ApiCaller
from modules.cloud.apiserver.endpoints.node_servers import NodeServers
from modules.cloud.apiserver.endpoints.pod_proxies import is_proxied, serve_proxy
from modules.cloud.apiserver.endpoints.pod_streams import PROXY, STREAMS, is_stream, serve_stream
from modules.cloud.apiserver.endpoints.requests import call_of_request, check_method, methods_of, review_of
from modules.cloud.apiserver.endpoints.resource_metrics import GROUP as METRICS_GROUP
from modules.cloud.apiserver.endpoints.resource_metrics import METRICS, ResourceMetrics
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.apiserver.endpoints.watch_paths import without_watch_path
from modules.cloud.apiserver.endpoints.watching import ObjectWatch, WatchBegin
from modules.cloud.apiserver.endpoints.web_socket_streams import in_web_socket, wants_web_socket, without_upgrade
from modules.cloud.apiserver.endpoints.yaml_answers import in_json, in_yaml, wants_yaml
from modules.cloud.apiserver.fields.bodies import BINDING, check_custom_type, read_body
from modules.cloud.apiserver.fields.openapi import openapi_schemas
from modules.cloud.authentication.users import ADMINISTRATORS, User
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.authorization.subject_reviews import (
    TOKEN_REVIEW,
    Authenticate,
    access_review,
    is_access_review,
    token_review,
)
from modules.cloud.authorization.user_reviews import PATHS, review
from modules.cloud.client.calls import ApiCall
from modules.cloud.object_writes import ADMINISTRATOR
from modules.cloud.storage.watch_history import WatchQuery

_HEALTH: Final = ("healthz", "livez", "readyz")
_READS: Final = ("GET", "HEAD")
_OWNER: Final = User("system:admin", groups=(ADMINISTRATORS,))
"""The user of a review of the requester's own rights where clients need no credentials."""
_STATUS: Final = "Status"
_CORE: Final = ("api",)
_ROOTS: Final = (_CORE, ("apis",))
"""Paths of objects, and of discovery."""
_LONGEST_DISCOVERY: Final[Mapping[tuple[str, ...], int]] = {_ROOTS[0]: 2, _ROOTS[1]: 3}
"""Parts of the longest path of discovery: `/api/VERSION`, `/apis/GROUP/VERSION`. Longer ones are those of objects."""

_SCALE_KIND: Final = "Scale"
_RESIZE: Final = "resize"
_PODS: Final = "pods"
_BINDING: Final = "binding"
_CREATED: Final = (_BINDING, "eviction", "token")
"""The subresources that are created, and not read."""
_AT_A_CLUSTER: Final = "`cloudcore run --kubeconfig FILE` uses a cluster's API server, which has them"
_GROUPS: Final = {
    "autoscaling": "HorizontalPodAutoscalers are of autoscaling/v2 and v1, and nothing here scales by them",
    "networking.k8s.io": f"ServiceCIDRs would have no effect here; {_AT_A_CLUSTER}",
    "apiregistration.k8s.io": "no other API servers are behind this one: serve kinds by CustomResourceDefinitions, or "
    f"let a cluster do it ({_AT_A_CLUSTER})",
    "admissionregistration.k8s.io": f"no webhooks are called and no admission policies evaluated here; {_AT_A_CLUSTER}",
}
_OF_CORE: Final = {
    "componentstatuses": "`kubectl get --raw /readyz?verbose` says what is ready",
}


class CustomResourceList:
    """The list of the API server's CustomResourceDefinitions, which reads the definitions that have changed since the
    last time: that takes as long as to validate them.

    Args:
        caller: makes calls; on any thread.
    """

    def __init__(self, caller: ApiCaller) -> None:
        self._caller = caller
        self._read: dict[tuple[str, str], list[Resource]] = {}
        """By uid and resourceVersion of a definition."""

    def resources(self) -> list[Resource]:
        """Return the custom resources.

        Raises:
            ApiStatusError: the API server does not answer.
        """
        asked = ApiCall(verb="list", api_version="apiextensions.k8s.io/v1", plural="customresourcedefinitions")
        result = self._caller.call(asked)
        if result.object is None:
            raise CloudRefusalError(result.refusal or {})
        read = {}
        for each in result.object["items"]:
            key = (uid_of(each), version_of(each))
            known = self._read.get(key)
            read[key] = [kind.resource for kind in readable_kinds_of(each)] if known is None else known
        self._read = read
        return [resource for found in read.values() for resource in found]


def not_served(target: Target) -> ApiStatusError:
    """Return the error for a resource that is not served, with kube-apiserver's words and advice."""
    why = _OF_CORE.get(target.plural, "") if not target.group else _GROUPS.get(target.group, "")
    return _with(why)


def check_subresource(target: Target, resource: Resource) -> None:
    """Raise ApiStatusError, 404, for a resource that kubectl wants to scale and that has no replicas, and for a resize
    of a pod.
    """
    if target.subresource == _RESIZE and resource.key_kind == "Pod":
        raise _with("containers are not resized in place here: make the pod again with other resources")
    if target.subresource == SCALE and SCALE not in resource.subresources:
        raise _with(
            f"{resource.plural} have no replicas; those of Deployments, ReplicaSets, ReplicationControllers and "
            "StatefulSets are scaled"
        )


def _with(why: str) -> ApiStatusError:
    error = no_such_path()
    return ApiStatusError(error.code, f"{error.message}: {why}") if why else error


class Requester(NamedTuple):
    """Whoever makes the requests."""

    caller: ApiCaller
    """Passes them on."""
    user: str = ADMINISTRATOR
    """The name, for the log."""
    turn: Turn = nullcontext
    """Returns the context for computing a further part of a long answer."""


class CheckedTokens(Protocol):
    """The tokens of clients."""

    @property
    def authenticate(self) -> Authenticate:
        """Finds the user of a bearer token, for TokenReviews."""

    def document(self, parts: tuple[str, ...]) -> Response | None:
        """Return a document that says how tokens are checked; None for another path."""


class ApiService:
    """The service of the Kubernetes API (`HttpService`) to an administrator: the server must authenticate its clients.

    Args:
        requester: whom it serves.
        subscriptions: the changes of objects, for watches.
        version: the server's, such as `v1.32.10`.
        clock: for ages and the end of watches.
        checks: returns the parts that must be well for it to serve, each with the reason why it is not; see `health`.
        definitions: lists CustomResourceDefinitions for discovery, which everybody may read; default by `caller`.
        nodes: connects to node servers for logs, exec and metrics; None disables them.
        index: the roles and bindings, for access reviews, or None.
        tokens: of clients; None: there are no TokenReviews, and no documents about tokens.
    """

    def __init__(
        self,
        requester: Requester,
        subscriptions: Subscriptions,
        version: str,
        clock: Clock,
        checks: Callable[[], Mapping[str, str]] = dict,
        definitions: CustomResourceList | None = None,
        nodes: NodeServers | None = None,
        *,
        index: RbacIndex | None = None,
        tokens: CheckedTokens | None = None,
    ) -> None:
        self._caller, self._user, self._turn = requester
        self._tokens = tokens
        self._index = index or RbacIndex()
        self._nodes = nodes
        self._metrics = ResourceMetrics(requester.caller, nodes, clock) if nodes is not None else None
        self._custom = definitions or CustomResourceList(requester.caller)
        self._subscriptions = subscriptions
        self._version = version
        self._clock = clock
        self._checks = checks

    def serve(self, request: Request) -> Reply:
        """Return the reply; refusals become a metav1.Status."""
        request = without_watch_path(request)
        if not wants_web_socket(request) or is_proxied(request.parts):
            reply = self._allowing(self._served(request), request)
            return indented(reply) if wants_indented(request) and not is_proxied(request.parts) else reply
        reply = self._served(without_upgrade(request))
        if not isinstance(reply, Stream):
            return reply
        try:
            return in_web_socket(request, reply, self._clock)
        except ApiStatusError as error:
            return error.response()

    def _allowing(self, reply: Reply, request: Request) -> Reply:
        """Return a reply; a 405 names the methods of its path (RFC 9110, 15.5.6), if it is not a pod's own."""
        if (
            not isinstance(reply, Response)
            or reply.status != HTTPStatus.METHOD_NOT_ALLOWED
            or is_proxied(request.parts)
        ):
            return reply
        target = parse_target(request.parts)
        try:
            served = (*self._resources(), BINDINGS)
        except ApiStatusError as error:
            return error.response()
        resource = next((one for one in served if (one.group, one.plural) == (target.group, target.plural)), None)
        allowed = ", ".join(methods_of(target, resource)) if resource else ""
        return msgspec.structs.replace(reply, headers=(*reply.headers, ("Allow", allowed)))

    def _served(self, request: Request) -> Reply:
        try:
            if wants_yaml(request) and not is_proxied(request.parts):
                return in_yaml(self._served(in_json(request)), is_watch=request.flag("watch"))
            return self._reply(request)
        except ApiStatusError as error:
            return error.response()
        except ApiError as error:
            return _refusal(error.status())
        except HttpStatusError as error:
            return unread(error)

    def _reply(self, request: Request) -> Reply:
        if request.first("timeout") and not _is_long_running(request):
            check_timeout(request)
        found = self._served_document(request) if request.method in _READS else self._reviewed(request)
        if found is not None:
            return found
        if request.parts[:1] not in _ROOTS and request.parts[:1] != V2_PATH[:1]:
            return text(HTTPStatus.NOT_FOUND, "404 page not found\n")
        target = parse_target(request.parts)
        if not target.group and target.plural == BINDINGS.plural:
            return self._bind(request, target)
        if target.group == METRICS_GROUP and self._metrics is not None:
            return self._metrics.serve(request, target)
        resource = self._resource(target)
        check_subresource(target, resource)
        reply = self._reply_of(request, target, resource)
        return _with_warning(reply, resource.deprecation) if resource.deprecation else reply

    def _reply_of(self, request: Request, target: Target, resource: Resource) -> Reply:
        if self._nodes is not None and is_proxied(request.parts):
            return serve_proxy(request, target, self._caller, self._nodes)
        if self._nodes is not None and is_stream(target):
            return serve_stream(request, target, self._caller, self._nodes, self._user)
        if request.method in _READS and target.subresource not in _CREATED:
            return self._read(request, target, resource)
        check_method(request.method, target, resource)
        return self._write(request, target, resource)

    def _served_document(self, request: Request) -> Reply | None:
        """Return the reply to a read of a document; None for an object or a list."""
        if request.parts[:1] and request.parts[0] in _HEALTH:
            return health(request, self._checks())
        if request.parts == V2_PATH:
            return self._swagger(request)
        if request.parts in _ROOTS and (version := aggregated_version(request.header("accept"))):
            found = aggregated((*self._resources(), *REVIEWS, BINDINGS), version, core=request.parts == _CORE)
            return Response(HTTPStatus.OK, content_type(version), msgspec.json.encode(found) + b"\n")
        document = self._document(request.parts)
        if document is None:
            return None if self._tokens is None else self._tokens.document(request.parts)
        if request.parts[:1] in _ROOTS:
            check_plain(request.header("accept"))
        return json(msgspec.json.encode(document))

    def _reviewed(self, request: Request) -> Response | None:
        """Return the response to a review; None for another request."""
        parts = request.parts
        if request.method != "POST" or parts[:1] != _ROOTS[1]:
            return None
        if parts in PATHS or is_access_review(parts):
            check_plain(request.header("accept"))
        if parts in PATHS:
            return review(_OWNER, parts, review_of(request), self._index)
        if is_access_review(parts):
            found = access_review(parts, review_of(request), self._caller.call, self._index)
            return _response(HTTPStatus.CREATED, found, ())
        if parts == TOKEN_REVIEW and self._tokens is not None:
            return _response(HTTPStatus.CREATED, token_review(review_of(request), self._tokens.authenticate), ())
        return None

    def _document(self, parts: tuple[str, ...]) -> Any:
        """Return a document of discovery or OpenAPI, None for another path."""
        if len(parts) > _LONGEST_DISCOVERY.get(parts[:1], len(parts)):
            return None
        resources = self._resources() if parts[:1] in ((), ("apis",), ("openapi",)) else BUILT_IN
        document = Discovery((*resources, *REVIEWS, BINDINGS), self._version).document(parts)
        return OpenApi(resources, openapi_schemas).document(parts) if document is None else document

    def _resources(self) -> tuple[Resource, ...]:
        measured = METRICS if self._metrics is not None else ()
        return (*BUILT_IN, *self._custom.resources(), *measured)

    def _swagger(self, request: Request) -> Response:
        """Answer `/openapi/v2`."""
        if request.header("accept").startswith(V2_PROTOBUF):
            return Response(HTTPStatus.OK, V2_PROTOBUF_TYPE, swagger_protobuf())
        return json(msgspec.json.encode(swagger(self._resources(), partial(openapi_schemas, is_v2=True))))

    def _resource(self, target: Target) -> Resource:
        """Return the resource of a path: of a kind that is not built in, out of the CustomResourceDefinitions."""
        for resources in (lambda: BUILT_IN, self._custom.resources):
            for one in resources():
                if (one.group, one.version, one.plural) == (target.group, target.version, target.plural):
                    if target.namespace and not one.namespaced:
                        break
                    if target.name and one.namespaced and not target.namespace:
                        raise no_such_path()
                    return one
        raise not_served(target)

    def _read(self, request: Request, target: Target, resource: Resource) -> Reply:
        options = read_options(request, resource, is_collection=not target.name)
        if options.watch and not target.subresource and not target.name:
            return self._watch(request, target, resource, options)
        result = self._caller.call(call_of_request(request, target))
        if result.refusal is not None or result.object is None:
            return _refusal(result.refusal or {})
        shown = resource if target.subresource != SCALE else msgspec.structs.replace(resource, kind=_SCALE_KIND)
        encoder = ObjectEncoder(shown, options.form, options.included, self._clock.now())
        if target.name:
            return json(encoder.encode_object(encoded(result.object)))
        texts = map(encoded, self._subscriptions.hold(result.object["items"]))
        return list_answer(encoder.parts_of_list(texts, result.object["metadata"]), self._turn)

    def _bind(self, request: Request, target: Target) -> Response:
        """Give a pod its node: the Binding in the body has the pod's name."""
        if target.name or not target.namespace:
            raise no_such_path()
        if request.method != "POST":
            raise MethodNotAllowedError("the server does not allow this method on the requested resource")
        call = call_of_request(request, target)
        name = metadata_of(read_body(BINDING, call.body)).get("name")
        if not name:
            raise BadRequestError("Name parameter required.")
        result = self._caller.call(msgspec.structs.replace(call, plural=_PODS, name=name, subresource=_BINDING))
        if result.refusal is not None:
            return _refusal(result.refusal, result.warnings)
        return _response(HTTPStatus.CREATED, result.object or {}, result.warnings)

    def _write(self, request: Request, target: Target, resource: Resource) -> Response:
        form = form_of(request.header("accept"))
        call = call_of_request(request, target, "" if target.subresource else resource.kind)
        if resource.is_custom and call.verb in ("create", "update") and target.subresource != SCALE:
            validation = str(call.options.get("fieldValidation") or "")
            check_custom_type(resource.kind, resource.group_version, call.body, validation)
        result = self._caller.call(call)
        if result.refusal is not None:
            return _refusal(result.refusal, result.warnings)
        status = HTTPStatus.CREATED if result.created else HTTPStatus.OK
        obj = result.object
        if form is not Form.OBJECT and obj is not None and obj.get("kind") in (resource.kind, f"{resource.kind}List"):
            included = request.first("includeObject") or "Metadata"
            encoder = ObjectEncoder(resource, form, included, self._clock.now())
            if call.verb == "deletecollection":
                found = encoder.encode_list(map(encoded, obj["items"]), obj["metadata"])
            else:
                found = encoder.encode_object(encoded(obj))
            return _encoded(status, found, result.warnings)
        return _response(status, obj, result.warnings)

    def _watch(self, request: Request, target: Target, resource: Resource, options: ReadOptions) -> Stream:
        version = _version(request)
        kind = resource.key_kind
        subscription = self._subscriptions.subscribe(kind, of_client=True)
        with on_failure(lambda: self._subscriptions.unsubscribe(subscription)):
            from_present = version == 0 or options.initial_events
            start = self._caller.start_watch(WatchQuery(kind, None if from_present else version))
            if version == 0 and options.initial_events is False:
                start = msgspec.structs.replace(start, changes=[])
            elif version == 0:
                options = msgspec.structs.replace(options, initial_events=True)
        if start.refusal is not None:
            self._subscriptions.unsubscribe(subscription)
            if start.refusal["code"] != HTTPStatus.GONE:
                raise CloudRefusalError(start.refusal)
            return failed_watch({"kind": _STATUS, "apiVersion": "v1", **start.refusal})
        if from_present and version > start.version:
            self._subscriptions.unsubscribe(subscription)
            return failed_watch(too_large_version(version, start.version).status())
        begin = WatchBegin(start.version, self._subscriptions.hold(start.changes), subscription)
        texts = self._subscriptions.texts
        watch = ObjectWatch(resource, target.namespace, options, self._clock, texts, self._turn)
        return Stream(
            "application/json",
            lambda peer: watch.pieces(peer, begin),
            lambda: self._subscriptions.unsubscribe(subscription),
            lambda woken: watch.steps(begin, woken),
        )


def _version(request: Request) -> int:
    """Return the resourceVersion of a watch; 0 for none.

    Raises:
        BadRequestError: it is none.
    """
    text = request.first("resourceVersion")
    if text and (why := uint64_error(text)):
        raise BadRequestError(f'resourceVersion: Invalid value: "{text[:40]}": {why}')
    return int(text or 0)


def _is_long_running(request: Request) -> bool:
    """Return whether a request is a watch, or a stream of a node (`longRunningRequestCheck`)."""
    if request.method in _READS and request.flag("watch"):
        return True
    subresource = parse_target(request.parts).subresource if request.parts[:1] in _ROOTS and request.parts[3:] else ""
    return subresource.partition("/")[0] in (*STREAMS, PROXY)


def _response(status: int, obj: Any, warnings: Sequence[str]) -> Response:
    return _encoded(status, encoded(obj), warnings)


def _encoded(status: int, body: bytes, warnings: Sequence[str]) -> Response:
    return Response(status, "application/json", body + b"\n", headers=tuple(map(_warning_header, warnings)))


def _with_warning(reply: Reply, warning: str) -> Reply:
    """Return a reply with a warning more; a stream has it in its head."""
    header = _warning_header(warning)
    if isinstance(reply, Response):
        return msgspec.structs.replace(reply, headers=(*reply.headers, header))
    if isinstance(reply, Stream) and reply.begin is None:
        head = StreamHead(HTTPStatus.OK, (("Content-Type", reply.content_type), header))
        return msgspec.structs.replace(reply, begin=lambda _peer: head)
    return reply


def _warning_header(warning: str) -> tuple[str, str]:
    return "Warning", f'299 - "{_quoted(warning)}"'


def _quoted(warning: str) -> str:
    """Return a text as it may stand in a header's quoted string (RFC 9110): printable ASCII."""
    plain = "".join(each if " " <= each <= "~" else "?" for each in warning)
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def _refusal(status: JsonObject, warnings: Sequence[str] = ()) -> Response:
    code = status.get("code")
    known = code if isinstance(code, int) and 400 <= code < 600 else HTTPStatus.INTERNAL_SERVER_ERROR
    return _response(known, {"kind": _STATUS, "apiVersion": "v1", **status, "code": int(known)}, warnings)
