"""The transport over HTTP/1.1: one thread for all connections to an API server."""

import logging
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from modules.cloud.client.credentials.source import RequestCredentials
from modules.cloud.client.http.connection import HttpConnection, RequestHead
from modules.cloud.client.http.exchange import HttpExchange
from modules.cloud.client.http.network_stream import NetworkStream, SocketAddress
from modules.cloud.client.http.pool import ORDINARY, ConnectionPool
from modules.cloud.client.http.resolver import Background, Resolver
from modules.cloud.client.http.selector_thread import SelectorThread
from modules.cloud.client.http.server_url import ServerUrl, server_url
from modules.cloud.client.http.tls import client_context
from modules.cloud.client.kubeconfig.model import ClusterEntry, Selected, UserEntry
from modules.cloud.client.kubeconfig.reading import KubeconfigError
from modules.cloud.client.transport import ApiRequest
from modules.cloud.client.transport_errors import (
    KubeConnectError,
    KubeCredentialsError,
    KubeCutError,
    KubeDeadlineError,
    KubeProtocolError,
    KubeTransportError,
)

if TYPE_CHECKING:
    from beehive.clock import Clock, Timer
    from modules.cloud.client.credentials.source import CredentialSource
    from modules.cloud.client.transport import ResponseListener

CONNECT_SECONDS: Final = 10.0
"""Timeout for one address: TCP, the proxy's tunnel and TLS."""

Attempt = Callable[[HttpConnection, Callable[[], None]], None]
"""Calls a function of a connection, whose error ends the connection."""
After = Callable[[float, Callable[[], None]], "Timer"]
"""Calls a function on the transport's thread after some seconds."""

_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_TOKEN: Final = frozenset("!#$&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""Characters of a header's name (RFC 9110 §5.6.2) that stand for themselves."""


class TlsContexts:
    """The last context: connections are of the same user when theirs is the same object.

    Args:
        cluster: authorities to trust.
        server: an https server, or one without TLS.
    """

    def __init__(self, cluster: ClusterEntry, server: ServerUrl) -> None:
        self._cluster = cluster
        self._server = server
        self._pair: tuple[bytes, bytes] | None = None
        self._context: ssl.SSLContext | None = None

    def context(self, credentials: RequestCredentials) -> ssl.SSLContext | None:
        """Return the context for requests with these credentials; None without TLS.

        Raises:
            KubeTlsError: an authority, certificate or key cannot be read.
        """
        if not self._server.is_https:
            return None
        pair = credentials.certificate, credentials.key
        if pair != self._pair:
            self._context = client_context(self._cluster, credentials, self._server.text)
            self._pair = pair
        return self._context


_log = logging.getLogger(__name__)


class Connector:
    """A connector that opens connections, and remembers unfinished ones; for the transport's thread only.

    Args:
        server: the server to connect to.
        name: the name that its certificate must have.
        resolver: finds the addresses.
        attempt: carries on with a connection.
        after: sets timers.
    """

    def __init__(self, server: ServerUrl, name: str, resolver: Resolver, attempt: Attempt, after: After) -> None:
        self._server = server
        self._name = name
        self._resolver = resolver
        self._attempt = attempt
        self._after = after
        self._timers: dict[HttpConnection, Timer] = {}

    def new(self, context: ssl.SSLContext | None) -> HttpConnection:
        """Return a connection that is not opened yet."""
        return HttpConnection(NetworkStream(self._server, context, self._name), context, self._server.text)

    def open(self, connection: HttpConnection) -> None:
        """Look up the addresses and connect."""
        self._resolver.resolve(
            lambda found, why: self._attempt(connection, lambda: self._connect(connection, found, why))
        )

    def check(self, connection: HttpConnection) -> None:
        """Forget the deadline of a connection that is open, or closed."""
        if connection.network.is_open or connection.is_closed:
            timer = self._timers.pop(connection, None)
            if timer is not None:
                timer.cancel()

    def _connect(self, connection: HttpConnection, found: list[SocketAddress], why: str) -> None:
        if why:
            raise KubeConnectError("cannot connect to the API server", self._server.text, why)
        self._limit(connection)
        connection.network.connect(found)

    def _limit(self, connection: HttpConnection) -> None:
        self._timers[connection] = self._after(
            CONNECT_SECONDS, lambda: self._attempt(connection, lambda: self._late(connection))
        )

    def _late(self, connection: HttpConnection) -> None:
        if not connection.network.is_open:
            self._limit(connection)
            why = f"no answer within {CONNECT_SECONDS:g} s: check the server's URL, routes and firewalls"
            connection.network.try_next(why)


class RequestHeads:
    """The heads of the requests to one server as one user.

    Args:
        server: where the requests go.
        selected: with the user to impersonate.
        agent: the value of User-Agent.

    Raises:
        KubeconfigError: groups, a uid or extras are to be impersonated without a user.
    """

    def __init__(self, server: ServerUrl, selected: Selected, agent: str) -> None:
        self._server = server
        self._always = [("Host", server.host_header), ("User-Agent", agent)]
        self._impersonation = _impersonation(selected)
        if server.proxy and server.proxy.authorization and not server.is_https:
            self._always.append(("Proxy-Authorization", server.proxy.authorization))

    def head(self, request: ApiRequest, credentials: RequestCredentials) -> RequestHead:
        """Return a request's head. The user whom a request impersonates takes the place of the kubeconfig's: with two,
        the server would take the first, and its rights.
        """
        names = {name.lower() for name, _ in request.headers}
        own = [] if "impersonate-user" in names else self._impersonation
        headers = [*self._always, *own, *request.headers]
        if "accept" not in names:
            headers.append(("Accept", "application/json"))
        if credentials.authorization:
            headers.append(("Authorization", credentials.authorization))
        if request.body or request.method in _WITH_BODY:
            headers.append(("Content-Length", str(len(request.body))))
        return RequestHead(request.method, self._server.target_prefix + request.path, headers)


def _impersonation(selected: Selected) -> list[tuple[str, str]]:
    user: UserEntry = selected.user
    extra = user.as_user_extra or {}
    if not user.as_user:
        if user.as_uid or user.as_groups or extra:
            raise KubeconfigError(selected.where, "as-uid, as-groups and as-user-extra need a user: set as")
        return []
    headers = [("Impersonate-User", user.as_user)]
    headers += [("Impersonate-Uid", user.as_uid)] if user.as_uid else []
    headers += [("Impersonate-Group", group) for group in user.as_groups or ()]
    return headers + [
        (f"Impersonate-Extra-{_escaped(key)}", value) for key, values in extra.items() for value in values
    ]


def _escaped(key: str) -> str:
    return "".join(chr(byte) if chr(byte) in _TOKEN else f"%{byte:02X}" for byte in key.encode())


class HttpTransport:
    """A `KubeTransport` on a selector. Its thread starts with the first request. `http_transport` makes one.

    An ordinary request waits for one of a few connections, a stream has one of its own. The thread reads, decodes and
    calls listeners; functions that may wait (look-ups of names, credential plug-ins) run on threads of `background`.

    Args:
        selected: the server, and the user to impersonate.
        source: the credentials; closed with the transport.
        clock: for deadlines.
        background: calls a function on a thread of its own.
        agent: the value of User-Agent: `cloudcore/VERSION`.
        connections: at most, for ordinary requests.

    Raises:
        KubeconfigError: the kubeconfig's server, proxy or impersonation cannot be used.
    """

    def __init__(
        self,
        selected: "Selected",
        source: "CredentialSource",
        clock: "Clock",
        background: Background,
        *,
        agent: str = "cloudcore",
        connections: int = ORDINARY,
    ) -> None:
        self._server = server = server_url(selected)
        self._heads = RequestHeads(server, selected, agent)
        self._tls = TlsContexts(selected.cluster, server)
        self._source = source
        self._clock = clock
        self._background = background
        self._thread: SelectorThread[HttpConnection] = SelectorThread("kube-client", self)
        resolver = Resolver(*server.peer, background, self._post)
        name = selected.cluster.tls_server_name or server.host
        self._connector = Connector(server, name, resolver, self._attempt, self._after)
        self._pool: ConnectionPool[HttpExchange, HttpConnection] = ConnectionPool(connections)
        self._told: deque[Callable[[], None]] = deque()
        """Calls of listeners, made at the end of the turn: the threads that they wake do not meet this one, which lets
        others run at each use of a socket.
        """
        self._idle_timer: Timer | None = None
        self._is_fetching = False

    def start(self, request: "ApiRequest", listener: "ResponseListener") -> HttpExchange:
        """Send a request as soon as there is a connection; after `close` the listener gets an error immediately."""
        exchange = HttpExchange(request, listener, self)
        if not self._thread.post(lambda: self._admit(exchange)):
            exchange.fail(self._closed())
            self._notify_all()
        return exchange

    def close(self) -> None:
        """End all exchanges with an error, and the thread; not to be called by a listener."""
        self._source.close()
        self._thread.close()

    def end_all(self) -> None:
        """End all exchanges; on the transport's thread, which ends."""
        exchanges = self._pool.waiting()
        for connection in self._pool.connections():
            if connection.exchange is not None:
                exchanges.append(connection.exchange)
            self._drop(connection)
        for exchange in exchanges:
            self._fail(exchange, self._closed())
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._notify_all()

    def end_turn(self) -> None:
        """Give connections to exchanges, and call listeners; on the transport's thread."""
        self._dispatch()
        self._notify_all()

    def _notify_all(self) -> None:
        with suppress(IndexError):  # after the end of the thread, others call this
            while True:
                self._told.popleft()()

    def _closed(self) -> KubeTransportError:
        return KubeCutError("no response of the API server", self._server.text, "the client was closed")

    def _post(self, call: Callable[[], None]) -> None:
        self._thread.post(call)

    def _after(self, seconds: float, call: Callable[[], None]) -> "Timer":
        return self._clock.after(seconds, lambda: self._post(call))

    def _admit(self, exchange: HttpExchange) -> None:
        if not exchange.is_done:
            exchange.timers.append(self._after(exchange.request.timeout, lambda: self._late(exchange)))
            self._pool.put(exchange)

    @property
    def server(self) -> str:
        """The server's URL, for errors."""
        return self._server.text

    def refuse(self, credentials: RequestCredentials) -> bool:
        """Note credentials that were answered with 401; return whether there may be others."""
        return self._source.refuse(credentials)

    def notify(self, call: Callable[[], None]) -> None:
        """Make a call of a listener at the end of the turn."""
        self._told.append(call)

    def on_changed(self, exchange: HttpExchange) -> None:
        """Note that an exchange was cancelled or resumed; on any thread."""
        self._post(lambda: self._changed(exchange))

    def _changed(self, exchange: HttpExchange) -> None:
        """Go on after an exchange was cancelled or resumed."""
        connection = self._connection_of(exchange)
        if exchange.is_cancelled:
            exchange.drop()
            if connection is not None:
                self._drop(connection)
        elif connection is not None:
            self._attempt(connection, connection.deliver)

    def _late(self, exchange: HttpExchange) -> None:
        if not (exchange.request.stream and exchange.has_head):
            why = f"{exchange.request.timeout:g} s have passed: is the server overloaded, or the network slow?"
            self._abort(exchange, KubeDeadlineError("no response of the API server in time", self._server.text, why))

    def _check_silence(self, exchange: HttpExchange) -> None:
        if exchange.is_done:
            return
        now, silence = self._clock.monotonic(), exchange.request.silence
        if exchange.is_paused:
            exchange.heard_at = now
        left = exchange.heard_at + silence - now
        if left > 0:
            exchange.limit(self._after(left, lambda: self._check_silence(exchange)))
            return
        why = f"not a byte came for {silence:g} s: the connection is taken for broken"
        self._abort(exchange, KubeDeadlineError("a stream of the API server is silent", self._server.text, why))

    def _abort(self, exchange: HttpExchange, error: KubeTransportError) -> None:
        """End an exchange from this side, wherever it is."""
        connection = self._connection_of(exchange)
        if connection is not None:
            self._drop(connection)
        self._fail(exchange, error)

    def _fail(self, exchange: HttpExchange, error: KubeTransportError) -> None:
        is_unknown = exchange.is_sent and not exchange.is_safe and not isinstance(error, KubeConnectError)
        exchange.fail(error.unanswered() if is_unknown else error)

    def _connection_of(self, exchange: HttpExchange) -> HttpConnection | None:
        return next((each for each in self._pool.connections() if each.exchange is exchange), None)

    def _dispatch(self) -> None:
        """Give connections to exchanges that wait, as far as there are any, and credentials."""
        while not self._is_fetching and (exchange := self._pool.first()) is not None:
            try:
                credentials = self._source.current()
                if credentials is None:
                    self._background(self._fetch, "kube-client/credentials")
                    self._is_fetching = True
                    return
                context = self._tls.context(credentials)
            except Exception as error:  # noqa: BLE001 - the listener gets it, and the others are served
                self._pool.admit(exchange)
                exchange.fail(self._known(error))
                continue
            self._pool.admit(exchange)
            exchange.credentials = credentials
            self._carry(exchange, credentials, context)

    def _carry(self, exchange: HttpExchange, credentials: "RequestCredentials", context: ssl.SSLContext | None) -> None:
        connection = self._usable(exchange, context)
        is_new = connection is None
        if connection is None:
            connection = self._connector.new(context)
        self._pool.use(connection, exchange)
        head = self._heads.head(exchange.request, credentials)
        self._attempt(connection, lambda: connection.carry(exchange, head))
        if is_new and not connection.is_closed:
            self._connector.open(connection)

    def _usable(self, exchange: HttpExchange, context: ssl.SSLContext | None) -> HttpConnection | None:
        """Return a kept connection of the same user; close the connections of other users. A connection that the server
        has closed is not kept: the events of idle connections come before the requests of a turn.
        """
        while not exchange.is_repeated and (idle := self._pool.idle()) is not None:
            if idle.context is context:
                return idle
            self._drop(idle)
        return None

    def _fetch(self) -> None:
        """Fetch credentials; on a thread of its own."""
        error: KubeCredentialsError | None = None
        try:
            self._source.fetch()
        except KubeCredentialsError as failure:
            error = failure
        except Exception:  # noqa: BLE001 - whatever fails, the requests must not wait for ever
            _log.exception("credentials could not be fetched")
            error = KubeCredentialsError("cannot get credentials for the API server", self._server.text, "see the log")
        self._post(lambda: self._fetched(error))

    def _fetched(self, error: KubeCredentialsError | None) -> None:
        self._is_fetching = False
        if error is not None:
            for exchange in self._pool.waiting():
                exchange.fail(error)

    def on_socket(self, connection: HttpConnection, happened: int) -> None:
        """Take the events of a connection's socket; on the transport's thread."""
        self._attempt(connection, lambda: connection.on_event(happened))

    def _attempt(self, connection: HttpConnection, call: Callable[[], None]) -> None:
        """Go on with a connection; any error ends it."""
        if connection.is_closed:
            return
        try:
            call()
        except Exception as error:  # noqa: BLE001 - a failure of one connection must not end the others
            self._broken(connection, self._known(error))
        else:
            self._settle(connection)

    def _known(self, error: Exception) -> KubeTransportError:
        if isinstance(error, KubeTransportError):
            return error
        _log.error("a request to %s failed", self._server.text, exc_info=error)
        return KubeProtocolError("no response of the API server", self._server.text, "the client failed: see the log")

    def _settle(self, connection: HttpConnection) -> None:
        """Take the next step for a connection, by its state and its exchange's."""
        self._connector.check(connection)
        exchange = connection.exchange
        if exchange is None:
            pass
        elif connection.is_complete:
            self._complete(connection, exchange)
        elif exchange.is_cancelled:
            self._changed(exchange)
        elif exchange.request.silence > 0 and exchange.request.stream and exchange.has_head:
            self._observe_answer(exchange)
        if not connection.is_closed:
            self._thread.watch(connection, connection.network.socket, connection.wanted)

    def _observe_answer(self, exchange: HttpExchange) -> None:
        exchange.heard_at = self._clock.monotonic()
        if not exchange.is_timed:
            exchange.is_timed = True
            self._check_silence(exchange)

    def _complete(self, connection: HttpConnection, exchange: HttpExchange) -> None:
        """Keep a connection whose response has ended, if it can carry another request."""
        if connection.release():
            surplus = self._pool.keep(connection, self._clock.monotonic())
            if surplus is not None:
                self._drop(surplus)
            self._limit_idle()
        else:
            self._drop(connection)
        if exchange.is_withheld and not exchange.is_done:
            exchange.is_renewed = True
            exchange.begin_again()
            self._pool.put_first(exchange)

    def _limit_idle(self) -> None:
        until = self._pool.idle_until()
        if self._idle_timer is None and until is not None:
            self._idle_timer = self._after(until - self._clock.monotonic(), self._expire_idle)

    def _expire_idle(self) -> None:
        self._idle_timer = None
        for connection in self._pool.expire(self._clock.monotonic()):
            self._drop(connection)
        self._limit_idle()

    def _broken(self, connection: HttpConnection, error: KubeTransportError) -> None:
        """Drop a connection; repeat its request, if that is safe, when the server had closed it before."""
        exchange = connection.exchange
        was_stale = connection.is_kept and not connection.has_answered and isinstance(error, KubeCutError)
        self._drop(connection)
        if exchange is None or exchange.is_done:
            return
        if was_stale and exchange.is_safe and not exchange.is_repeated:
            exchange.is_repeated = True
            exchange.begin_again()
            self._pool.put_first(exchange)
        else:
            self._fail(exchange, error)

    def _drop(self, connection: HttpConnection) -> None:
        self._pool.forget(connection)
        self._thread.watch(connection, None, 0)
        connection.close()
        self._connector.check(connection)
