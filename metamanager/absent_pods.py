"""Finds out whether stored pods that the cloud's list does not have are gone, and which.

A pod may be missing in a list because it is newer. So the cloud is asked for each by name and uid
(`metamanager.pod_question`), one at a time. That there is no pod of the name, or one of another uid, is final: no uid
comes a second time. What the cloud knows after all stays, and so does what it does not answer for.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from beehive import BeehiveError, Group, Message, Module, ModuleName, Resource, ResourceType
from metamanager import answers
from metamanager.errors import CallError, ConflictError, NotFoundError
from metamanager.pod_question import question_about
from metamanager.rows import Metadata

_log = logging.getLogger(__name__)

_UID = "uid"
"""In the message of the conflict that another uid makes; that of another resourceVersion has none."""


class StoredPod(NamedTuple):
    """A pod of the store."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """Under which it is stored."""
        return str(Resource.of(ResourceType.POD, self.namespace, self.name))


class AbsentPods:
    """See the module's docstring.

    Args:
        module: whose turns these are.
        seconds: how long the cloud has for each answer.
        gone: takes each pod that the cloud does not have any more.
    """

    def __init__(self, module: Module, seconds: float, gone: Callable[[StoredPod], None]) -> None:
        self._module = module
        self._seconds = seconds
        self._gone = gone
        self._queue: deque[StoredPod] = deque()
        self._busy = False

    def ask_for(self, pods: Iterable[StoredPod]) -> None:
        """These are missing in the newest list; those of an older one count no more."""
        self._queue = deque(pods)
        self._next()

    def give_up(self) -> None:
        """The link has ended. What is in doubt is, until the next list."""
        self._queue.clear()

    def deleted(self, key: str, uid: str) -> None:
        """The cloud has said itself that a pod is gone."""
        self._queue = deque(pod for pod in self._queue if pod.key != key or uid not in ("", pod.uid))

    def _next(self) -> None:
        if self._busy or not self._queue:
            return
        self._busy = True
        pod = self._queue.popleft()
        question = question_about(pod.namespace, pod.name, pod.uid)
        message = self._module.message(
            question.resource, question.operation, question.content, source=ModuleName.EDGED, group=Group.META
        )
        self._module.request(ModuleName.EDGEHUB, message, self._seconds, lambda result: self._answered(pod, result))

    def _answered(self, pod: StoredPod, result: Message | BeehiveError) -> None:
        self._busy = False
        if is_gone(result):
            _log.warning("pod %s/%s (%s): the cloud has forgotten it; it ends", pod.namespace, pod.name, pod.uid)
            self._gone(pod)
        elif not isinstance(result, Message):
            self.give_up()
        self._next()


def is_gone(answer: Message | BeehiveError) -> bool:
    """Whether an answer to the question for a pod says that there is none of its uid any more."""
    if not isinstance(answer, Message):
        return False
    try:
        answers.read_object_or_ok(answer)
    except NotFoundError:
        return True
    except ConflictError as error:
        return _UID in error.status.message.lower()
    except CallError:
        return False
    return False


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


def absent(stored: Iterable[str], listed: frozenset[str], node: str) -> Iterator[StoredPod]:
    """The pods of a node that are stored and not listed.

    Args:
        stored: JSON texts of pods. One that cannot be read is passed over.
        listed: uids.
        node: name of the node.
    """
    for text in stored:
        try:
            pod = msgspec.json.decode(text, type=_Pod)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        head = pod.metadata
        if head.uid and head.namespace and head.name and head.uid not in listed and pod.spec.node_name in ("", node):
            yield StoredPod(head.namespace, head.name, head.uid)
