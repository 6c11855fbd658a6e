"""The module dynamiccontroller."""

import logging
from typing import Any, ClassVar

import msgspec

from beehive.decoding import decode_json
from beehive.errors import BeehiveError, ContentError
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation
from beehive.resource import Resource, Side
from metamanager.application import Application, PatchInfo, Progress, StatusError, Verb, target_of
from modules.cloud.apiserver import commands
from modules.cloud.apiserver.commands import Verb as Command
from modules.cloud.apiserver.errors import TooLargeError
from modules.cloud.apiserver.limits import is_too_large
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.messages import HANDLED, HANDLED_RESOURCE

_log = logging.getLogger(__name__)

SECONDS = 10.0
"""Timeout of edgecontroller's response, which is also the node's timeout."""

WATCH_SYNC = "watchapp/sync"
"""Resource of a node's list of watches."""

_NO_WATCHES = "'watch' is not served by this cloud"


class DynamicController(Module):
    """Serves the Applications of nodes: API requests of their metaservers.

    KubeEdge's asks an API server. Here edgecontroller runs it, so the request goes there as a message. Watches are
    refused: edgecontroller sends nodes the objects that they need without one.
    """

    name: ClassVar[str] = ModuleName.DYNAMICCONTROLLER
    group: ClassVar[str] = Group.DYNAMICCONTROLLER
    side: ClassVar[Side] = Side.CLOUD

    @handles()
    def take(self, message: Message) -> None:
        """Handles a request of a node's metaserver."""
        node, _, resource = message.route.resource.removeprefix("node/").partition("/")
        if resource == WATCH_SYNC:
            self._answer(message, node, self._failed_watches(message, node))
            return
        try:
            app = message.content_as(Application)
        except ContentError as error:
            _log.warning("an Application of node %s cannot be read: %s", node, error)
            self._handled(node)
            return
        call = call_of(app)
        if isinstance(call, str):
            self._answer(message, node, _rejected(app, call))
            return
        call = msgspec.structs.replace(call, node=node)
        request = self.message(commands.RESOURCE, Command.CALL, call)
        self.request(ModuleName.EDGECONTROLLER, request, SECONDS, lambda answer: self._done(message, node, app, answer))

    def _failed_watches(self, message: Message, node: str) -> dict[str, Application]:
        """Returns those of a node's watches that this cloud does not carry out: all."""
        try:
            watches = message.content_as(dict[str, Application])
        except ContentError as error:
            _log.warning("the watches of node %s cannot be read: %s", node, error)
            return {}
        return {name: _rejected(app, _NO_WATCHES) for name, app in watches.items()}

    def _done(self, request: Message, node: str, app: Application, answer: Message | BeehiveError) -> None:
        if not isinstance(answer, Message):
            self._answer(request, node, _rejected(app, str(answer)))
            return
        result = answer.content_as(ApiResult)
        if result.refusal:
            error = StatusError(result.refusal)
            reason = str(result.refusal.get("message", ""))
            refused = msgspec.structs.replace(app, status=Progress.REJECTED, reason=reason, error=error)
            self._answer(request, node, refused)
            return
        body = None if result.object is None else msgspec.json.encode(result.object)
        self._answer(request, node, msgspec.structs.replace(app, status=Progress.APPROVED, resp_body=body))

    def _answer(self, request: Message, node: str, content: Any) -> None:
        resource = Resource("Application", "ignore", "ignore").on_node(node)
        answer = self.message(
            str(resource), Operation.APPLICATION_RESPONSE, content, group=Group.RESOURCE, parent_id=request.id
        )
        self._handled(node)
        self.send(ModuleName.CLOUDHUB, answer)

    def _handled(self, node: str) -> None:
        self.send(ModuleName.CLOUDHUB, self.message(HANDLED_RESOURCE, HANDLED, {node: 1}))


def call_of(app: Application) -> ApiCall | str:
    """Returns the API call of an Application, or the reason to reject it."""
    target = target_of(app)
    if target is None:
        return f"the key {app.key[:200]!r} is none"
    if app.verb == Verb.WATCH:
        return _NO_WATCHES
    if app.verb not in list(Verb):
        return f"{app.verb[:40]!r} is not served by this cloud"
    if any(part is not None and is_too_large(part) for part in (app.option, app.req_body)):
        return TooLargeError().message
    try:
        options, body = _json(app.option), _json(app.req_body)
        patch = decode_json(app.option or b"", PatchInfo) if app.verb == Verb.PATCH else None
        if patch is not None:
            options, body = patch.options, _json(patch.data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return "its option or body is not the JSON that the verb wants"
    return ApiCall(
        verb=app.verb,
        api_version=f"{target.group}/{target.version}" if target.group else target.version,
        plural=target.plural,
        namespace=target.namespace,
        name=target.name or (patch.name if patch else ""),
        subresource=target.subresource,
        patch_type=patch.patch_type if patch else "",
        options=options if isinstance(options, dict) else {},
        body=body,
    )


def _rejected(app: Application, reason: str) -> Application:
    return msgspec.structs.replace(app, status=Progress.REJECTED, reason=reason)


def _json(text: bytes | None) -> Any:
    return msgspec.json.decode(text) if text else None
