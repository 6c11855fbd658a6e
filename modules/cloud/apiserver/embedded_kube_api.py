"""The embedded API server, as the other modules of cloudcore reach it."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

import msgspec

from beehive.clock import Clock, Timer
from beehive.errors import BeehiveError
from beehive.hive import Hive
from beehive.message import Message
from beehive.printable import clipped
from beehive.runtime import Runtime
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.selectors import parse_selector
from modules.apimachinery.served_resources import resource_of
from modules.cloud.apiextensions.objects import in_version
from modules.cloud.apiserver.endpoints.module_caller import ModuleCaller, unanswered
from modules.cloud.apiserver.endpoints.subscriptions import WAITING, Subscriptions
from modules.cloud.apiserver.endpoints.watching import BOOKMARK_SECONDS, event_type, sent_object
from modules.cloud.client.calls import ApiCall, ApiCalls, ApiResult
from modules.cloud.client.kube_api import ApiReading, CallResponse
from modules.cloud.client.reflector.observations import (
    Bookmark,
    ListPage,
    Observation,
    ObservedEvent,
    ObservedObject,
    ReadRefusal,
    WatchEnded,
)
from modules.cloud.client.reflector.selection import PAGE_OBJECTS, ListRequest, WatchRequest
from modules.cloud.storage.object_storage import EventType
from modules.cloud.storage.watch_history import ObjectChanged, WatchQuery, WatchStart

MOST_CALLS: Final = 32
"""Calls of a message: others' requests have their turn between two messages."""
_OK, _CREATED = int(HTTPStatus.OK), int(HTTPStatus.CREATED)

_End = Callable[[CallResponse | Exception], None]


class EmbeddedKubeApi:
    """Calls, lists and watches of the module apiserver in the same process (`KubeApi`). Objects are handed over as they
    are, without JSON. The modules are administrators; a call with a node has the node's rights. The calls of a module's
    turn share a message.

    Args:
        hive: has the module.
        clock: for the bookmarks of watches.
        subscriptions: the watches of the process; None: new ones.
    """

    collects = True

    def __init__(self, hive: Hive, clock: Clock, subscriptions: Subscriptions | None = None) -> None:
        self.subscriptions = Subscriptions() if subscriptions is None else subscriptions
        """The watches of the process; the module publishes in them."""
        self._hive = hive
        self._caller = ModuleCaller(hive, clock)
        self._clock = clock
        self._calls: list[ApiCall] = []
        self._ends: list[_End] = []
        """Of the calls that wait, in their order."""

    def connect(self, _runtime: Runtime) -> "EmbeddedKubeApi":
        """Return the client for a module."""
        return EmbeddedKubeApi(self._hive, self._clock, self.subscriptions)

    def call(self, call: ApiCall, ended: _End) -> None:
        """Make a call with `send`; see `KubeApi`."""
        if call.verb == "updatestatus" or call.duplicates:
            call = _as_served(call)
        self._calls.append(call)
        self._ends.append(ended)
        if len(self._calls) >= MOST_CALLS:
            self.send()

    def send(self) -> None:
        """Make the calls that wait."""
        if self._calls:
            calls, ends = tuple(self._calls), self._ends
            self._calls, self._ends = [], []
            self._caller.begin_all(ApiCalls(calls), partial(self._answered, calls, ends))

    def _answered(self, calls: Sequence[ApiCall], ends: Sequence[_End], answer: Message | BeehiveError) -> None:
        if isinstance(answer, BeehiveError):
            refused = _response_of(ApiResult(refusal=unanswered(answer).status()))
            for ended in ends:
                ended(refused)
            return
        results: list[ApiResult | None] = answer.content_as(list)
        for call, ended, result in zip(calls, ends, results, strict=True):
            if result is None:
                self._caller.begin(call, partial(_end, ended))
            else:
                ended(_response_of(result))

    def read(self, request: ListRequest | WatchRequest, woken: Callable[[], None]) -> ApiReading:
        """Ask for a page of a list, or begin a watch; see `KubeApi`."""
        if isinstance(request, ListRequest):
            page = _Page(woken)
            self._caller.begin(_call_for_page(request), page.answered)
            return page
        watch = _Watch(request, self.subscriptions, self._clock, woken)
        query = WatchQuery(request.selection.kind.key_name, int(request.version))
        self._caller.begin_watch(query, watch.started)
        return watch

    def close(self) -> None:
        """Do nothing: a client cancels what it reads, and ignores the results of its calls."""


class _Page:
    """A page of a list (`ApiReading`)."""

    def __init__(self, woken: Callable[[], None]) -> None:
        self._woken = woken
        self._found: Observation | None = None

    def answered(self, result: ApiResult) -> None:
        """Take the result of the call."""
        self._found = _refusal(result.refusal or {}) if result.object is None else _page_of(result.object)
        self._woken()

    def receive(self) -> Sequence[Observation]:
        """Return the page, once."""
        found, self._found = self._found, None
        return () if found is None else (found,)

    def cancel(self) -> None:
        """Forget the page."""
        self._found = None


class _Watch:
    """A watch (`ApiReading`, `Subscriber`). Published changes wait here until the module takes them."""

    def __init__(
        self, request: WatchRequest, subscriptions: Subscriptions, clock: Clock, woken: Callable[[], None]
    ) -> None:
        selection = request.selection
        self.kind = selection.kind.key_name
        self._selection = selection
        self._resource = resource_of(selection.kind)
        self._api_version = self._resource.group_version
        self._selector = parse_selector(self._resource, selection.label_selector, selection.field_selector)
        self._subscriptions = subscriptions
        self._clock = clock
        self._woken = woken
        self._lock = threading.RLock()
        self._waiting: deque[ObjectChanged | Observation] = deque()
        self._before: list[ObjectChanged] | None = []
        """Changes that were published before the watch has begun; None from then on."""
        self._version = 0
        """The version of the last change but for `_newest`."""
        self._newest = ""
        """The version of the last published change; "" if `_version` has it."""
        self._timer: Timer | None = None
        self._is_over = False
        """Whether nothing more is added."""
        subscriptions.add(self)

    def started(self, start: WatchStart) -> None:
        """Take the beginning of the watch: the changes until a version, after which the published ones count."""
        with self._lock:
            published, self._before = self._before or [], None
            if start.refusal is not None:
                self._add(_refusal(start.refusal), is_last=True)
                return
            self._version = start.version
            for changed in (*start.changes, *(each for each in published if each.version > start.version)):
                self.put(changed)
            self._mark_later()

    def put(self, changed: ObjectChanged) -> None:
        """Take a change, or end the watch when too many wait."""
        with self._lock:
            if self._before is not None:
                self._before.append(changed)
            elif len(self._waiting) >= WAITING:
                self.end()
            elif not self._is_over:
                self._newest = changed.object["metadata"]["resourceVersion"]
                self._waiting.append(changed)
                self._woken()

    def end(self) -> None:
        """End the watch, as the API server does when it stops."""
        with self._lock:
            self._add(WatchEnded(), is_last=True)

    def close(self) -> None:
        """End the watch."""
        self.end()

    def receive(self) -> Sequence[Observation]:
        """Return the observations of one change or bookmark."""
        try:
            found = self._waiting.popleft()
        except IndexError:
            return ()
        if not isinstance(found, ObjectChanged):
            return (found,)
        type_, namespace = event_type(found, self._selector), self._selection.namespace
        if not type_ or namespace not in ("", found.object["metadata"].get("namespace")):
            return ()
        obj = found.object if type_ != EventType.DELETED else sent_object(found, type_)
        if self._resource.schema or obj.get("apiVersion") != self._api_version:
            obj = in_version(obj, self._resource)
        is_same, before = obj is found.object, found.old if found.is_of_status else None
        version = "" if before is None else before["metadata"]["resourceVersion"]
        return (ObservedEvent(type_, _observed(obj, found.body if is_same else b"", version)),)

    def cancel(self) -> None:
        """End the watch; nothing more is taken."""
        self._is_over = True
        self._stop()
        self._waiting.clear()

    def _add(self, found: ObjectChanged | Observation, *, is_last: bool = False) -> None:
        if self._is_over:
            return
        self._waiting.append(found)
        if is_last:
            self._is_over = True
            self._stop()
        self._woken()

    def _stop(self) -> None:
        self._subscriptions.remove(self)
        if self._timer is not None:
            self._timer.cancel()

    def _mark_later(self) -> None:
        if not self._is_over:
            self._timer = self._clock.after(BOOKMARK_SECONDS, self._mark)

    def _mark(self) -> None:
        """Report the version, as an API server does once a minute: the watch is alive."""
        with self._lock:
            if self._newest:
                self._version, self._newest = max(self._version, int(self._newest)), ""
            self._add(Bookmark(str(self._version)))
            self._mark_later()


def _end(ended: _End, result: ApiResult) -> None:
    ended(_response_of(result))


def _as_served(call: ApiCall) -> ApiCall:
    """Return a call as an API server reads it from a request."""
    subresource = call.subresource or ("status" if call.verb == "updatestatus" else "")
    verb = "update" if call.verb == "updatestatus" else call.verb
    return msgspec.structs.replace(call, verb=verb, subresource=subresource, duplicates=(), document=b"")


def _call_for_page(request: ListRequest) -> ApiCall:
    selection = request.selection
    options: JsonObject = {
        "limit": PAGE_OBJECTS if request.paged else 0,
        "continue": request.token,
        "labelSelector": selection.label_selector,
        "fieldSelector": selection.field_selector,
    }
    return ApiCall(
        verb="list",
        api_version=selection.kind.api_version,
        plural=selection.kind.plural,
        namespace=selection.namespace,
        options=options,
    )


def _response_of(result: ApiResult) -> CallResponse:
    if result.refusal is None:
        return CallResponse(_CREATED if result.created else _OK, result)
    return CallResponse(int(result.refusal["code"]), result, _retry_after(result.refusal))


def _page_of(found: JsonObject) -> ListPage:
    metadata, items = found["metadata"], found["items"]
    return ListPage(metadata["resourceVersion"], metadata.get("continue") or "", [_observed(each) for each in items])


def _observed(obj: JsonObject, body: bytes = b"", status_of: str = "") -> ObservedObject:
    metadata = obj["metadata"]
    uid, version = str(metadata.get("uid") or ""), str(metadata.get("resourceVersion") or "")
    return ObservedObject(metadata.get("namespace") or "", metadata["name"], uid, version, body, obj, status_of)


def _refusal(status: JsonObject) -> ReadRefusal:
    return ReadRefusal(int(status.get("code") or 0), clipped(str(status.get("message") or "")), _retry_after(status))


def _retry_after(status: JsonObject) -> float:
    return float((status.get("details") or {}).get("retryAfterSeconds") or 0)
