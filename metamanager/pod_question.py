"""A pod asked of the cloud by its name, in words that KubeEdge's cloud understands.

Its edgecontroller answers no query for pods: they are pushed, and what an edge has acknowledged is not sent again, even
to an edge that has lost its store (spec/04 §7). But it answers a patch of a pod's status with the whole pod. A patch
that changes nothing is therefore a question; with the uid in it, as in each of a kubelet's own patches, the API server
refuses it when another pod has taken the name. So there are three answers: the pod, NotFound, Conflict.
"""

from typing import NamedTuple

import msgspec

from beehive import Message, Operation, Resource, ResourceType
from metamanager.rows import parse

_EMPTY = b"null"


def is_pod_question(request: Message) -> bool:
    """Whether somebody asks for one pod."""
    return request.route.operation == Operation.QUERY and parse(request.route.resource).type == ResourceType.POD


def question_of(request: Message) -> Message:
    """What the cloud is asked for a request: the same, unless it is for a pod.

    The content of a request for a pod is the patch, as JSON: `{"metadata": {"uid": …}}`, or nothing.
    """
    if not is_pod_question(request):
        return request
    pod = parse(request.route.resource)
    text = request.content_bytes()
    resource = str(Resource.of(ResourceType.PODPATCH, pod.namespace, pod.name))
    question = request.with_route(operation=Operation.PATCH, resource=resource)
    return question.with_content("{}" if text == _EMPTY else text.decode())


class Question(NamedTuple):
    """What the cloud is asked."""

    resource: str
    operation: Operation
    content: str


def question_about(namespace: str, name: str, uid: str) -> Question:
    """The question for the pod of that uid."""
    resource = str(Resource.of(ResourceType.PODPATCH, namespace, name))
    return Question(resource, Operation.PATCH, msgspec.json.encode({"metadata": {"uid": uid}}).decode())
