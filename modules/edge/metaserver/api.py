"""The API as a service of the node's HTTP server."""

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from beehive import Clock, Group, Hive, Message, ModuleName, ResourceType, State
from beehive.http.browser_guard import is_from_page
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Handler, Reply, Response, json, text
from metamanager.application import FOLLOW, FOLLOW_RESOURCE, Target, Verb
from modules.apimachinery.discovery import Discovery
from modules.apimachinery.errors import ApiStatusError, no_such_path, not_found
from modules.apimachinery.openapi import OpenApi
from modules.apimachinery.options import read_options
from modules.apimachinery.paths import parse_target
from modules.apimachinery.resources import Resource
from modules.edge.metaserver.application_agent import ApplicationAgent
from modules.edge.metaserver.reading import Reader
from modules.edge.metaserver.resources import RESOURCES, find
from modules.edge.metaserver.watch_agent import FROM_WATCHES
from modules.edge.metaserver.watch_cache import CacheKey, WatchCache
from modules.edge.metaserver.watching import FOLLOWED, Watcher, WatchSource
from modules.edge.metaserver.writing import METHODS, write

_log = logging.getLogger(__name__)

_HEALTH: Final = ("healthz", "livez", "readyz")
_READ: Final = ("GET", "HEAD")
_OF_EDGED: Final = (ResourceType.POD, ResourceType.NODE)
_STREAMS: Final = ("exec", "attach", "portforward", "proxy")


class ApiSettings(msgspec.Struct, frozen=True):
    """Settings of the API."""

    node: str
    version: str
    """Version of the API, in the form of a kubelet's version."""
    secrets: bool = False
    """Whether secrets are served."""
    store: bool = True
    """Whether the node's store is read; without it there are pods and the node, which edged knows."""


class Api:
    """Serves the Kubernetes API (`HttpService`): the cache answers reads of stored kinds, the cloud all other requests.

    Requests that a page in a browser may have sent are refused: clients of this API send no browser's headers, and a
    foreign page could otherwise reach the loopback interface.

    Args:
        settings: names and switches.
        cache: the objects of the node.
        hive: has the clock, the hub and metamanager's readiness.
        logs: serves `/containerLogs/{namespace}/{pod}/{container}`; None where edged does not run.
        default_container: returns the name of a pod's only container, for a namespace and a name.
        source: brings the cache up to date during watches.
    """

    def __init__(
        self,
        settings: ApiSettings,
        cache: WatchCache,
        hive: Hive,
        logs: Handler | None = None,
        default_container: Callable[[str, str], str] = lambda _namespace, _name: "",
        source: WatchSource = FOLLOWED,
    ) -> None:
        clock: Clock = hive.clock
        self._settings = settings
        self._discovery = Discovery(RESOURCES, settings.version)
        self._openapi = OpenApi(RESOURCES)
        self._cache = cache
        self._hive = hive
        self._cloud = ApplicationAgent(hive, settings.node)
        self._reader = Reader(cache, clock)
        self._watcher = Watcher(cache, clock, source)
        self._logs = logs
        self._default_container = default_container

    def serve(self, request: Request) -> Reply:
        """Return the reply; refusals become a metav1.Status."""
        try:
            refuse_pages(request)
            return self._reply(request)
        except ApiStatusError as error:
            return error.response()
        except HttpStatusError as error:
            return ApiStatusError(error.status, str(error)).response()

    def _reply(self, request: Request) -> Reply:
        if request.method in METHODS:
            return self._write(request)
        if request.method not in _READ:
            raise ApiStatusError(405, f"the method {request.method[:20]} is not served")
        if request.parts[:1] and request.parts[0] in _HEALTH:
            return self._health()
        document = self._discovery.document(request.parts)
        document = self._openapi.document(request.parts) if document is None else document
        if document is not None:
            return _json(document)
        return self._read(request, parse_target(request.parts))

    def _read(self, request: Request, target: Target) -> Reply:
        resource = find(target.group, target.version, target.plural)
        if resource is None:
            return self._read_in_cloud(request, target)
        if resource.token == ResourceType.SECRET and not self._settings.secrets:
            hint = "modules.metaManager.metaServer.serveSecrets allows it"
            raise ApiStatusError(
                403, f"secrets are not served here: whoever reaches this address could read them ({hint})"
            )
        if not resource.namespaced and target.namespace:
            raise no_such_path()
        if target.subresource == "log" and resource.token == ResourceType.POD:
            return self._log(request, resource, target)
        _refuse_streams(target)
        if target.subresource not in ("", *resource.subresources):
            raise no_such_path()
        return self._read_here(request, resource, target)

    def _read_here(self, request: Request, resource: Resource, target: Target) -> Reply:
        options = read_options(request, resource)
        if not self._settings.store and resource.token not in _OF_EDGED:
            hint = "its database is no SQLite file; ask the database's own server, table meta"
            raise ApiStatusError(501, f"{resource.plural} cannot be read on this node: {hint}")
        if not self._cache.loaded:
            raise ApiStatusError(503, "the node has not read its store yet; ask again in a moment")
        if resource.token in FROM_WATCHES:
            self._follow(target)
        if options.watch and target.name:
            options = msgspec.structs.replace(options, selector=options.selector.named(target.name))
        if options.watch:
            return self._watcher.watch(resource, target.namespace, options)
        if target.name:
            return self._reader.get(resource, target, options)
        return self._reader.list(resource, target.namespace, options)

    def _follow(self, target: Target) -> None:
        """Have the cloud send changes of the collection that the client reads, from now on."""
        if self._hive.members(Group.METASERVER):
            collection = msgspec.structs.replace(target, name="", subresource="")
            content = Message.new(
                self._hive.clock, source=ModuleName.METASERVER, resource=FOLLOW_RESOURCE, operation=FOLLOW,
                content=collection,
            )  # fmt: skip
            self._hive.send(ModuleName.METASERVER, content)

    def _read_in_cloud(self, request: Request, target: Target) -> Response:
        if request.flag("watch"):
            raise ApiStatusError(405, f"{target.plural} are not kept on this node, and cannot be watched here")
        names = ("labelSelector", "fieldSelector", "continue", "resourceVersion")
        options: dict[str, Any] = {name: value for name in names if not target.name and (value := request.first(name))}
        verb = Verb.GET if target.name else Verb.LIST
        return json(self._cloud.ask(target, verb, msgspec.json.encode(options)))

    def _write(self, request: Request) -> Response:
        target = parse_target(request.parts)
        _refuse_streams(target)
        _log.info("%s %s is taken to the cloud", request.method, request.path)
        return write(self._cloud, target, request)

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
