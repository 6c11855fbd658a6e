"""What only the cloud can do: changes, and reading what this node does not keep.

Each goes as an Application over the hub, and waits for its answer on the connection's own thread. Without a connection
the hub says so at once; a cloud whose dynamicController is switched off (KubeEdge's default) says nothing, which is
told after ten seconds.
"""

from typing import Final

from beehive import BeehiveError, Hive, Message, ModuleName, Operation, causes
from metamanager.answers import error_in
from metamanager.application import Application, Progress, Target, Verb, application, message_of
from metamanager.errors import NoAnswerError, NotConnectedError
from modules.metaserver.errors import ApiError, CloudRefusalError

CLOUD_SECONDS: Final = 10.0
"""How long the cloud has (KubeEdge)."""

_HERE: Final = "what the node has can be read here meanwhile"


class Cloud:
    """Puts requests to the cloud.

    Args:
        hive: where the hub is.
        node: name of this node.
    """

    def __init__(self, hive: Hive, node: str) -> None:
        self._hive = hive
        self._node = node

    def ask(self, target: Target, verb: Verb, option: bytes, body: bytes | None = None) -> bytes:
        """The JSON text that the cloud answers; empty when it answers with none (a deletion).

        Raises:
            ApiError: the cloud's own refusal; 503 without a connection, 504 without an answer.
        """
        causes.begin(ModuleName.METASERVER)
        message = message_of(application(target, verb, self._node, option, body), self._hive.clock)
        try:
            answer = self._hive.request(ModuleName.EDGEHUB, message, CLOUD_SECONDS).get()
            return read_answer(answer)
        except BeehiveError as error:
            raise _unanswered(error) from error


def read_answer(answer: Message) -> bytes:
    """What an answer brings.

    Raises:
        ApiError: as `Cloud.ask`.
        BeehiveError: it is of no known form.
    """
    if answer.route.operation == Operation.ERROR:
        refusal = error_in(answer)
        if isinstance(refusal, NotConnectedError):
            raise ApiError(503, f"the node is not connected to the cloud, and only it could do this; {_HERE}")
        if isinstance(refusal, NoAnswerError):
            raise ApiError(504, f"the connection ended before the cloud answered: see whether it was done; {_HERE}")
        raise ApiError(500, str(refusal))
    app = answer.content_as(Application)
    if app.status == Progress.APPROVED:
        return b"" if app.resp_body in (None, b"null") else app.resp_body or b""
    if app.error.status.get("code") or app.error.status.get("reason"):
        raise CloudRefusalError(app.error.status)
    raise ApiError(500, app.reason or "the cloud refused and did not say why")


def _unanswered(error: BeehiveError) -> ApiError:
    if error.retryable:
        hint = "is its dynamicController switched on?"
        return ApiError(504, f"the cloud did not answer within {CLOUD_SECONDS:g} s; {hint} {_HERE}")
    return ApiError(503, f"the cloud cannot be asked: {error}; {_HERE}")
