"""The module dynamiccontroller."""

import logging
import re
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar, Final

import msgspec

from beehive.decoding import decode_json
from beehive.errors import BeehiveError, ContentError
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation
from beehive.resource import Resource, Side
from modules.apimachinery.api_errors import TooLargeError
from modules.apimachinery.application import NAMES_ONLY, Application, PatchInfo, Progress, StatusError, Verb, target_of
from modules.apimachinery.limits import NODE_LIMIT, NODE_VALUES, is_too_large
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb as Command
from modules.cloud.client.calls import DOCUMENT, MOST_WATCHES, UNWATCH, ApiCall, ApiResult, JsonObject
from modules.cloud.messages import HANDLED, HANDLED_RESOURCE, origin_of
from modules.cloud.open_messages import OpenMessages

_log = logging.getLogger(__name__)

SECONDS = 10.0
"""Timeout of edgecontroller's response, which is also the node's timeout."""

_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_DOCUMENT: Final = re.compile(
    r"/version|/openapi/v[23]|/apis?|/api/[-a-z0-9]{1,63}|/apis/[-.a-z0-9]{1,253}(/[-a-z0-9]{1,63})?"
)
"""Paths of discovery, which everybody may read; KubeEdge's metaserver passes them through with the key of an object."""

WATCH_SYNC = "watchapp/sync"
"""Resource of a node's list of watches."""
_UNREADABLE: Final = Application(key="", verb="")
_FAILED: Final = BeehiveError("dynamiccontroller has failed", hint="ask again")


class DynamicController(Module):
    """The module that serves the Applications of nodes: API requests of their metaservers.

    edgecontroller makes the calls, as it knows what each node may do. It also sends a node the objects that its watches
    select, because it sends them again until they are acknowledged, and after a restart.
    """

    name: ClassVar[str] = ModuleName.DYNAMICCONTROLLER
    group: ClassVar[str] = Group.DYNAMICCONTROLLER
    side: ClassVar[Side] = Side.CLOUD

    def __init__(self) -> None:
        super().__init__()
        self._open = OpenMessages()

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Answer the requests that go with this instance. But a list of watches is repeated by its node, which would
        end the watches that an answer lacks or refuses.
        """
        for message in self._open.lost(self.tried_again):
            node, resource = origin_of(message)
            if resource != WATCH_SYNC:
                self._answer(message, node, _done(message.content_as(Application), _FAILED))
        super().on_failure(exception_type, exception_value, traceback)

    @handles()
    def handle(self, message: Message) -> None:
        """Handle a request of a node's metaserver."""
        self._open.begin(message)
        node, resource = origin_of(message)
        if resource == WATCH_SYNC:
            self._replace_watches(message, node)
            return
        try:
            app = message.content_as(Application)
        except ContentError as error:
            _log.warning("an Application of node %s cannot be read: %s", node, error)
            self._answer(message, node, _rejected(_UNREADABLE, str(error)))
            return
        if app.verb == Verb.GET and app.key in _HEALTH:
            self._answer(message, node, msgspec.structs.replace(app, status=Progress.APPROVED, resp_body=b"ok"))
            return
        call = call_of(app)
        if isinstance(call, str):
            self._answer(message, node, _rejected(app, call))
            return
        names_only = call.verb == Verb.LIST and bool(call.options.pop(NAMES_ONLY, False))
        self._call(node, call, lambda answer: self._answer(message, node, _done(app, answer, names_only=names_only)))

    def _call(self, node: str, call: ApiCall, then: Callable[[Message | BeehiveError], None]) -> None:
        request = self.message(api_messages.RESOURCE, Command.CALL, msgspec.structs.replace(call, node=node))
        self.request(ModuleName.EDGECONTROLLER, request, SECONDS, then)

    def _replace_watches(self, message: Message, node: str) -> None:
        """Replace the watches of a node by those in its message, and answers with the failed ones."""
        try:
            is_large = is_too_large(message.content_raw(), NODE_VALUES)
            watches = {} if is_large else message.content_as(dict[str, Application])
        except ContentError as error:
            _log.warning("the watches of node %s cannot be read: %s", node, error)
            watches = {}
        failed: dict[str, Application] = {}
        waiting = set(watches)

        def handle(name: str, app: Application) -> None:
            waiting.discard(name)
            if app.status != Progress.APPROVED:
                failed[name] = app
            if not waiting:
                self._answer(message, node, failed)

        def answered(name: str, app: Application, answer: Message | BeehiveError) -> None:
            handle(name, _done(app, answer))

        self._call(node, ApiCall(verb=UNWATCH, api_version="", plural=""), lambda _: None)
        for number, (name, app) in enumerate(watches.items()):
            is_good = app.verb == Verb.WATCH and number < MOST_WATCHES
            call = call_of(app) if is_good else f"at most {MOST_WATCHES} watches are taken, and nothing else"
            if isinstance(call, str):
                handle(name, _rejected(app, call))
            else:
                self._call(node, call, partial(answered, name, app))
        if not watches:
            self._answer(message, node, failed)

    def _answer(self, request: Message, node: str, content: Any) -> None:
        resource = Resource("Application", "ignore", "ignore").on_node(node)
        answer = self.message(
            str(resource), Operation.APPLICATION_RESPONSE, content, group=Group.RESOURCE, parent_id=request.id
        )
        self.send(ModuleName.CLOUDHUB, self.message(HANDLED_RESOURCE, HANDLED, {node: 1}))
        self.send(ModuleName.CLOUDHUB, answer)
        self._open.close(request)


def call_of(app: Application) -> ApiCall | str:
    """Return the API call of an Application, or the reason to reject it."""
    if app.verb == Verb.GET and _DOCUMENT.fullmatch(app.key):
        return ApiCall(verb=DOCUMENT, api_version="", plural="", name=app.key)
    target = target_of(app)
    if target is None:
        return f"the key {app.key[:200]!r} is none"
    if app.verb not in list(Verb):
        return f"{app.verb[:40]!r} is not served by this cloud"
    if any(part is not None and is_too_large(part, NODE_VALUES) for part in (app.option, app.req_body)):
        return TooLargeError(NODE_LIMIT).message
    try:
        options, body = _json(app.option), _json(app.req_body)
        patch = decode_json(app.option or b"", PatchInfo) if app.verb == Verb.PATCH else None
        if patch is not None:
            if is_too_large(patch.data, NODE_VALUES):
                return TooLargeError(NODE_LIMIT).message
            options, body = patch.options, _json(patch.data)
    except (msgspec.DecodeError, UnicodeError):
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


def _done(app: Application, answer: Message | BeehiveError, *, names_only: bool = False) -> Application:
    if not isinstance(answer, Message):
        silence = {
            "kind": "Status",
            "apiVersion": "v1",
            "code": int(HTTPStatus.GATEWAY_TIMEOUT),
            "message": str(answer),
        }
        return msgspec.structs.replace(_rejected(app, str(answer)), error=StatusError(silence))
    result = answer.content_as(ApiResult)
    if result.refusal:
        error = StatusError({"kind": "Status", "apiVersion": "v1", **result.refusal})
        reason = str(result.refusal.get("message", ""))
        return msgspec.structs.replace(app, status=Progress.REJECTED, reason=reason, error=error)
    found = _names_in(result.object) if names_only and result.object is not None else result.object
    body = None if found is None else msgspec.json.encode(found)
    return msgspec.structs.replace(app, status=Progress.APPROVED, resp_body=body)


def _names_in(listed: JsonObject) -> JsonObject:
    """Return a list without all but the namespaces and names of its objects."""
    heads = (each["metadata"] for each in listed.get("items") or ())
    names = [{name: head[name] for name in ("namespace", "name") if name in head} for head in heads]
    return {**listed, "items": [{"metadata": each} for each in names]}


def _rejected(app: Application, reason: str) -> Application:
    return msgspec.structs.replace(app, status=Progress.REJECTED, reason=reason)


def _json(text: bytes | None) -> Any:
    return decode_json(text) if text else None
