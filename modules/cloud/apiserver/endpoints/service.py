"""The Kubernetes API as a service of an HTTP server."""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final, Protocol

import msgspec

from beehive.clock import Clock
from edged.server.errors import RequestError
from edged.server.request import Request
from edged.server.responses import Reply, Response, Stream, json, text
from metamanager.application import Target
from modules.apimachinery.discovery import Discovery
from modules.apimachinery.errors import ApiStatusError, no_such_path
from modules.apimachinery.object_encoder import ObjectEncoder
from modules.apimachinery.options import Form, ReadOptions, read_options
from modules.apimachinery.paths import parse_target
from modules.apimachinery.resources import Resource
from modules.cloud.apiserver.endpoints.custom_resources import custom_resources
from modules.cloud.apiserver.endpoints.openapi import OpenApi
from modules.cloud.apiserver.endpoints.requests import call_of_request, number
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.apiserver.endpoints.watching import ObjectWatch
from modules.cloud.apiserver.errors import ApiError
from modules.cloud.apiserver.kinds import JsonObject
from modules.cloud.apiserver.resources import RESOURCES
from modules.cloud.apiserver.watch_history import WatchQuery, WatchStart
from modules.cloud.client.calls import ApiCall, ApiResult

_HEALTH: Final = ("healthz", "livez", "readyz")
_READS: Final = ("GET", "HEAD")
_STATUS: Final = "Status"
_LONGEST_DOCUMENT: Final = 5
"""Parts of the longest path of a document: `/openapi/v3/apis/GROUP/VERSION`."""


class ApiCaller(Protocol):
    """Passes requests to the API server's actor."""

    def call(self, call: ApiCall) -> ApiResult:
        """Return the response. Raise ApiStatusError when there is none."""

    def start_watch(self, query: WatchQuery) -> WatchStart:
        """Return the beginning of a watch. Raise ApiStatusError when there is no response."""


class ApiService:
    """Serves the Kubernetes API (`HttpService`) to an administrator: the server must authenticate its clients.

    Args:
        caller: passes the requests on.
        subscriptions: the changes of objects, for watches.
        version: the server's, such as `v1.32.10`.
        clock: for ages and the end of watches.
        unready: returns why the API server cannot serve, "" when it can.
        definitions: lists CustomResourceDefinitions for discovery, which everybody may read; default `caller.call`.
    """

    def __init__(
        self,
        caller: ApiCaller,
        subscriptions: Subscriptions,
        version: str,
        clock: Clock,
        unready: Callable[[], str] = lambda: "",
        definitions: Callable[[ApiCall], ApiResult] | None = None,
    ) -> None:
        self._caller = caller
        self._definitions = definitions or caller.call
        self._subscriptions = subscriptions
        self._version = version
        self._clock = clock
        self._unready = unready

    def serve(self, request: Request) -> Reply:
        """Return the reply; refusals become a metav1.Status."""
        try:
            return self._reply(request)
        except ApiStatusError as error:
            return error.response()
        except ApiError as error:
            return _refusal(error.status())
        except RequestError as error:
            return ApiStatusError(error.status, str(error)).response()

    def _reply(self, request: Request) -> Reply:
        if request.method in _READS:
            if request.parts[:1] and request.parts[0] in _HEALTH:
                reason = self._unready()
                return text(503, f"{reason}\n") if reason else text(200, "ok")
            document = self._document(request.parts)
            if document is not None:
                return json(msgspec.json.encode(document))
        target = parse_target(request.parts)
        resource = self._resource(target)
        if request.method in _READS:
            return self._read(request, target, resource)
        return self._write(request, target)

    def _document(self, parts: tuple[str, ...]) -> Any:
        """Return a document of discovery or OpenAPI, None for another path."""
        has_custom = parts[:1] in ((), ("apis",), ("openapi",)) and len(parts) <= _LONGEST_DOCUMENT
        resources = (*RESOURCES, *(custom_resources(self._definitions) if has_custom else ()))
        document = Discovery(resources, self._version).document(parts)
        return OpenApi(resources).document(parts) if document is None else document

    def _resource(self, target: Target) -> Resource:
        """Return the resource of a path: of a kind that is not built in, out of the CustomResourceDefinitions."""
        for resources in (lambda: RESOURCES, lambda: custom_resources(self._definitions)):
            for one in resources():
                if (one.group, one.version, one.plural) == (target.group, target.version, target.plural):
                    if target.namespace and not one.namespaced:
                        break
                    return one
        raise no_such_path()

    def _read(self, request: Request, target: Target, resource: Resource) -> Reply:
        options = read_options(request, resource)
        if options.watch and not target.subresource:
            return self._watch(request, target, resource, options)
        result = self._caller.call(call_of_request(request, target))
        if result.refusal is not None or result.object is None:
            return _refusal(result.refusal or {})
        encoder = ObjectEncoder(resource, options.form, options.included, self._clock.now())
        if target.name:
            return json(encoder.encode_object(msgspec.json.encode(result.object)))
        if options.form is Form.OBJECT:
            return json(msgspec.json.encode(result.object))
        texts = [msgspec.json.encode(item) for item in result.object["items"]]
        return json(encoder.encode_list(texts, result.object["metadata"]))

    def _write(self, request: Request, target: Target) -> Response:
        result = self._caller.call(call_of_request(request, target))
        if result.refusal is not None:
            return _refusal(result.refusal, result.warnings)
        status = HTTPStatus.CREATED if result.created else HTTPStatus.OK
        return _response(status, result.object, result.warnings)

    def _watch(self, request: Request, target: Target, resource: Resource, options: ReadOptions) -> Stream:
        if target.name:
            options = msgspec.structs.replace(options, selector=options.selector.named(target.name))
        version = number(request, "resourceVersion")
        kind = resource.watched_as or resource.kind
        subscription = self._subscriptions.subscribe(kind)
        try:
            from_present = version == 0 or options.initial_events
            start = self._caller.start_watch(WatchQuery(kind, None if from_present else version))
            if start.refusal is not None:
                raise ApiStatusError(int(start.refusal["code"]), str(start.refusal["message"]))
        except BaseException:
            self._subscriptions.unsubscribe(subscription)
            raise
        watch = ObjectWatch(resource, target.namespace, options, self._clock)
        return Stream(
            "application/json",
            lambda peer: watch.pieces(peer, start, subscription),
            lambda: self._subscriptions.unsubscribe(subscription),
        )


def _response(status: int, obj: Any, warnings: Sequence[str]) -> Response:
    headers = tuple(("Warning", f'299 - "{_quoted(warning)}"') for warning in warnings)
    return Response(status, "application/json", msgspec.json.encode(obj), headers=headers)


def _quoted(warning: str) -> str:
    """Return a text as it may stand in a header's quoted string (RFC 9110): printable ASCII."""
    plain = "".join(each if " " <= each <= "~" else "?" for each in warning)
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def _refusal(status: JsonObject, warnings: Sequence[str] = ()) -> Response:
    code = status.get("code")
    known = code if isinstance(code, int) and 400 <= code < 600 else HTTPStatus.INTERNAL_SERVER_ERROR
    return _response(known, {"kind": _STATUS, "apiVersion": "v1", **status, "code": int(known)}, warnings)
