"""The API as a service of the node's HTTP server."""

import base64
import binascii
import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec

from beehive import Clock, Group, Hive, Message, ModuleName, ResourceType, State
from beehive.decoding import decode_json
from beehive.http.browser_guard import is_from_page
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Handler, Reply, Response, json, text
from beehive.http.router import Admitted, AdmittingService
from modules.apimachinery.application import FOLLOW, FOLLOW_RESOURCE, PatchInfo, Target, Verb
from modules.apimachinery.discovery import Discovery
from modules.apimachinery.errors import ApiStatusError, no_such_path, not_found, unread
from modules.apimachinery.object_encoder import ObjectEncoder
from modules.apimachinery.openapi import OpenApi
from modules.apimachinery.options import ReadOptions, check_timeout, read_options
from modules.apimachinery.paths import parse_target
from modules.apimachinery.protobuf.decoding import MEDIA as PROTOBUF
from modules.apimachinery.protobuf.decoding import ProtobufError, decode_protobuf
from modules.apimachinery.resources import Resource
from modules.edge.metaserver.application_agent import ApplicationAgent
from modules.edge.metaserver.first_lists import FirstLists
from modules.edge.metaserver.resources import RESOURCES, find
from modules.edge.metaserver.watch_agent import FROM_WATCHES
from modules.edge.metaserver.watch_cache import CacheKey, WatchCache
from modules.edge.metaserver.watching import FOLLOWED, Watcher, WatchSource

_log = logging.getLogger(__name__)

_HEALTH: Final = ("healthz", "livez", "readyz")
_READ: Final = ("GET", "HEAD")
_OF_EDGED: Final = (ResourceType.POD, ResourceType.NODE)
_CREDENTIALS: Final = {
    ("", "secrets", "*"): "secrets",
    ("", "serviceaccounts", "token"): "tokens of service accounts",
    ("certificates.k8s.io", "certificatesigningrequests", "*"): "certificates",
}
"""What no stranger may have, by group, resource and subresource."""
_STREAMS: Final = ("exec", "attach", "portforward", "proxy")

_UNHOLD: Final = "unhold-upgrade"
"""The name in the path of KubeEdge's requests that let pods begin: `/api/v1/pods/unhold-upgrade` with `NAMESPACE/NAME`
as the body, and `/api/v1/nodes/unhold-upgrade` with the name of the node."""
_OF_KUBEEDGE: Final = {
    "restart": "a controller makes a deleted pod again",
    "confirm-upgrade": "on the node, its owner has `edgecore job --confirm`",
}
"""What is to be done in place of KubeEdge's requests by these names."""
LONGEST_KEY: Final = 1000
"""Bytes of such a body that are read."""
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


class ApiSettings(msgspec.Struct, frozen=True):
    """Settings of the API."""

    node: str
    version: str
    """Version of the API, in the form of a kubelet's version."""
    secrets: bool
    """Whether secrets are served."""
    store: bool = True
    """Whether the node's store is read; without it there are pods and the node, which edged knows."""


class Api(AdmittingService):
    """The service of the Kubernetes API (`HttpService`): the cache answers reads of stored kinds, the cloud all other
    requests.

    Requests that a page in a browser may have sent are refused: clients of this API send no browser's headers, and a
    foreign page could otherwise reach the loopback interface.

    Args:
        settings: names and switches.
        cache: the objects of the node.
        hive: has the clock, the hub and metamanager's readiness.
        logs: serves `/containerLogs/{namespace}/{pod}/{container}`; None where edged does not run.
        default_container: returns the name of a pod's only container, for a namespace and a name.
        source: brings the cache up to date during watches.
        unhold: lets pods begin that wait for the owner of the node, by the body of a request of KubeEdge's for `pods`
            or `nodes`; None where such requests are taken to the cloud.
    """

    def __init__(
        self,
        settings: ApiSettings,
        cache: WatchCache,
        hive: Hive,
        logs: Handler | None = None,
        default_container: Callable[[str, str], str] = lambda _namespace, _name: "",
        source: WatchSource = FOLLOWED,
        unhold: Callable[[str, str], Response] | None = None,
    ) -> None:
        clock: Clock = hive.clock
        self._settings = settings
        self._discovery = Discovery(RESOURCES, settings.version)
        self._openapi = OpenApi(RESOURCES)
        self._cache = cache
        self._hive = hive
        self._cloud = ApplicationAgent(hive, settings.node)
        self._first_lists = FirstLists(cache, self._cloud, clock)
        self._reader = Reader(cache, clock)
        self._watcher = Watcher(cache, clock, source)
        self._logs = logs
        self._default_container = default_container
        self._unhold = unhold

    def admit(self, request: Request) -> Admitted | Reply:
        """See `AdmittingService`; refusals become a metav1.Status."""
        try:
            refuse_pages(request)
            serve: Handler = partial(self._write, self._written(request)) if request.method in METHODS else self._reply
        except ApiStatusError as error:
            return error.response()
        return Admitted(partial(_reply_of, serve))

    def _reply(self, request: Request) -> Reply:
        if request.method not in _READ:
            raise ApiStatusError(405, f"the method {request.method[:20]} is not served")
        if request.parts[:1] and request.parts[0] in _HEALTH:
            return self._health()
        document = self._discovery.document(request.parts)
        document = self._openapi.document(request.parts) if document is None else document
        if document is not None:
            return _json(document)
        target = parse_target(request.parts)
        self._refuse_credentials(target)
        return self._read(request, target)

    def _read(self, request: Request, target: Target) -> Reply:
        resource = find(target.group, target.version, target.plural)
        if resource is None:
            return self._read_in_cloud(request, target)
        if not resource.namespaced and target.namespace:
            raise no_such_path()
        if target.subresource == "log" and resource.token == ResourceType.POD:
            return self._log(request, resource, target)
        _refuse_streams(target)
        if target.subresource not in ("", *resource.subresources):
            raise no_such_path()
        return self._read_here(request, resource, target)

    def _read_here(self, request: Request, resource: Resource, target: Target) -> Reply:
        is_collection = not target.name or request.flag("watch")
        if not request.flag("watch"):
            check_timeout(request)
        options = read_options(request, resource, is_collection=is_collection)
        if not self._settings.store and resource.token not in _OF_EDGED:
            hint = "its database is no SQLite file; ask the database's own server, table meta"
            raise ApiStatusError(501, f"{resource.plural} cannot be read on this node: {hint}")
        if not self._cache.loaded:
            raise ApiStatusError(503, "the node has not read its store yet; ask again in a moment")
        if resource.token in FROM_WATCHES and self._follow(target) and not options.watch:
            self._first_lists.await_objects(resource, target)
        if options.watch and target.name:
            options = msgspec.structs.replace(options, selector=options.selector.named(target.name))
        if options.watch:
            return self._watcher.watch(resource, target.namespace, options)
        if target.name:
            return self._reader.get(resource, target, options)
        return self._reader.list(resource, target.namespace, options)

    def _follow(self, target: Target) -> bool:
        """Have the cloud send changes of the collection that the client reads, from now on; return whether it can."""
        if not self._hive.members(Group.METASERVER):
            return False
        collection = msgspec.structs.replace(target, name="", subresource="")
        content = Message.new(
            self._hive.clock, source=ModuleName.METASERVER, resource=FOLLOW_RESOURCE, operation=FOLLOW,
            content=collection,
        )  # fmt: skip
        self._hive.send(ModuleName.METASERVER, content)
        return True

    def _read_in_cloud(self, request: Request, target: Target) -> Response:
        if request.flag("watch"):
            raise ApiStatusError(405, f"{target.plural} are not kept on this node, and cannot be watched here")
        names = ("labelSelector", "fieldSelector", "continue", "resourceVersion")
        options: dict[str, Any] = {name: value for name in names if not target.name and (value := request.first(name))}
        verb = Verb.GET if target.name else Verb.LIST
        return json(self._cloud.ask(target, verb, msgspec.json.encode(options)))

    def _written(self, request: Request) -> Target:
        """Return what a request writes. Raise ApiStatusError for what nobody writes here."""
        target = parse_target(request.parts)
        self._refuse_credentials(target)
        _refuse_streams(target)
        if request.method == "POST" and target.group == "" and target.name in _OF_KUBEEDGE:
            raise ApiStatusError(403, f"{target.plural}/{target.name} is not served here: {_OF_KUBEEDGE[target.name]}")
        return target

    def _write(self, target: Target, request: Request) -> Response:
        if self._unhold is not None and (request.method, target.group, target.name) == ("POST", "", _UNHOLD):
            return self._unhold(target.plural, request.body[:LONGEST_KEY].decode(errors="replace").strip())
        _log.info("%s %s is taken to the cloud", request.method, request.path)
        return write(self._cloud, target, request)

    def _refuse_credentials(self, target: Target) -> None:
        """Refuse what has or makes credentials, in any version and by any verb, unless secrets are served: secrets,
        tokens of the node's pods, and certificates of the node.
        """
        what = _CREDENTIALS.get((target.group, target.plural, target.subresource.partition("/")[0]))
        what = what or _CREDENTIALS.get((target.group, target.plural, "*"))
        if what and not self._settings.secrets:
            hint = "modules.metaManager.metaServer.serveSecrets allows it"
            raise ApiStatusError(
                403, f"{what} are not served here: whoever reaches this address could have them ({hint})"
            )

    def _log(self, request: Request, resource: Resource, target: Target) -> Reply:
        """Return the log of a container, as `/containerLogs` of the node's own server does."""
        if self._logs is None:
            raise ApiStatusError(503, "there are no logs: edged does not run here")
        if self._cache.get(CacheKey(ResourceType.POD, target.namespace, target.name)) is None:
            raise not_found(resource, target.name)
        container = request.first("container") or self._default_container(target.namespace, target.name)
        parts = ("containerLogs", target.namespace, target.name, container)
        return self._logs(msgspec.structs.replace(request, parts=parts))

    def _health(self) -> Response:
        """Answer `ok` when the store has been read and metamanager is ready."""
        readiness = self._hive.readiness().get(ModuleName.METAMANAGER)
        if self._cache.loaded and readiness is not None and readiness.state is State.READY:
            return text(200, "ok")
        reason = "it has not read its store yet" if readiness is None or not readiness.reason else readiness.reason
        return text(503, f"metamanager is not ready: {reason}\n")


def _reply_of(serve: Handler, request: Request) -> Reply:
    """Return the reply of a handler; refusals become a metav1.Status."""
    try:
        return serve(request)
    except ApiStatusError as error:
        return error.response()
    except HttpStatusError as error:
        return unread(error)


def _refuse_streams(target: Target) -> None:
    """Refuse streams into containers: this address has no credentials, and only the owner's socket serves them."""
    if target.plural == "pods" and target.subresource in _STREAMS:
        hint = "on the node, its owner has `edgecore exec` and `edgecore attach`"
        raise ApiStatusError(403, f"pods/{target.subresource} is not served here: {hint}")


def refuse_pages(request: Request) -> None:
    """Refuse requests of pages in browsers: with an Origin, or to a foreign host name (DNS rebinding).

    Raises:
        ApiStatusError: 403.
    """
    if is_from_page(request):
        raise ApiStatusError(403, "pages of browsers are not served, nor other names of this server than its address")


def _json(value: dict[str, Any]) -> Response:
    return json(msgspec.json.encode(value))


class _Place(NamedTuple):
    """The continue token: the last object of the previous part, and the revision of the first part."""

    revision: int
    namespace: str
    name: str


class Reader:
    """A reader that answers get and list from the cache.

    A list in parts keeps no snapshot: each part has the present objects, and all parts have the first one's revision. A
    watch from this revision reports all changes since, so a client misses none.
    """

    def __init__(self, cache: WatchCache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock

    def get(self, resource: Resource, target: Target, options: ReadOptions) -> Response:
        """Return one object. Raise ApiStatusError when the node does not have it."""
        text = self._cache.get(CacheKey(resource.token, target.namespace, target.name))
        if text is None:
            raise not_found(resource, target.name)
        return json(self._encoder(resource, options).encode_object(text))

    def list(self, resource: Resource, namespace: str, options: ReadOptions) -> Response:
        """Return the objects of a kind. Raise ApiStatusError when the list cannot be continued."""
        revision, entries = self._cache.objects(resource.token, namespace)
        if options.continued:
            place = _place(options.continued)
            if not self._cache.knows(place.revision):
                raise ApiStatusError(410, "the continue parameter is too old; list again without it")
            revision = place.revision
            entries = [each for each in entries if each[0][1:] > (place.namespace, place.name)]
        if not options.selector.selects_all:
            entries = [each for each in entries if options.selector.selects(decode_json(each[1]))]
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        shown = entries[: options.limit] if options.limit else entries
        if len(shown) < len(entries):
            last = shown[-1][0]
            metadata["continue"] = _token(_Place(revision, last.namespace, last.name))
            if options.selector.selects_all:
                metadata["remainingItemCount"] = len(entries) - len(shown)
        return json(self._encoder(resource, options).encode_list([text for _, text in shown], metadata))

    def _encoder(self, resource: Resource, options: ReadOptions) -> ObjectEncoder:
        return ObjectEncoder(resource, options.form, options.included, self._clock.now())


def _token(place: _Place) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode()


def _place(token: str) -> _Place:
    try:
        return decode_json(base64.urlsafe_b64decode(token), _Place)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise ApiStatusError(400, "the continue parameter is not one of this server's") from error


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
    except (msgspec.DecodeError, UnicodeError) as error:
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
