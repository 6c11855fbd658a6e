"""Requests to the cloud's API: changes, and reads of kinds that this node does not store."""

from typing import Final

from beehive import BeehiveError, Hive, Message, ModuleName, Operation, trace_context
from metamanager.answers import error_in
from metamanager.errors import NoAnswerError, NotConnectedError
from modules.apimachinery.application import Application, Progress, Target, Verb, application, message_of, target_of
from modules.apimachinery.errors import ApiStatusError, CloudRefusalError, no_such_path

CLOUD_SECONDS: Final = 10.0
"""Seconds to wait for the cloud's answer (KubeEdge's)."""

_HERE: Final = "what the node has can be read here meanwhile"


class ApplicationAgent:
    """The sender of requests to the cloud as Applications, like KubeEdge's agent of this name.

    A request goes over the hub and blocks the connection's thread. Without a connection the hub refuses it
    immediately; a cloud whose dynamicController is off (KubeEdge's default) never answers.

    Args:
        hive: has the hub.
        node: name of this node.
    """

    def __init__(self, hive: Hive, node: str) -> None:
        self._hive = hive
        self._node = node

    def ask(
        self, target: Target, verb: Verb, option: bytes, body: bytes | None = None, *, seconds: float = CLOUD_SECONDS
    ) -> bytes:
        """Return the JSON text of the cloud's answer; empty for an answer without a body (a deletion).

        Raises:
            ApiStatusError: the cloud's own refusal; 404 for a path whose key the cloud would read as another one's (the
                group `core`, a part `null`); 503 without a connection, 504 without an answer.
        """
        app = application(target, verb, self._node, option, body)
        if target_of(app) != target:
            raise no_such_path()
        trace_context.new_context(ModuleName.METASERVER)
        message = message_of(app, self._hive.clock)
        try:
            answer = self._hive.request(ModuleName.EDGEHUB, message, seconds).get()
            return read_answer(answer)
        except BeehiveError as error:
            raise _unanswered(error, seconds) from error


def read_answer(answer: Message) -> bytes:
    """Return the body of an answer.

    Raises:
        ApiStatusError: as `ApplicationAgent.ask`.
        BeehiveError: the answer has no known form.
    """
    if answer.route.operation == Operation.ERROR:
        refusal = error_in(answer)
        if isinstance(refusal, NotConnectedError):
            raise ApiStatusError(503, f"the node is not connected to the cloud, and only it could do this; {_HERE}")
        if isinstance(refusal, NoAnswerError):
            raise ApiStatusError(
                504, f"the connection ended before the cloud answered: see whether it was done; {_HERE}"
            )
        raise ApiStatusError(500, str(refusal))
    app = answer.content_as(Application)
    if app.status == Progress.APPROVED:
        return b"" if app.resp_body in (None, b"null") else app.resp_body or b""
    if app.refusal.get("code") or app.refusal.get("reason"):
        raise CloudRefusalError(app.refusal)
    raise ApiStatusError(500, app.reason or "the cloud refused and did not say why")


def _unanswered(error: BeehiveError, seconds: float) -> ApiStatusError:
    if error.retryable:
        hint = "is its dynamicController switched on?"
        return ApiStatusError(504, f"the cloud did not answer within {seconds:g} s; {hint} {_HERE}")
    return ApiStatusError(503, f"the cloud cannot be asked: {error}; {_HERE}")
