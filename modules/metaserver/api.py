"""The API as a service of the node's HTTP server: which part answers what.

What this node keeps is read here. What it does not keep, and whatever changes something, is the cloud's. Requests that
a page in a browser could have sent are refused: nobody who speaks this API needs a browser's headers, and a page of a
stranger could otherwise reach the loopback interface through one.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from beehive import Clock, Hive, ModuleName, ResourceType, State
from edged.server.answers import Answer, Handler, Reply, json, text
from edged.server.errors import RequestError
from edged.server.pages import is_from_page
from edged.server.request import Request
from metamanager.application import Target, Verb
from modules.metaserver import discovery
from modules.metaserver.cloud import Cloud
from modules.metaserver.errors import ApiError, no_such_path, not_found
from modules.metaserver.options import read_options
from modules.metaserver.paths import parse_target
from modules.metaserver.reading import Reader
from modules.metaserver.resources import Resource, find
from modules.metaserver.view import Key, View
from modules.metaserver.watching import Watcher
from modules.metaserver.writing import METHODS, write

_log = logging.getLogger(__name__)

_HEALTH: Final = ("healthz", "livez", "readyz")
_READ: Final = ("GET", "HEAD")
_STREAMS: Final = ("exec", "attach", "portforward", "proxy")


class ApiSettings(msgspec.Struct, frozen=True):
    """What the API has to be told."""

    node: str
    version: str
    """Of the API, as a kubelet reports its own."""
    secrets: bool = False
    """Whether secrets may be read."""


class Api:
    """See the module's docstring.

    Args:
        view: what the node has.
        hive: where the hub is; says how the modules are.
        logs: serves `/containerLogs/{namespace}/{pod}/{container}`; None where no edged runs.
        default_container: names the only container of a pod.
    """

    def __init__(
        self,
        settings: ApiSettings,
        view: View,
        hive: Hive,
        logs: Handler | None = None,
        default_container: Callable[[str, str], str] = lambda _namespace, _name: "",
    ) -> None:
        clock: Clock = hive.clock
        self._settings = settings
        self._view = view
        self._hive = hive
        self._cloud = Cloud(hive, settings.node)
        self._reader = Reader(view, clock)
        self._watcher = Watcher(view, clock)
        self._logs = logs
        self._default_container = default_container

    def serve(self, request: Request) -> Reply:
        """The reply; a refusal is one too."""
        try:
            refuse_pages(request)
            return self._reply(request)
        except ApiError as error:
            return error.answer()
        except RequestError as error:
            return ApiError(error.status, str(error)).answer()

    def _reply(self, request: Request) -> Reply:
        if request.method in METHODS:
            return self._write(request)
        if request.method not in _READ:
            raise ApiError(405, f"the method {request.method[:20]} is not served")
        match request.parts:
            case ():
                return _json({"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/readyz", "/version"]})
            case ("version",):
                return _json(discovery.version(self._settings.version))
            case ("api",):
                return _json(discovery.api_versions())
            case ("apis",):
                return _json(discovery.api_groups())
            case ("apis", group):
                return _json(discovery.api_group(group))
            case ("api", version):
                return _json(discovery.api_resources("", version))
            case ("apis", group, version):
                return _json(discovery.api_resources(group, version))
            case (check, *_) if check in _HEALTH:
                return self._health()
        return self._read(request, parse_target(request.parts))

    def _read(self, request: Request, target: Target) -> Reply:
        resource = find(target.group, target.version, target.plural)
        if resource is None:
            return self._read_in_cloud(request, target)
        if resource.token == ResourceType.SECRET and not self._settings.secrets:
            hint = "modules.metaManager.metaServer.serveSecrets allows it"
            raise ApiError(403, f"secrets are not served here: whoever reaches this address could read them ({hint})")
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
        if not self._view.loaded:
            raise ApiError(503, "the node has not read its store yet; ask again in a moment")
        if options.watch and target.name:
            options = msgspec.structs.replace(options, selector=options.selector.named(target.name))
        if options.watch:
            return self._watcher.watch(resource, target.namespace, options)
        if target.name:
            return self._reader.get(resource, target, options)
        return self._reader.list(resource, target.namespace, options)

    def _read_in_cloud(self, request: Request, target: Target) -> Answer:
        if request.flag("watch"):
            raise ApiError(405, f"{target.plural} are not kept on this node, and cannot be watched here")
        names = ("labelSelector", "fieldSelector", "continue", "resourceVersion")
        options: dict[str, Any] = {name: value for name in names if not target.name and (value := request.first(name))}
        verb = Verb.GET if target.name else Verb.LIST
        return json(self._cloud.ask(target, verb, msgspec.json.encode(options)))

    def _write(self, request: Request) -> Answer:
        target = parse_target(request.parts)
        _refuse_streams(target)
        _log.info("%s %s is taken to the cloud", request.method, request.path)
        return write(self._cloud, target, request)

    def _log(self, request: Request, resource: Resource, target: Target) -> Reply:
        """The log of a container, as the node's own server has it."""
        if self._logs is None:
            raise ApiError(503, "there are no logs: edged does not run here")
        if self._view.get(Key(ResourceType.POD, target.namespace, target.name)) is None:
            raise not_found(resource, target.name)
        container = request.first("container") or self._default_container(target.namespace, target.name)
        parts = ("containerLogs", target.namespace, target.name, container)
        return self._logs(msgspec.structs.replace(request, parts=parts))

    def _health(self) -> Answer:
        """`ok` when the store has been read and metamanager can do its work."""
        readiness = self._hive.readiness().get(ModuleName.METAMANAGER)
        if self._view.loaded and readiness is not None and readiness.state is State.READY:
            return text(200, "ok")
        reason = "it has not read its store yet" if readiness is None or not readiness.reason else readiness.reason
        return text(503, f"metamanager is not ready: {reason}\n")


def _refuse_streams(target: Target) -> None:
    """What acts in a container is on the socket of the node's owner, not on an address that asks for no credentials."""
    if target.plural == "pods" and target.subresource in _STREAMS:
        hint = "on the node, its owner has `edgecore exec` and `edgecore attach`"
        raise ApiError(403, f"pods/{target.subresource} is not served here: {hint}")


def refuse_pages(request: Request) -> None:
    """Refuse what may come from a page in a browser: with an Origin, or to a name that somebody's DNS may have given
    this address (DNS rebinding).

    Raises:
        ApiError: 403.
    """
    if is_from_page(request):
        raise ApiError(403, "pages of browsers are not served, nor other names of this server than its address")


def _json(value: dict[str, Any]) -> Answer:
    return json(msgspec.json.encode(value))
