"""Questions that are with the cloud.

Each goes to the hub under an id of our own, so that the cloud's answer comes back here, is stored, and only then
reaches who asked (KubeEdge's processRemote). Nothing waits: the answer continues in the module's turn. The same
question asked twice while it is under way goes once: twenty pods that start together want one pull secret.
"""

from collections.abc import Callable
from typing import Final

from beehive import BeehiveError, Message, Module, ModuleName, Operation
from metamanager import answers
from metamanager.errors import CallError, NotConnectedError
from metamanager.pod_question import question_of

Answered = Callable[[list[Message], Message | str], None]
"""Takes the requests and their answer, or the text of the error that there is instead."""

REFRESH_EVERY: Final = 10.0
"""Seconds between two refreshments of one object: a pod that waits for its volume asks again and again."""

_REMEMBERED: Final = 1000


class Remote:
    """See the module's docstring.

    Args:
        module: on whose turn answers are taken.
        seconds: how long the cloud has for an answer (KubeEdge's remoteQueryTimeout).
        answered: takes them.
    """

    def __init__(self, module: Module, seconds: float, answered: Answered) -> None:
        self._module = module
        self._seconds = seconds
        self._answered = answered
        self._open: dict[str, list[Message]] = {}
        self._queries: dict[str, str] = {}
        self._refreshed: dict[str, float] = {}
        """When each resource was refreshed last, in monotonic seconds."""

    def ask(self, request: Message) -> None:
        """Ask the cloud what was asked of us."""
        mergeable = request.route.operation == Operation.QUERY and bytes(request.content_raw()) == b"null"
        under_way = self._queries.get(request.route.resource) if mergeable else None
        if under_way is not None:
            self._open[under_way].append(request)
            return
        question = question_of(request).with_header(msg_id=self._module.clock.new_id())
        if is_refresh(request):
            question = question.with_route(source=ModuleName.EDGED)
        self._open[question.id] = [request]
        if mergeable:
            self._queries[request.route.resource] = question.id
        self._module.request(
            ModuleName.EDGEHUB, question, self._seconds, lambda result: self._done(question.id, result)
        )

    def refresh(self, request: Message) -> None:
        """Ask the cloud the same although the asker has its answer: not again within `REFRESH_EVERY`.

        Nobody gets the answer, but that what has changed is handed on as if the cloud had sent it.
        """
        resource, now = request.route.resource, self._module.clock.monotonic()
        if resource in self._queries or now < self._refreshed.get(resource, -REFRESH_EVERY) + REFRESH_EVERY:
            return
        if len(self._refreshed) >= _REMEMBERED:
            self._refreshed.clear()
        self._refreshed[resource] = now
        self.ask(request.with_route(source=ModuleName.METAMANAGER))

    def give_up(self) -> None:
        """The connection is gone: no answer will come, and nobody need wait until the deadline to be told."""
        for key in list(self._open):
            self._finish(key, answers.NOT_CONNECTED)

    def void(self, resource: str) -> None:
        """The object has been deleted: an answer that is under way may be older than that, and counts for nothing."""
        for key, requests in list(self._open.items()):
            if requests[0].route.resource == resource and requests[0].route.operation == Operation.QUERY:
                self._finish(key, f"{answers.REMOTE_TIMEOUT}: it was deleted while it was asked for")

    def _done(self, key: str, result: Message | BeehiveError) -> None:
        if not isinstance(result, Message):
            self._finish(key, f"{answers.REMOTE_TIMEOUT}: {result.attempt}")
        elif answers.is_from_hub(result):
            self._finish(key, _text_of_hub(result))
        else:
            self._finish(key, result)

    def _finish(self, key: str, result: Message | str) -> None:
        requests = self._open.pop(key, None)
        if requests is None:
            return
        resource = requests[0].route.resource
        if self._queries.get(resource) == key:
            del self._queries[resource]
        self._answered(requests, result)


def _text_of_hub(answer: Message) -> str:
    error = answers.error_in(answer)
    if isinstance(error, NotConnectedError):
        return answers.NOT_CONNECTED
    return f"{answers.REMOTE_TIMEOUT}: {error.hint}" if error.retryable else error.hint


def is_refresh(request: Message) -> bool:
    """Whether nobody waits for the answer."""
    return request.route.source == ModuleName.METAMANAGER


def object_in(answer: Message) -> bytes | None:
    """The object that an answer from the cloud brings; None for an OK, a refusal and whatever is no object.

    KubeEdge stores a refusal (`{"ErrStatus": …}`) as if it were the object, and hands out an empty one later.
    """
    try:
        return answers.read_object_or_ok(answer)
    except CallError:
        return None
