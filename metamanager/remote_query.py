"""Queries to the cloud.

KubeEdge's edgecontroller pushes pods and answers no query for them. But it answers a patch of a pod's status with the
whole pod, so a patch that changes nothing serves as the query for one pod (docs/protocol.md, "Asking for pods"). It
contains the uid, like a kubelet's patches, so that the API server refuses it if another pod has the name. The possible
answers are the pod, NotFound and Conflict.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from beehive import BeehiveError, Message, Module, ModuleName, Operation, Resource, ResourceType
from metamanager import answers
from metamanager.errors import CallError, NotConnectedError

Answered = Callable[[list[Message], Message | str], None]
"""Called with the requests and their answer, or the text of an error."""

REFRESH_EVERY: Final = 10.0
"""Seconds between two refreshes of one object: a pod that waits for its volume queries again and again."""

_REMEMBERED: Final = 1000

_EMPTY: Final = b"null"


def is_pod_question(request: Message) -> bool:
    """Return whether a request is a query for one pod."""
    return request.route.operation == Operation.QUERY and request.subject.type == ResourceType.POD


def question_of(request: Message) -> Message:
    """Return the message to the cloud for a request: the patch for a query of a pod, else the request itself.

    The content of a query of a pod is the patch as JSON, `{"metadata": {"uid": …}}`, or null.
    """
    if not is_pod_question(request):
        return request
    pod = request.subject
    text = request.content_bytes()
    resource = str(Resource.of(ResourceType.PODPATCH, pod.namespace, pod.name))
    question = request.with_route(operation=Operation.PATCH, resource=resource)
    return question.with_content("{}" if text == _EMPTY else text.decode())


class Question(msgspec.Struct, frozen=True):
    """Route and content of the query for an object of a uid."""

    resource: str
    operation: Operation
    content: str | None = None
    acknowledges: bool = False
    """Whether the cloud repeats its answer until that is acknowledged (docs/protocol.md, "Which messages need one")."""


def question_about(namespace: str, name: str, uid: str) -> Question:
    """Return the query for the pod of that uid."""
    resource = str(Resource.of(ResourceType.PODPATCH, namespace, name))
    return Question(resource, Operation.PATCH, msgspec.json.encode({"metadata": {"uid": uid}}).decode())


class RemoteQuery:
    """The sender of requests to the cloud, which reports their answers (KubeEdge's processRemote).

    Each query has a new id, so that the cloud's answer arrives here and is stored before it reaches the requests.
    Nothing blocks: the answer is handled on the module's thread. Equal queries share one message while it is open:
    twenty pods that start together need one pull secret.

    Args:
        module: metamanager.
        seconds: time that the cloud has for an answer (KubeEdge's remoteQueryTimeout).
        answered: called with each answer.
    """

    def __init__(self, module: Module, seconds: float, answered: Answered) -> None:
        self._module = module
        self._seconds = seconds
        self._answered = answered
        self._open: dict[str, list[Message]] = {}
        self._queries: dict[str, str] = {}
        self._refreshed: dict[str, float] = {}
        """Time of each resource's last refresh, in monotonic seconds."""

    def query(self, request: Message) -> None:
        """Send a request to the cloud, or join an open query for the same object."""
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
        """Query the cloud for an object that was answered from the store, at most every `REFRESH_EVERY` seconds.

        The request gets no second answer, but edged receives a changed object as if the cloud had pushed it.
        """
        resource, now = request.route.resource, self._module.clock.monotonic()
        if resource in self._queries or now < self._refreshed.get(resource, -REFRESH_EVERY) + REFRESH_EVERY:
            return
        if len(self._refreshed) >= _REMEMBERED:
            self._refreshed.clear()
        self._refreshed[resource] = now
        self.query(request.with_route(source=ModuleName.METAMANAGER))

    def cancel_all(self) -> None:
        """End all open queries with an error: the connection is lost, so no answer will come."""
        for key in list(self._open):
            self._finish(key, answers.NOT_CONNECTED)

    def discard(self, resource: str) -> None:
        """End the queries for a deleted object with an error: an answer on its way may be older than the deletion."""
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
    """Return whether a request is a refresh, which needs no answer."""
    return request.route.source == ModuleName.METAMANAGER


def object_in(answer: Message) -> bytes | None:
    """Return the object in an answer from the cloud; None for an OK, a refusal or any other content.

    KubeEdge stores a refusal (`{"ErrStatus": …}`) in the object's place, and answers with an empty object later.
    """
    try:
        return answers.read_object_or_ok(answer)
    except CallError:
        return None
