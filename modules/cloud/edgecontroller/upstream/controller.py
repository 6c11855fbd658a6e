"""UpstreamController: answers the messages of nodes, after KubeEdge's controller of that name.

A procedure is a sequence of calls of the API server, whose answers may come immediately or later.
"""

from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from typing import Final, Generic, TypeVar

from beehive.clock import Clock
from beehive.message import Message
from beehive.names import Operation, ResourceType
from modules.apimachinery.api_errors import ApiError, RefusedError
from modules.apimachinery.kinds import kind_named
from modules.cloud.authorization.access_control import AccessControl
from modules.cloud.authorization.attributes import Attributes
from modules.cloud.client.call_requests import failure
from modules.cloud.client.calls import ApiResult, Perform
from modules.cloud.edgecontroller.cloudhub_sender import CloudHubSender
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.downstream.responses import UpstreamResponse
from modules.cloud.edgecontroller.handled_messages import HandledMessages
from modules.cloud.edgecontroller.upstream.handlers import refusal_responses
from modules.cloud.edgecontroller.upstream.node_calls import NodeCalls
from modules.cloud.edgecontroller.upstream.requests import Steps, UpstreamHandler, UpstreamRequest, UpstreamResult

Handle = Callable[[Message, Callable[[], None], Callable[[Message, ApiError], None]], None]
"""Does the work of a message; when it fails, nothing of it remains, and the last argument answers the sender."""

_VERBS: Final[dict[str, str]] = {
    Operation.QUERY: "get",
    Operation.INSERT: "create",
    Operation.UPDATE: "update",
    Operation.PATCH: "patch",
    Operation.DELETE: "delete",
}
_STATUS: Final[dict[str, str]] = {
    ResourceType.PODPATCH: "Pod",
    ResourceType.PODSTATUS: "Pod",
    ResourceType.NODEPATCH: "Node",
    ResourceType.NODESTATUS: "Node",
}
_LOST: Final = "cloudcore has failed; whether it has done this is not known"
COMPARED: Final = (ResourceType.DEVICE, ResourceType.DEVICE_MODEL)
"""Types that a node has from the cloud alone: it asks whether they are gone, and is answered nothing about them."""
_KINDS: Final[dict[str, str]] = {
    kind.lower(): kind
    for kind in (
        "Pod",
        "Node",
        "Lease",
        "ConfigMap",
        "Secret",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "VolumeAttachment",
        "CertificateSigningRequest",
        "Event",
        "Service",
        "Endpoints",
    )
}

T = TypeVar("T")

_Results = Iterable[UpstreamResult]
_Rest = Callable[[], None]
"""Annotations of functions that are made for each message are evaluated each time."""


def attributes_of(resource_type: str, operation: str, request: UpstreamRequest) -> Attributes:
    """Return the attributes of a node's message.

    Raises:
        ContentError: the content of a token request is not JSON.
    """
    if resource_type == ResourceType.SERVICE_ACCOUNT_TOKEN:
        body = request.plain_content()
        resource = "serviceaccounts/token"
        namespace, name = request.namespace, request.name
        return Attributes(
            node=request.node, verb="create", resource=resource, namespace=namespace, name=name, body=body
        )
    status = _STATUS.get(resource_type)
    registers = resource_type == ResourceType.NODESTATUS and operation == Operation.INSERT
    kind = kind_named(status or _KINDS[resource_type])
    key = request.key(kind)
    return Attributes(
        node=request.node,
        verb=_VERBS[operation],
        group=kind.api_group,
        resource=f"{kind.plural}/status" if status and not registers else kind.plural,
        namespace=key.namespace,
        name=key.name,
    )


class Procedure(Generic[T]):
    """A run of `Steps`: it makes each call, and goes on with its answer.

    Args:
        steps: the procedure.
        perform: makes a call.
        finished: called with the result. Exceptions of the steps or of this function go to the caller of `start`, or to
            `later`.
        later: called with the rest of the procedure when an answer comes after `perform` has returned.
    """

    def __init__(
        self,
        steps: Steps[T],
        perform: Perform,
        finished: Callable[[T], None],
        later: Callable[[Callable[[], None]], None],
    ) -> None:
        self._steps = steps
        self._perform = perform
        self._finished = finished
        self._later = later
        self._is_calling = False
        self._immediate: ApiResult | None = None
        """The result that came while the call was made."""

    def run(self, result: ApiResult | None = None) -> None:
        """Begin, or go on with the result of a call, until the next result is late."""
        steps = self._steps
        while True:
            try:
                if result is None:
                    call = next(steps)
                elif result.refusal is None:
                    call = steps.send(result.object or {})
                else:
                    call = steps.throw(RefusedError(result.refusal))
            except StopIteration as end:
                self._finished(end.value)
                return
            self._is_calling = True
            self._perform(call, self._answered)
            self._is_calling = False
            if self._immediate is None:
                return
            result, self._immediate = self._immediate, None

    def _answered(self, result: ApiResult) -> None:
        if self._is_calling:
            self._immediate = result
        else:
            self._later(partial(self.run, result))


class UpstreamController:
    """The controller that authorizes each message of a node, has its handler make API calls, and sends what follows.

    Args:
        clock: the time of requests.
        calls: makes the API calls of nodes.
        access_control: checks what the node may do.
        downstream: sends objects that the handlers give; it also learns what nodes ask for and get.
        sender: sends the responses.
        handled: counts the messages that are handled.
        connection_of: returns the last connection of a node, claimed or not yet.
        handle: does the work of a message, now or when the objects are loaded.
        read: returns the request in a message, at a time `now`; raises as `UpstreamRequest.of`.
        admits_statuses: whether the API server authorizes patches of statuses itself.
    """

    def __init__(
        self,
        clock: Clock,
        calls: NodeCalls,
        access_control: AccessControl,
        downstream: DownstreamController,
        sender: CloudHubSender,
        handled: HandledMessages,
        *,
        connection_of: Callable[[str], str],
        handle: Handle,
        read: Callable[..., UpstreamRequest],
        admits_statuses: bool,
    ) -> None:
        self._admits_statuses = admits_statuses
        self._clock = clock
        self._calls = calls
        self._access_control = access_control
        self._downstream = downstream
        self._sender = sender
        self._handled = handled
        self._connection_of = connection_of
        self._handle = handle
        self._read = read

    def answer(self, message: Message, handler: UpstreamHandler, then: Callable[[], None] | None) -> None:
        """Authorize and handle a message of a node, and send the responses; `then` is called after a success, if it is
        given. Either way the message counts as handled.

        An unknown object is deleted only over the connection of the message: another cloudcore may have deleted it
        since, and the node have the next one of the name.
        """
        since = self._clock.monotonic()
        self._handled.begin(message)

        def finished(connection: str, results: _Results) -> None:
            is_answered = self._send_results(message, results, connection)
            if then is not None:
                then()
            self._handled.count(message, since, is_answered=is_answered)

        def begin() -> None:
            request = self._read(message, now=self._clock.now())
            resource_type, operation = message.subject_on_cloud.type, message.route.operation
            if resource_type in COMPARED:
                perform = partial(self._calls.read_for, node=request.node)
            else:
                if not (self._admits_statuses and operation == Operation.PATCH and resource_type in _STATUS):
                    self._access_control.authorize(attributes_of(resource_type, operation, request))
                if operation == Operation.QUERY:
                    self._downstream.record_query(request.node, resource_type, request.key)
                perform = partial(self._calls.perform, node=request.node)
            finish = partial(finished, self._connection_of(request.node))
            Procedure(handler(request), perform, finish, later).run()

        def later(rest: _Rest) -> None:
            self._handle(message, rest, refused)

        def refused(_: Message, error: ApiError) -> None:
            is_answered = self._send_results(message, refusal_responses(message, error))
            self._handled.count(message, since, is_answered=is_answered)

        self._handle(message, begin, refused)

    def give_up(self, message: Message) -> None:
        """Answer a message that goes with the module with an error, without a commit: nothing is promised."""
        error = RefusedError(failure(HTTPStatus.SERVICE_UNAVAILABLE, _LOST).refusal or {})
        for result in refusal_responses(message, error):
            if isinstance(result, UpstreamResponse):
                self._sender.send_response(message, result, is_promise=False)

    def _send_results(self, message: Message, results: Iterable[UpstreamResult], connection: str = "") -> bool:
        """Send what follows from a message of a connection, and return whether it is answered."""
        is_answered = False
        for result in results:
            if isinstance(result, UpstreamResponse):
                if result.held is not None:
                    self._downstream.record_answer(message.subject_on_cloud.node, result.held)
                self._sender.send_response(message, result)
                is_answered = True
            elif connection == self._connection_of(result.node):
                self._downstream.delete_unknown(result.node, result.key, result.uid)
        return is_answered
