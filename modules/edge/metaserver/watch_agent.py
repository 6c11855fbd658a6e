"""The cloud's watches for clients of the node's API: the watching part of KubeEdge's metaserver agent."""

import logging
from functools import partial
from http import HTTPStatus
from typing import ClassVar, Final, TypeVar

import msgspec

from beehive import BeehiveError, Group, Message, Module, ModuleName, Operation, ResourceType, Timer, handles
from beehive.names import CLOUD_CONNECTED
from modules.apimachinery.application import (
    FOLLOW,
    FOLLOW_RESOURCE,
    FOLLOWED,
    Application,
    Progress,
    Target,
    Verb,
    application,
    message_of,
    target_of,
)
from modules.edge.metaserver.resources import find
from modules.edge.metaserver.stale_objects import FIRST_DELAY, LONGEST_DELAY, StaleObjects

_log = logging.getLogger(__name__)
T = TypeVar("T")

OPTIONAL: Final = frozenset({ResourceType.DESTINATION_RULE, ResourceType.GATEWAY, ResourceType.VIRTUAL_SERVICE})
"""Kinds that a cloud need not have; without them their collections are empty. KubeEdge's edgemesh-agent waits until it
has listed them. They are watched once the cloud has listed one object: KubeEdge's cloudcore (1.23) exits when a node
watches a kind that its API server does not serve (`NewCommonResourceEventHandler` of its dynamiccontroller)."""
FROM_WATCHES: Final = OPTIONAL | {
    ResourceType.SERVICE, ResourceType.ENDPOINTS, ResourceType.ENDPOINTSLICE, ResourceType.NAMESPACE,
}  # fmt: skip
"""The kinds that a cloud sends only to nodes that watch them."""
MOST: Final = 64
"""Watches that a cloud takes from one node."""
MOST_NAMESPACED: Final = MOST - len(FROM_WATCHES)
"""Watches of single namespaces. The others are for all namespaces: a client may read any number of namespaces, also
some that do not exist, and clients on the node cannot be told apart."""
SYNC: Final = "watchapp/sync"
"""Resource of the message that repeats all watches."""
_SECONDS: Final = 10.0
_TEMPORARY: Final = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)


class ClientWatches:
    """Reads of clients in this process, as watches by id. It outlives a restart of the module, as clients do not
    read again for it.
    """

    def __init__(self) -> None:
        self.watched: dict[str, Application] = {}
        self.unproven: dict[str, Application] = {}
        """Of kinds that the cloud has not listed yet, and need not have."""


class WatchAgent(Module):
    """The module that has the cloud watch each collection of a kind in `FROM_WATCHES` that a client of the node's API
    has read, as long as the process lives, so that the node still has these objects when it is offline. Each new
    connection repeats all watches; so does a later attempt, with growing delays, when the cloud is silent or cannot
    serve one yet.

    Args:
        node: name of this node.
        watches: of the process.
    """

    name: ClassVar[str] = ModuleName.METASERVER
    group: ClassVar[str] = Group.METASERVER

    def __init__(self, node: str, watches: ClientWatches | None = None) -> None:
        super().__init__()
        self._node = node
        kept = ClientWatches() if watches is None else watches
        self._watches, self._unproven = kept.watched, kept.unproven
        self._stale = StaleObjects(self, node)
        self._again: Timer | None = None
        """Of the next attempt."""
        self._delay = FIRST_DELAY

    def on_start(self) -> None:
        """Repeat the watches after a restart: an answer may be lost."""
        self._repeat()

    @handles(None, FOLLOW)
    def follow(self, message: Message) -> None:
        """Start to watch a collection, unless it is watched already."""
        target = message.content_as(Target)
        app = application(target, Verb.WATCH, self._node, b'{"watch":true}')
        if app.id in self._watches or app.id in self._unproven:
            return
        if not self._has_place(target):
            most = f"{MOST} watches at most, {MOST_NAMESPACED} of single namespaces"
            _log.warning("%s is not watched: a node has %s; watch all namespaces", app.key, most)
        elif is_optional(app):
            self._unproven[app.id] = app
            self._prove(app, target)
        else:
            self._watch(app)

    @handles(ResourceType.CONNECTION, Operation.CONNECT)
    def connection_changed(self, message: Message) -> None:
        """Repeat the watches on a new connection: the cloud may be another one."""
        self._delay = FIRST_DELAY
        if message.content_bytes() == CLOUD_CONNECTED.encode():
            self._repeat()
        else:
            self._cancel()

    @handles(ResourceType.REGISTRATION, source=ModuleName.EDGED)
    def node_is_registered(self, _message: Message) -> None:
        """Repeat the watches: a cloud forgets the watches of a node that registers again, as at its first start."""
        self._repeat()

    def _has_place(self, target: Target) -> bool:
        others = [target_of(app) for app in (*self._watches.values(), *self._unproven.values())]
        namespaced = sum(each is None or each.namespace != "" for each in others)
        return len(others) < MOST and not (target.namespace and namespaced >= MOST_NAMESPACED)

    def _watch(self, app: Application) -> None:
        self._watches[app.id] = app
        self.request(ModuleName.EDGEHUB, message_of(app, self.clock), _SECONDS, self._answered)

    def _prove(self, app: Application, target: Target) -> None:
        """Watch a collection if the cloud lists it; otherwise the next connection tries again."""

        def listed(answer: Message | BeehiveError) -> None:
            found = _content_of(answer, Application)
            if found is None:
                self._repeat_after_silence(answer)
                return
            if found.status != Progress.APPROVED:
                self._handle_application(found)
            elif self._unproven.pop(app.id, None) is not None:
                self._watch(app)

        listing = application(target, Verb.LIST, self._node, b'{"limit":1}')
        self.request(ModuleName.EDGEHUB, message_of(listing, self.clock), _SECONDS, listed)

    def _cancel(self) -> None:
        timer, self._again = self._again, None
        if timer is not None:
            timer.cancel()

    def _repeat_after_silence(self, answer: Message | BeehiveError) -> None:
        """Repeat all watches later, unless the cloud's answer could not be read, or edgehub has no connection."""
        if not isinstance(answer, Message):
            self._repeat_later()

    def _repeat_later(self) -> None:
        if self._again is None:
            self._again = self.after(self._delay, self._repeat)
            self._delay = min(2 * self._delay, LONGEST_DELAY)

    def _repeat(self) -> None:
        self._cancel()
        if self._watches:
            watches = dict(self._watches)
            repeated = self.message(SYNC, "null", watches, group=Group.DYNAMICCONTROLLER)
            self.request(ModuleName.EDGEHUB, repeated, _SECONDS, partial(self._repeated, watches))
        for app in self._unproven.values():
            if target := target_of(app):
                self._prove(app, target)

    def _answered(self, answer: Message | BeehiveError) -> None:
        if (app := _content_of(answer, Application)) is not None:
            self._handle_application(app)
        else:
            self._repeat_after_silence(answer)

    def _repeated(self, watches: dict[str, Application], answer: Message | BeehiveError) -> None:
        """Take the answer to repeated watches; a later one has an answer of its own."""
        if (refused := _content_of(answer, dict[str, Application])) is not None:
            for app in refused.values():
                self._handle_application(msgspec.structs.replace(app, status=Progress.REJECTED))
            for name, app in watches.items():
                if name not in refused:
                    self._followed(app)
        else:
            self._repeat_after_silence(answer)

    def _handle_application(self, app: Application) -> None:
        if app.status != Progress.APPROVED:
            why = app.reason or app.refusal.get("message") or "it did not say why"
            level = logging.INFO if is_optional(app) else logging.WARNING
            _log.log(level, "the cloud refuses the watch of %s: %s", app.key[:200], str(why)[:200])
            if app.refusal.get("code") in _TEMPORARY:
                self._repeat_later()
        else:
            self._followed(app)

    def _followed(self, app: Application) -> None:
        """Tell edgemesh that the cloud sends a collection: an object that is not in it does not exist, and ends if it
        is stored.
        """
        target = target_of(app)
        if target is None:
            return
        self._stale.end(target)
        if self.hive.members(Group.MESH):
            self.broadcast(Group.MESH, self.message(FOLLOW_RESOURCE, FOLLOWED, target))


def _content_of(answer: Message | BeehiveError, kind: type[T]) -> T | None:
    """Return what the cloud has answered; None without an answer that can be read."""
    if not isinstance(answer, Message) or answer.route.operation != Operation.APPLICATION_RESPONSE:
        return None
    try:
        return answer.content_as(kind)
    except BeehiveError as error:
        _log.warning("the cloud's answer to a watch is left out: %s", error)
        return None


def is_optional(app: Application) -> bool:
    """Return whether a cloud need not have the kind that is watched."""
    target = target_of(app)
    resource = find(target.group, target.version, target.plural) if target is not None else None
    return resource is not None and resource.token in OPTIONAL
