"""Calls of nodes that are connected to other cloudcores: passed on, once, to the router of that cloudcore."""

import socket
import ssl
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from beehive.bounded_calls import BoundedCalls
from beehive.clock import Clock
from beehive.http.call import CallFailedError, HttpCall, HttpReply, Secured, perform
from beehive.module import Module
from beehive.on_failure import on_failure
from beehive.sockets import dialling
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.router.rest_service import SECONDS_HEADER, RestAnswer, RestCall, own_response

PARALLEL: Final = 32
"""Calls at a time: half of the connections of a router, so that two that call each other leave room for callers."""
_MOST_BODY: Final = 16 * 1024 * 1024
"""Bytes of a response: a node's largest message."""
_MARGIN: Final = 5.0
"""Seconds that another cloudcore's answer about a node's silence may take longer."""

NO_ROUTER: Final = "it has not said where its router is: --router-listen, --router-advertise-address"
"""Advice about a cloudcore."""
WITHOUT_PROOF: Final = "with --tls, --router-listen and one authority, cloudcores"
"""Begins an advice for a cloudcore that passes nothing on."""
_TCP: Final = (
    (socket.TCP_NODELAY, 1), (socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3),
)  # fmt: skip
"""Options of a connection that may be silent for long: it ends a minute after the other machine."""

Outcome = HttpReply | CallFailedError


class OtherCloudcores:
    """The routers of other cloudcores, as their Leases name them, and how this one proves to them that it is one.

    Both sides verify each other by the authority of the nodes' certificates: this one shows a cloudcore's certificate,
    the other one has to have the cloud's name.

    Args:
        known: names them, and learns where this one is.
        context: returns the TLS context; may raise OSError.
        name: that the cloud has in its servers' certificate.
        address: of this cloudcore's router, for the others; "" if they cannot reach it.
    """

    def __init__(
        self, known: KnownCloudcores, context: Callable[[], ssl.SSLContext], name: str, address: str = ""
    ) -> None:
        self._known = known
        self._context = context
        self._name = name
        self._address = address

    def announce(self, port: int) -> None:
        """Tell the others the port of this one's router."""
        if self._address:
            host = f"[{self._address}]" if ":" in self._address else self._address
            self._known.own_router = f"{host}:{port}"

    def router_of(self, identity: str) -> tuple[str, int] | None:
        """Return host and port of another cloudcore's router; None if it has named none."""
        try:
            split = urlsplit(f"//{self._known.routers.get(identity, '')}")
            return (split.hostname, split.port) if split.hostname and split.port else None
        except ValueError:
            return None

    def ask(self, call: HttpCall, clock: Clock, seconds: float) -> Outcome:
        """Return a router's response to a call; blocks."""
        try:
            secured = Secured(self._context(), self._name)
            return perform(call, clock, seconds=seconds, most_bytes=_MOST_BODY, secured=secured)
        except CallFailedError as error:
            return error
        except OSError as error:
            return CallFailedError(str(call), str(error), sent=False)

    def connect(self, identity: str, clock: Clock, seconds: float) -> ssl.SSLSocket:
        """Return a connection to another cloudcore's router, which has proved that it is the cloud's; blocks.

        Args:
            identity: of the cloudcore.
            clock: for the time that is left.
            seconds: for all addresses of its host, and then for TLS.

        Raises:
            OSError: it cannot be reached, is not the cloud, or has not said where its router is.
        """
        router = self.router_of(identity)
        if router is None:
            raise OSError(NO_ROUTER)
        context = self._context()
        plain = dialling.connect(*router, clock, seconds)
        with on_failure(plain.close):
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _TCP:
                plain.setsockopt(socket.IPPROTO_TCP, option, value)
            return context.wrap_socket(plain, server_hostname=self._name, suppress_ragged_eofs=False)


class PassedCalls:
    """Calls to nodes that are not connected to this cloudcore: requests are passed on, a few at a time.

    Args:
        module: the router.
        others: None when there can be none, or without TLS.
    """

    def __init__(self, module: Module, others: OtherCloudcores | None) -> None:
        self._module = module
        self._others = others
        self._calls = BoundedCalls(module, PARALLEL, 0)

    def serve(self, call: RestCall, holder: str, seconds: float, answered: Callable[[RestAnswer], None]) -> None:
        """Pass a request on, unless another cloudcore has passed it on to this one.

        Args:
            call: the request.
            holder: the identity of the cloudcore that has the node; "" if no live one has it.
            seconds: until the caller gets an answer.
            answered: called with the other cloudcore's answer, or with an error of this one.
        """
        if not holder:
            hint = "try again later"
        elif call.seconds is not None:
            hint = f"it has just connected to cloudcore {holder}: try again soon"
        else:
            obstacle = self._pass_on(call, holder, seconds, answered)
            if not obstacle:
                return
            hint = f"it is connected to cloudcore {holder}: {obstacle}"
        text = f"node {call.path.node} is not connected to this cloudcore; {hint}"
        answered(own_response(HTTPStatus.SERVICE_UNAVAILABLE, text))

    def _pass_on(self, call: RestCall, holder: str, seconds: float, answered: Callable[[RestAnswer], None]) -> str:
        """Pass a request on and return ""; or return advice for the caller."""
        if self._others is None:
            return f"call that one ({WITHOUT_PROOF} pass calls on)"
        router = self._others.router_of(holder)
        if router is None:
            return f"call that one ({NO_ROUTER})"
        asked = passed_on_call(call, *router, seconds)
        work = partial(self._others.ask, asked, self._module.clock, seconds + _MARGIN)
        taken = self._calls.submit(work, lambda outcome: answered(answer_of(outcome, holder)))
        return "" if taken else f"{PARALLEL} calls wait for other ones already, try again soon"


def passed_on_call(call: RestCall, host: str, port: int, seconds: float) -> HttpCall:
    """Return a caller's request as the other cloudcore gets it: without the caller's credentials."""
    headers = (*call.headers, (SECONDS_HEADER, f"{seconds:.3f}"))
    return HttpCall(call.method, host, port, call.path.target, headers, call.body, "https")


def answer_of(outcome: Outcome, holder: str) -> RestAnswer:
    """Return the caller's answer."""
    if isinstance(outcome, HttpReply):
        return RestAnswer(outcome.status, outcome.body, outcome.headers)
    where = f"the node is connected to cloudcore {holder}"
    if not outcome.sent:
        return own_response(
            HTTPStatus.SERVICE_UNAVAILABLE, f"{where}, which cannot be reached from this one: {outcome.why}"
        )
    if outcome.timed_out:
        return own_response(HTTPStatus.GATEWAY_TIMEOUT, f"{where}, which has not answered in time")
    why = (
        f"{where}, and the connection to it has ended ({outcome.why}); whether the application was called is not known"
    )
    return own_response(HTTPStatus.BAD_GATEWAY, why)
