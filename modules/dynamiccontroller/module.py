"""The module dynamiccontroller.

In KubeEdge it asks an API server; here edgecontroller is one, so the question goes there as a message and its answer
comes back in a turn of this module. A watch is refused: the nodes of this stub hear of what they need unasked.
"""

import logging
from typing import Any, ClassVar

import msgspec

from beehive.errors import BeehiveError, ContentError
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation
from beehive.resource import Resource, Side
from metamanager.application import Application, PatchInfo, Progress, StatusError, Verb, target_of
from modules.cloudhub.connections import HANDLED, HANDLED_RESOURCE
from modules.edgecontroller import commands
from modules.edgecontroller.api_calls import ApiCall, ApiResult
from modules.edgecontroller.commands import Verb as Command
from modules.edgecontroller.errors import TooLargeError
from modules.edgecontroller.limits import is_too_large

_log = logging.getLogger(__name__)

SECONDS = 10.0
"""How long edgecontroller has: as long as a node waits."""

WATCH_SYNC = "watchapp/sync"
"""Resource under which a node says which watches it has."""


class DynamicController(Module):
    """See the module's docstring."""

    name: ClassVar[str] = ModuleName.DYNAMICCONTROLLER
    group: ClassVar[str] = Group.DYNAMICCONTROLLER
    side: ClassVar[Side] = Side.CLOUD

    @handles()
    def take(self, message: Message) -> None:
        """A node's metaserver asks."""
        node, _, resource = message.route.resource.removeprefix("node/").partition("/")
        if resource == WATCH_SYNC:
            self._answer(message, node, {})
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
    """What edgecontroller is asked; a text when it cannot be."""
    target = target_of(app)
    if target is None:
        return f"the key {app.key[:200]!r} is none"
    if app.verb == Verb.WATCH or app.verb not in list(Verb):
        return f"{app.verb[:40]!r} is not served by this cloud"
    if any(part is not None and is_too_large(part) for part in (app.option, app.req_body)):
        return TooLargeError().message
    try:
        options, body = _json(app.option), _json(app.req_body)
        patch = msgspec.json.decode(app.option or b"", type=PatchInfo) if app.verb == Verb.PATCH else None
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
