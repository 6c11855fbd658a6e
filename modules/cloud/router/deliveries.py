"""Messages of nodes on their way to servers."""

from http import HTTPStatus

from beehive.http.call import CallFailedError, HttpCall
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.router.outgoing import Outcome, OutgoingCalls
from modules.cloud.router.records import RuleRoute, TargetUrl
from modules.cloud.router.routing_table import RoutingTable
from modules.cloud.router.status_writer import RuleStatusWriter
from modules.cloud.router.subscriptions import NodeSubscriptions
from modules.cloud.router.uploads import UploadError, call_of_application, call_of_message


class Deliveries:
    """Passes messages of MQTT, and requests of applications, on to the servers of Rules.

    Args:
        module: the router.
        table: has the Rules.
        status: counts delivered messages.
        subscriptions: of nodes.
    """

    def __init__(
        self, module: Module, table: RoutingTable, status: RuleStatusWriter, subscriptions: NodeSubscriptions
    ) -> None:
        self._module = module
        self._table = table
        self._status = status
        self._subscriptions = subscriptions
        self._outgoing = OutgoingCalls(module)

    def take(self, message: Message, node: str, resource: str) -> None:
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
