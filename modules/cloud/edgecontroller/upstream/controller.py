"""UpstreamController: answers the messages of nodes, after KubeEdge's controller of that name."""

from collections.abc import Callable, Iterable

from beehive.clock import Clock
from beehive.message import Message
from beehive.resource import Resource, Side, type_of
from modules.apimachinery.api_errors import ApiError
from modules.cloud.authorization.access_control import AccessControl
from modules.cloud.client.calls import Answered, ApiCall
from modules.cloud.edgecontroller.cloudhub_sender import CloudHubSender
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.downstream.responses import UpstreamResponse
from modules.cloud.edgecontroller.handled_messages import HandledMessages
from modules.cloud.edgecontroller.upstream.attributes import attributes_of
from modules.cloud.edgecontroller.upstream.cluster_api import ClusterApi
from modules.cloud.edgecontroller.upstream.handlers import refusal_responses
from modules.cloud.edgecontroller.upstream.procedure import Procedure
from modules.cloud.edgecontroller.upstream.requests import UpstreamHandler, UpstreamRequest, UpstreamResult

Handle = Callable[[Message, Callable[[], None], Callable[[Message, ApiError], None]], None]
"""Does the work of a message; when it fails, nothing of it remains, and the last argument answers the sender."""


class UpstreamController:
    """Authorizes each message of a node, has its handler make API calls, and sends what follows.

    Args:
        clock: the time of requests.
        api: makes the API calls.
        access_control: checks what the node may do.
        downstream: sends objects that the handlers give; it also learns what nodes ask for and are told.
        sender: sends the responses.
        handled: counts the messages that are handled.
        handle: does the work of a message, now or when the objects are loaded.
    """

    def __init__(
        self,
        clock: Clock,
        api: ClusterApi,
        access_control: AccessControl,
        downstream: DownstreamController,
        sender: CloudHubSender,
        handled: HandledMessages,
        handle: Handle,
    ) -> None:
        self._clock = clock
        self._api = api
        self._access_control = access_control
        self._downstream = downstream
        self._sender = sender
        self._handled = handled
        self._handle = handle

    def answer(self, message: Message, handler: UpstreamHandler, then: Callable[[], None]) -> None:
        """Authorize and handles a message of a node, and send the responses; `then` is called after a success. Either
        way the message counts as handled.
        """

        def finished(results: Iterable[UpstreamResult]) -> None:
            self._send_results(message, results)
            then()
            self._handled.count(message)

        def begin() -> None:
            request = UpstreamRequest.of(message, manifests_loaded=self._api.knows_all, now=self._clock.now())
            resource_type = type_of(message.route.resource, Side.CLOUD)
            self._access_control.authorize(attributes_of(resource_type, message.route.operation, request))
            self._downstream.note_query(request.node, resource_type, request.key)

            def perform(call: ApiCall, answered: Answered) -> None:
                self._api.perform(call, request.node, answered)

            Procedure(handler(request), perform, finished, later).start()

        def later(rest: Callable[[], None]) -> None:
            self._handle(message, rest, refused)

        def refused(_: Message, error: ApiError) -> None:
            self._send_results(message, refusal_responses(message, error))
            self._handled.count(message)

        self._handle(message, begin, refused)

    def _send_results(self, message: Message, results: Iterable[UpstreamResult]) -> None:
        for result in results:
            if isinstance(result, UpstreamResponse):
                self._send_response(message, result)
            else:
                self._downstream.send(result)

    def _send_response(self, request: Message, answer: UpstreamResponse) -> None:
        node = Resource.parse(request.route.resource, Side.CLOUD).node
        self._downstream.note_response(node, answer.content)
        self._sender.send_response(request, answer)
