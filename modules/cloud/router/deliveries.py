"""Messages of nodes on their way to servers: in order for each Rule, a few at a time, repeated where that is safe."""

from collections import Counter, deque
from collections.abc import Callable, Collection
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec

from beehive.bounded_calls import BoundedCalls
from beehive.clock import Clock
from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from beehive.http.call import CallFailedError, HttpCall, HttpReply, ServerRefusedError, perform
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName
from beehive.sockets.near_addresses import is_beside, is_own, plain_address
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.router.records import RuleRoute, TargetUrl
from modules.cloud.router.rest_service import METHODS
from modules.cloud.router.routing_table import RoutingTable
from modules.cloud.router.status_writer import RuleStatusWriter
from modules.cloud.router.subscriptions import NodeSubscriptions

CALL_SECONDS: Final = 30.0
"""For a server's whole response."""
MOST_BODY: Final = 1024 * 1024
"""Bytes of a server's response (KubeEdge)."""
PARALLEL: Final = 32
"""Calls at a time, of all Rules; the Rules of one namespace have half of them at most."""
MOST_WAITING: Final = 1000
MOST_WAITING_BYTES: Final = 4 * 1024 * 1024
"""Bounds of the messages of one Rule that wait."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""Most bytes of waiting messages of all Rules; those of one namespace have half of them at most."""
RETRIES: Final = (1.0, 2.0, 4.0)
"""Seconds before each further attempt."""
_IDEMPOTENT: Final = ("GET", "HEAD", "OPTIONS", "PUT", "DELETE")
"""Methods that may be repeated when it is not known whether the server has got the request (RFC 9110 §9.2.2)."""

Outcome = HttpReply | CallFailedError
Done = Callable[[Outcome], None]

_TEXT: Final = ("Content-Type", "text/plain; charset=utf-8")
_JSON: Final = ("Content-Type", "application/json")
OwnPorts = Callable[[], Collection[int]]
"""Returns the TCP ports of this cloudcore."""


def refusal_of_server(address: str, port: int, own: Collection[int]) -> str:
    """Return why a Rule's request is not sent to an address, "" if it is.

    Args:
        address: of the connected server, so that names and other spellings do not matter.
        port: its port.
        own: the ports of this cloudcore, where programs of this machine may need no credentials.
    """
    found = plain_address(address)
    if is_beside(found):
        return f"{found} is link-local, or a metadata service of machines: no Rule calls it"
    if is_own(found) and port in own:
        return f"port {port} of this machine is cloudcore's own: no Rule calls it"
    return ""


class _Task(NamedTuple):
    call: HttpCall
    done: Done


class _Line:
    """The calls of one Rule."""

    def __init__(self) -> None:
        self.tasks: deque[_Task] = deque()
        """The first one is under way."""
        self.size = 0


def may_repeat(call: HttpCall, error: CallFailedError) -> bool:
    """Return whether a call that has failed may be made again: nothing was sent, or its method may be repeated."""
    if isinstance(error, ServerRefusedError):
        return False
    return not error.sent or (call.method in _IDEMPOTENT and not error.timed_out)


class OutgoingCalls:
    """The calls of each Rule, made one after the other, and of all Rules a few at a time.

    Args:
        module: the router.
        own_ports: of this cloudcore, which no Rule calls.
    """

    def __init__(self, module: Module, own_ports: OwnPorts) -> None:
        self._module = module
        self._own_ports = own_ports
        self._calls = BoundedCalls(module, PARALLEL, 1_000_000, PARALLEL // 2)
        """At most one call of each Rule waits; namespaces have turns."""
        self._lines: dict[ObjectKey, _Line] = {}
        self._sizes = Counter[str]()
        """Bytes that wait, by namespace."""

    def submit(self, key: ObjectKey, call: HttpCall, done: Done) -> bool:
        """Make a call when it is its turn; return False if too much waits already.

        Args:
            key: of the Rule.
            call: the request.
            done: called with the response, or the error of the last attempt.
        """
        size = len(call.body)
        line = self._lines.get(key)
        if self._sizes.total() + size > MOST_BYTES or self._sizes[key.namespace] + size > MOST_BYTES // 2:
            return False
        if line is None:
            line = self._lines[key] = _Line()
        elif len(line.tasks) >= MOST_WAITING or line.size + size > MOST_WAITING_BYTES:
            return False
        line.tasks.append(_Task(call, done))
        line.size += size
        self._sizes[key.namespace] += size
        if len(line.tasks) == 1:
            self._begin(key, line, 0)
        return True

    def _begin(self, key: ObjectKey, line: _Line, attempt: int) -> None:
        call = line.tasks[0].call
        perform_it = partial(_perform, call, self._module.clock, frozenset(self._own_ports()))
        self._calls.submit(perform_it, partial(self._ended, key, line, attempt), key.namespace)

    def _ended(self, key: ObjectKey, line: _Line, attempt: int, outcome: Outcome) -> None:
        task = line.tasks[0]
        failed = isinstance(outcome, CallFailedError) and may_repeat(task.call, outcome)
        if failed and attempt < len(RETRIES):
            self._module.after(RETRIES[attempt], partial(self._begin, key, line, attempt + 1))
            return
        line.tasks.popleft()
        line.size -= len(task.call.body)
        self._sizes[key.namespace] -= len(task.call.body)
        if not self._sizes[key.namespace]:
            del self._sizes[key.namespace]
        if line.tasks:
            self._begin(key, line, 0)
        else:
            del self._lines[key]
        task.done(outcome)


def _perform(call: HttpCall, clock: Clock, own_ports: Collection[int]) -> Outcome:
    refuses = partial(refusal_of_server, own=own_ports)
    try:
        return perform(call, clock, seconds=CALL_SECONDS, most_bytes=MOST_BODY, refuses=refuses)
    except CallFailedError as error:
        return error


class UploadError(BeehiveError):
    """A message of a node that cannot be passed on."""

    def __init__(self, why: str) -> None:
        super().__init__("cannot pass a message on", why)
        self.why = why


class ApplicationRequest(msgspec.Struct, frozen=True):
    """A request that an application has posted to its node's servicebus."""

    method: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"null")
    """Not decoded: millions of values may be in it."""


def call_of_message(message: Message, server: TargetUrl, node: str, topic: str) -> HttpCall:
    """Return the call for a message of MQTT: a POST with its text, and with node and topic as headers.

    Raises:
        UploadError: the message has no text.
    """
    try:
        body = message.content_as(str).encode()
    except (BeehiveError, UnicodeError) as error:
        raise UploadError("its content is no text") from error
    origin = ("X-Node-Name", node), ("X-Mqtt-Topic", quote(topic, safe="/-._~$ "))
    return _call("POST", server, (_TEXT, *origin), body)


def call_of_application(message: Message, server: TargetUrl, node: str) -> HttpCall:
    """Return the call for an application's request: with its method (POST without one), and with its payload, a text as
    it is, any other value as JSON.

    Raises:
        UploadError: the request cannot be read.
    """
    try:
        asked = message.content_as(ApplicationRequest)
        kind, body = _payload(asked.payload)
    except (BeehiveError, msgspec.DecodeError, UnicodeError) as error:
        raise UploadError('a request such as {"method": "POST", "targetURL": "…", "payload": "…"} is wanted') from error
    method = asked.method.upper() or "POST"
    if method not in METHODS:
        raise UploadError(f"the method is none of {', '.join(METHODS)}")
    return _call(method, server, (*((kind,) if body else ()), ("X-Node-Name", node)), body)


def _payload(payload: msgspec.Raw) -> tuple[tuple[str, str], bytes]:
    content = bytes(payload).strip()
    if content.startswith(b'"'):
        return _TEXT, decode_json(content, str).encode(errors="replace")
    return _JSON, b"" if content == b"null" else content


def _call(method: str, server: TargetUrl, headers: tuple[tuple[str, str], ...], body: bytes) -> HttpCall:
    return HttpCall(method, server.host, server.port, server.target, headers, body, server.scheme)


class Deliveries:
    """Messages of MQTT, and requests of applications, passed on to the servers of Rules.

    Args:
        module: the router.
        table: has the Rules.
        status: counts delivered messages.
        subscriptions: of nodes.
        own_ports: of this cloudcore, which no Rule calls.
    """

    def __init__(
        self,
        module: Module,
        table: RoutingTable,
        status: RuleStatusWriter,
        subscriptions: NodeSubscriptions,
        own_ports: OwnPorts,
    ) -> None:
        self._module = module
        self._table = table
        self._status = status
        self._subscriptions = subscriptions
        self._outgoing = OutgoingCalls(module, own_ports)

    def handle(self, message: Message, node: str, resource: str) -> None:
        """Take a message of a node."""
        routes = self._table.for_message(node, resource)
        if not routes:
            is_url = "://" in resource
            if is_url:
                self._refuse(message, "there is no rule for this URL")
            self._subscriptions.end_unwanted(node, resource, is_url=is_url)
        for route in routes:
            if route.server is None:
                continue
            if route.is_url:
                self._call_for_application(message, route, route.server)
                return  # an application gets one answer
            self._pass_on(message, route, route.server, resource)

    def _pass_on(self, message: Message, route: RuleRoute, server: TargetUrl, topic: str) -> None:
        key = route.rule.key
        try:
            call = call_of_message(message, server, route.node, topic)
        except UploadError as error:
            self._status.failed(key, error.why)
            return

        def done(outcome: Outcome) -> None:
            self._count(key, call, outcome)

        if not self._outgoing.submit(key, call, done):
            self._status.failed(key, f"many messages wait for {call}, and a further one was dropped")

    def _call_for_application(self, message: Message, route: RuleRoute, server: TargetUrl) -> None:
        key = route.rule.key
        try:
            call = call_of_application(message, server, route.node)
        except UploadError as error:
            self._status.failed(key, error.why)
            self._refuse(message, error.why)
            return

        def done(outcome: Outcome) -> None:
            failure = self._count(key, call, outcome)
            if failure or isinstance(outcome, CallFailedError):
                self._refuse(message, failure)
                return
            text = outcome.body.decode(errors="replace")
            reply = message.reply(self._module.clock, text, source=ModuleName.SERVICEBUS)
            self._module.send(ModuleName.CLOUDHUB, reply)

        if not self._outgoing.submit(key, call, done):
            why = f"many requests wait for {call}"
            self._status.failed(key, why)
            self._refuse(message, why)

    def _count(self, key: ObjectKey, call: HttpCall, outcome: Outcome) -> str:
        """Count the end of a call; return why it has failed, "" if it has not."""
        if isinstance(outcome, CallFailedError):
            failure = str(outcome)
        elif outcome.status >= HTTPStatus.MULTIPLE_CHOICES:
            failure = f"{call} answered {outcome.status}"
        else:
            self._status.succeeded(key)
            return ""
        self._status.failed(key, failure)
        return failure

    def _refuse(self, message: Message, why: str) -> None:
        """Answer an application's request with an error."""
        refusal = message.error(self._module.clock, why, source=ModuleName.SERVICEBUS, group=Group.USER)
        self._module.send(ModuleName.CLOUDHUB, refusal)
