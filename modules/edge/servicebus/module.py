"""The module servicebus: HTTP between the cloud's rules and applications of the node."""

import logging
import re
import ssl
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec

from beehive import Group, Hive, Message, Module, ModuleName, Operation, ResourceType, Source, handles
from beehive.bounded_calls import BoundedCalls
from beehive.clock import Clock, Timer
from beehive.errors import BeehiveError
from beehive.http.browser_guard import BrowserGuard
from beehive.http.call import CallFailedError, HttpCall, perform
from beehive.http.forwarding import ForwardedResponse, answer_to, is_call, refusal
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from beehive.sockets.ports import ListenError
from beehive.thread_requests import ThreadRequests
from metamanager.client import AsyncMetaClient, CallError, NotFoundError
from modules.edge.servicebus.allowed_urls import MOST_URLS, StoredUrls, is_url, merged, read_urls
from modules.edge.servicebus.application_calls import (
    APPLICATION_SECONDS,
    MOST_BODY,
    UncallableError,
    answer_of,
    call_of,
    failure,
)
from modules.edge.servicebus.local_service import MAX_BODY, CloudError, LocalService
from modules.edge.servicebus.method_calls import MethodCall, fault_of, method_call_of, model_of

_log = logging.getLogger(__name__)

PARALLEL: Final = 8
"""Largest number of concurrent calls to applications."""
OF_APPLICATION: Final = 6
"""Of them to one application: a slow one leaves room for the others."""

WAITING: Final = 64
"""Largest number of waiting calls, half of them for one application; further ones are answered with 503."""

MOST_BYTES: Final = 32 * 1024 * 1024
"""Bytes of the bodies of all these calls together."""

_ROW: Final = ("", "urls")
_OF_KUBEEDGE: Final = ("", "kubeedge")
"""metamanager's copy of KubeEdge's table."""
_AGAIN_AFTER: Final = 5.0
_SLASHES: Final = re.compile("/+")


class ServiceBusSettings(msgspec.Struct, frozen=True):
    """Settings of servicebus."""

    node: str
    address: str = "127.0.0.1"
    """IP address of the local server."""
    port: int = 9060
    """Port of the local server; 0 takes a free one."""
    timeout: float = 60.0
    """Seconds to wait for the cloud's answer to an application."""
    certificate: Path | None = None
    """Certificate and key of the local server (PEM); None serves plain HTTP."""
    key: Path | None = None
    own_ports: frozenset[int] = frozenset()
    """TCP ports of edgecore, which the cloud cannot have called: programs of this machine need no credentials there."""


class ServiceBus(Module):
    """The module that calls applications of the node for the cloud, and the cloud for applications.

    Each call of the cloud is answered, even if none could be made. The local server starts when the cloud allows the
    first URL.

    Args:
        settings: of servicebus.
        bound: holds the port of the local server once it listens; a restarted module listens on it again.
    """

    name = ModuleName.SERVICEBUS
    group = Group.BUS

    def __init__(self, settings: ServiceBusSettings, bound: list[int] | None = None) -> None:
        super().__init__()
        self._settings = settings
        self._bound = [] if bound is None else bound
        self._calls = BoundedCalls(self, PARALLEL, WAITING, OF_APPLICATION)
        self._size = 0
        self._meta = AsyncMetaClient(self)
        self._urls: list[str] = []
        self._kubeedge: list[str] = []
        """KubeEdge's table, as it was taken over."""
        self._are_read = False
        self._earlier: dict[str, bool] = {}
        """URLs that the cloud has allowed or forbidden before the stored ones were read, in the order of the last
        messages about them.
        """
        self.allowed: frozenset[str] = frozenset()
        """The allowed URLs, as the threads of the local server read them."""
        self._requests = ThreadRequests(self)
        self._server: HttpServer | None = None
        self._again: Timer | None = None
        """The next try to listen."""
        self._keeping: Timer | None = None
        """The next try to store the URLs."""

    def on_start(self) -> None:
        """Read the stored URLs."""
        self._read_urls()

    def on_end(self) -> None:
        """Close the local server; a restarted module opens it again."""
        server, self._server = self._server, None
        self._requests.end_all("servicebus is stopping")
        if server is not None:
            server.stop()

    def give_up(self, message: Message) -> None:
        """Answer a call that was under way."""
        why = "servicebus has failed; whether the application was called is not known"
        self._answer(message, refusal(HTTPStatus.BAD_GATEWAY, why))

    @classmethod
    def turn_away(cls, hive: Hive, message: Message) -> None:
        """Answer a call that has found no room."""
        if is_call(message):
            response = refusal(HTTPStatus.SERVICE_UNAVAILABLE, "servicebus has many calls of applications to handle")
            hive.broadcast(Group.HUB, answer_to(message, response, hive.clock))

    @handles(None, source=Source.ROUTER_SERVICEBUS)
    @handles(None, source=Source.ROUTER_REST)
    def call(self, message: Message) -> None:
        """Call an application, and send its response to the cloud. A method of a mapper is not called with a value that
        the device's model forbids.
        """
        self.owe(message)
        try:
            call = call_of(message)
        except UncallableError as error:
            self._answer(message, refusal(HTTPStatus.BAD_REQUEST, error.why))
            return
        if call.port in self._settings.own_ports or call.port in self._bound:
            self._answer(
                message, refusal(HTTPStatus.FORBIDDEN, f"port {call.port} is edgecore's own: no Rule calls it")
            )
            return
        method = method_call_of(call.target)
        if method is None:
            self._call(message, call)
        else:
            self._check(method, partial(self._checked, message, call))

    def _check(self, method: MethodCall, done: Callable[[str], None]) -> None:
        """Find out why a device's model forbids a value; "" if it does not, or is not here."""

        def read(result: bytes | CallError, reads: Callable[[bytes], str], then: Callable[[str], None]) -> None:
            if isinstance(result, CallError):
                done("" if isinstance(result, NotFoundError) else f"the device's model is not known: {result}")
                return
            try:
                found = reads(result)
            except (msgspec.DecodeError, UnicodeError) as error:
                done(f"the device's model cannot be read: {error}")
                return
            then(found)

        def check(name: str) -> None:
            if not name:
                done("")
                return
            find = partial(read, reads=partial(fault_of, method), then=done)
            self._meta.get(ResourceType.DEVICE_MODEL, method.namespace, name, then=find)

        find = partial(read, reads=model_of, then=check)
        self._meta.get(ResourceType.DEVICE, method.namespace, method.device, then=find)

    def _checked(self, message: Message, call: HttpCall, fault: str) -> None:
        if fault:
            self._answer(message, refusal(HTTPStatus.BAD_REQUEST, fault))
        else:
            self._call(message, call)

    def _call(self, message: Message, call: HttpCall) -> None:
        size = len(call.body)

        def answer(response: ForwardedResponse) -> None:
            self._size -= size
            self._answer(message, response)

        has_room = self._size + size <= MOST_BYTES
        if has_room and self._calls.submit(partial(_perform, call, self.clock), answer, f"{call.host}:{call.port}"):
            self._size += size
        else:
            why = f"{PARALLEL} calls of applications are under way, or {OF_APPLICATION} of this one; many wait"
            self._answer(message, refusal(HTTPStatus.SERVICE_UNAVAILABLE, why))

    @handles(None, Operation.START, source=Source.ROUTER_SERVICEBUS)
    def allow(self, message: Message) -> None:
        """Allow applications to call a URL of the cloud, now and after each restart."""
        self._change(message.route.resource, allowed=True)

    @handles(None, Operation.STOP, source=Source.ROUTER_SERVICEBUS)
    def forbid(self, message: Message) -> None:
        """Forbid applications to call a URL of the cloud."""
        self._change(message.route.resource, allowed=False)

    @handles(ResourceType.CONNECTION, Operation.CONNECT, source=Source.EDGEHUB)
    def connection_changed(self, _message: Message) -> None:
        """Ignore edgehub's connection event: the cloud's router sends the allowed URLs again."""

    @handles()
    def ignore(self, message: Message) -> None:
        """Ignore messages for eventbus, the other module of the group."""
        _log.debug("not for servicebus: %s %s", message.route.operation, message.route.resource[:200])

    def call_cloud(self, url: str, body: bytes) -> str:
        """Return the cloud's answer, on the thread of an application's connection. Raise CloudError without one."""
        request = self.message(url, Operation.UPLOAD, body, group=Group.USER)
        try:
            answer = self._requests.ask(ModuleName.EDGEHUB, request, self._settings.timeout)
            text = answer.content_bytes().decode(errors="replace")
        except BeehiveError as error:
            raise CloudError(f"the cloud has not answered: {error}") from error
        if answer.route.operation == Operation.ERROR:
            raise CloudError(text)
        return text

    def _answer(self, request: Message, response: ForwardedResponse) -> None:
        self.send(ModuleName.EDGEHUB, answer_to(request, response, self.clock))
        self.settle(request)

    def _read_urls(self) -> None:
        rows: list[StoredUrls] = []

        def read(result: bytes | CallError) -> None:
            if isinstance(result, CallError) and not isinstance(result, NotFoundError):
                _log.error("the URLs of applications are not read, and are asked for again: %s", result)
                self.after(_AGAIN_AFTER, self._read_urls)
                return
            rows.append(StoredUrls() if isinstance(result, CallError) else read_urls(result))
            if len(rows) == 1:
                self._meta.get(ResourceType.TARGET_URLS, *_OF_KUBEEDGE, then=read)
            else:
                self._begin(*rows)

        self._meta.get(ResourceType.TARGET_URLS, *_ROW, then=read)

    def _begin(self, own: StoredUrls, kubeedge: StoredUrls) -> None:
        found = merged(own, kubeedge.urls)
        self._urls, self._kubeedge = found.urls, found.kubeedge
        self._are_read = True
        if found != own:
            _log.info("%d URLs of applications are allowed, with those of KubeEdge's edgecore", len(found.urls))
            self._keep_urls()
        self._apply()
        earlier, self._earlier = self._earlier, {}
        for url, allowed in earlier.items():
            self._change(url, allowed=allowed)

    def _change(self, url: str, *, allowed: bool) -> None:
        if not self._are_read:
            self._earlier.pop(url, None)
            if len(self._earlier) < MOST_URLS:
                self._earlier[url] = allowed
            return
        if allowed and url not in self._urls:
            if not is_url(url) or len(self._urls) >= MOST_URLS:
                _log.warning("%r is not allowed: it is no URL, or there are %d already", url[:200], MOST_URLS)
                return
            self._urls.append(url)
        elif not allowed:
            kept = _without(self._urls, url)
            if kept == self._urls:
                return
            self._urls = kept
        else:
            return
        self._keep_urls()
        self._apply()

    def _keep_urls(self) -> None:
        """Store the URLs, and try that again if it fails: what the cloud sends again is no change here."""
        again, self._keeping = self._keeping, None
        if again is not None:
            again.cancel()

        def kept(result: bytes | CallError | None) -> None:
            if isinstance(result, CallError):
                _log.error("the URLs of applications are not stored, and are stored later: %s", result)
                self._keeping = self._keeping or self.after(_AGAIN_AFTER, self._keep_urls)

        row = msgspec.json.encode(StoredUrls(self._urls, self._kubeedge))
        self._meta.update(ResourceType.TARGET_URLS, *_ROW, row, then=kept)

    def _apply(self) -> None:
        self.allowed = frozenset(self._urls)
        if self.allowed and self._server is None and self._again is None:
            self._listen()

    def _listen_again(self) -> None:
        self._again = None
        self._apply()

    def _listen(self) -> None:
        settings = self._settings
        port = self._bound[0] if self._bound else settings.port
        service = LocalService(self)
        try:
            context = _context(settings)
            listening = listen_tcp(settings.address, port, "modules.serviceBus.port")
        except (ListenError, OSError) as error:
            _log.error("applications cannot call the cloud; the next try is in %g s: %s", _AGAIN_AFTER, error)
            self._again = self.after(_AGAIN_AFTER, self._listen_again)
            return
        guarded = BrowserGuard(service, [settings.node])
        server = HttpServer(listening, guarded, self.clock, max_body=MAX_BODY, context=context)
        self._server = server
        self._bound[:] = [server.port]
        server.start()
        _log.info("applications call the cloud at %s:%d", settings.address, server.port)


def _perform(call: HttpCall, clock: Clock) -> ForwardedResponse:
    try:
        return answer_of(perform(call, clock, seconds=APPLICATION_SECONDS, most_bytes=MOST_BODY))
    except CallFailedError as error:
        return failure(error)


def _context(settings: ServiceBusSettings) -> ssl.SSLContext | None:
    if settings.certificate is None or settings.key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings.certificate, settings.key)
    return context


def _without(urls: list[str], gone: str) -> list[str]:
    """Return the URLs without one. KubeEdge's cloud writes `http:/host` in the message that ends a URL."""
    exact = [url for url in urls if url != gone]
    return exact if len(exact) < len(urls) else [url for url in urls if _SLASHES.sub("/", url) != gone]
