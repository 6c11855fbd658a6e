"""The query for one pod, in a form that KubeEdge's cloud answers (docs/protocol.md, "Asking for pods").

KubeEdge's edgecontroller pushes pods and answers no query for them. But it answers a patch of a pod's status with the
whole pod, so a patch that changes nothing serves as a query. It contains the uid, like a kubelet's patches, so that the
API server refuses it if another pod has the name. The possible answers are the pod, NotFound and Conflict.
"""

from typing import NamedTuple

import msgspec

from beehive import Message, Operation, Resource, ResourceType
from metamanager.rows import parse

_EMPTY = b"null"


def is_pod_question(request: Message) -> bool:
    """Return whether a request is a query for one pod."""
    return request.route.operation == Operation.QUERY and parse(request.route.resource).type == ResourceType.POD


def question_of(request: Message) -> Message:
    """Return the message to the cloud for a request: the patch for a query of a pod, else the request itself.

    The content of a query of a pod is the patch as JSON, `{"metadata": {"uid": …}}`, or null.
    """
    if not is_pod_question(request):
        return request
    pod = parse(request.route.resource)
    text = request.content_bytes()
    resource = str(Resource.of(ResourceType.PODPATCH, pod.namespace, pod.name))
    question = request.with_route(operation=Operation.PATCH, resource=resource)
    return question.with_content("{}" if text == _EMPTY else text.decode())


class Question(NamedTuple):
    """Route and content of the query for a pod."""

    resource: str
    operation: Operation
    content: str


def question_about(namespace: str, name: str, uid: str) -> Question:
    """Return the query for the pod of that uid."""
    resource = str(Resource.of(ResourceType.PODPATCH, namespace, name))
    return Question(resource, Operation.PATCH, msgspec.json.encode({"metadata": {"uid": uid}}).decode())
