"""A container runtime that answers what the recorded one answered, when it answered it.

A call is matched by its operation, by what it is about (a pod's sandbox or container with its attempt, an id, an image,
a filter) and by its number among its like. What was recorded as an error is raised as that error. A call that changes
something and was never made in the recorded run is not answered: nobody knows what would have come of it. Its events
come when they came.
"""

import re
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any, Final, NoReturn, cast

import msgspec
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from grpc import StatusCode

from beehive import Runtime
from beehive.causes import current
from beehive.trace import CriCall, CriEvent
from beehive.trace.redact import Redactor
from edged.cri import errors
from edged.cri.contract import ContainerRuntime, ExecResult
from edged.cri.recording import CriEntry
from edged.pods.labels import POD_UID
from modules.replay.events import RecordedEvents
from modules.replay.lists import LISTS, RecordedLists
from modules.replay.sequences import LATE, NEAR, Answer, Sequences
from protos.cri.v1 import api_pb2 as pb

CHANGES: Final = frozenset(
    {
        "run_pod_sandbox",
        "stop_pod_sandbox",
        "remove_pod_sandbox",
        "create_container",
        "start_container",
        "stop_container",
        "remove_container",
        "pull_image",
        "remove_image",
        "update_container_resources",
        "reopen_container_log",
        "exec_sync",
    }
)
"""Calls that change something; the others look."""

_ANSWERS: Final[dict[str, type[Message] | list[type[Message]]]] = {
    "version": pb.VersionResponse,
    "status": pb.StatusResponse,
    "pod_sandbox_status": pb.PodSandboxStatusResponse,
    "container_status": pb.ContainerStatusResponse,
    "container_stats": pb.ContainerStats,
    "image_status": pb.Image,
    "list_pod_sandboxes": [pb.PodSandbox],
    "list_containers": [pb.Container],
    "list_container_stats": [pb.ContainerStats],
    "list_images": [pb.Image],
    "image_fs_info": [pb.FilesystemUsage],
}
"""Messages that answers are; ids stand for themselves."""

_LEAVE_IT: Final = frozenset({"exec_sync", "pull_image", "remove_image", "reopen_container_log"})
"""Calls of `CHANGES` that leave a pod as the lists show it."""
_SOON: Final = 0.02
"""Seconds within which two looks are of one moment."""
_ASKERS: Final = ("/Pleg", "")
"""Ends of the names of those who look."""

_ERROR: Final = re.compile(r"(\S+)(?: of (.*?))? failed: (.*) \(([A-Z_]+); .*\)", re.DOTALL)


class RecordedRuntime:
    """See the module's docstring.

    Args:
        actors: gives time, and futures to wait on.
        calls: that were recorded, in the order of their beginning.
        replace: puts this run's directories in the place of the recorded ones, in a JSON text.
        events: that were recorded, in their order, see `edged.cri.recording_events`.
    """

    def __init__(
        self,
        actors: Runtime,
        calls: list[CriCall],
        replace: Callable[[bytes], bytes],
        events: Sequence[CriEvent] = (),
    ) -> None:
        self.events = RecordedEvents(actors, events)
        self._actors = actors
        self._replace = replace
        self._redactor = Redactor()
        self._changed: dict[str, float] = {}
        """When the last change of an actor had been made in the recorded run."""
        self._changed_pods: dict[str, float] = {}
        """The same of each pod."""
        self.unanswered: list[CriCall] = []
        """Calls that the recorded run never made."""
        self._lists = RecordedLists(calls, events)
        self._pending = self._changes_of_pods(calls)
        """What changed each pod, and this run has yet to begin."""
        self._answers = Sequences((_key(call), Answer(call.time - call.seconds, call.time, call)) for call in calls)

    def container_events(
        self, opened: Callable[[], None], happened: Callable[[pb.ContainerEventResponse], None]
    ) -> NoReturn:
        """See the contract."""
        self.events.play(opened, happened)

    def client(self) -> ContainerRuntime:
        """What edged holds of it."""
        return cast("ContainerRuntime", self)

    def close(self) -> None:
        """See the contract."""

    def __getattr__(self, method: str) -> Callable[..., Any]:
        names = _NAMES.get(method)
        if names is None:
            raise AttributeError(method)

        def call(*positional: Any, **named: Any) -> Any:
            return self._call(method, {**dict(zip(names, positional, strict=False)), **named})

        self.__dict__[method] = call
        return call

    def _call(self, method: str, arguments: dict[str, Any]) -> Any:
        entry = CriEntry(0.0, 0, 0, 0, "", method, arguments, None, None, 0.0)
        now = self._actors.clock.monotonic()
        call = entry.record(now, self._redactor)
        key = role(method, call.request)
        answer = self._answers.change(key) if method in CHANGES else self._look(key, call)
        if answer is None:
            self.unanswered.append(call)
        elif method in CHANGES:
            self._pending.get(self._pod_of(call), {}).pop(id(answer.value), None)
        self._wait(None if answer is None else answer.end - now)
        assert answer is not None  # noqa: S101 - one that is not there is waited for without end
        if method in CHANGES:
            self._note_change(call, answer.end)
        if answer.value.error:
            raise _error(answer.value)
        return _answer(method, self._replace(answer.value.answer))

    def _note_change(self, call: CriCall, end: float) -> None:
        self._changed[current().actor] = end
        pod = self._pod_of(call)
        if call.method not in _LEAVE_IT:
            self._changed_pods[pod] = end

    def _changes_of_pods(self, calls: list[CriCall]) -> dict[str, dict[int, CriCall]]:
        """What changed each pod, by the identity of the call."""
        found: dict[str, dict[int, CriCall]] = {}
        for call in calls:
            if call.method in CHANGES and call.method not in _LEAVE_IT:
                found.setdefault(self._pod_of(call), {})[id(call)] = call
        return found

    def _pod_of(self, call: CriCall) -> str:
        """Uid of the pod that a call is about; empty for none."""
        request = msgspec.json.decode(call.request)
        config = request.get("sandbox_config") or request.get("config") or {}
        return config.get("metadata", {}).get("uid") or self._lists.pods.get(_subject_in(call.request), "")

    def _next_change(self, pod: str, now: float) -> Callable[[CriCall], bool]:
        """Whether a recorded look of a worker began before what this run has yet to do to the worker's pod.

        Spans tell: they are numbered when a call begins. What this run has left out for long, it does not do. Who looks
        while the worker works, as the PLEG does, may have seen it or not.
        """
        pending = self._pending.get(pod, {}).values() if pod else ()
        first = min((call.span for call in pending if call.time - call.seconds > now - LATE), default=None)
        return lambda look: first is None or look.span < first

    def _look(self, key: Hashable, call: CriCall) -> Answer[CriCall] | None:
        """What was seen at this time. What nobody looked at then is as it was when it was last looked at, or put
        together, unless something has happened to it since.
        """
        actor, now = current().actor, call.time
        asker, since = _asker(actor), self._changed.get(actor, 0.0)
        of_pod, subject = _pod_in(call.request), _subject_in(call.request)
        pod = "" if asker else of_pod or self._lists.pods.get(subject, "")
        before = self._next_change(pod, now)
        answer = self._of_this_moment(asker, key, of_pod, now, before)
        if answer is None and of_pod:
            answer = self._put_together(call, self._changed_pods.get(of_pod, 0.0))
        if answer is None and subject:
            answer = self._answers.last((asker, key), now, self._happened(subject, now))
        if answer is None:
            ahead = LATE if asker and call.method not in LISTS else NEAR
            since = max(since, self._changed_pods.get(of_pod, 0.0))
            answer = self._answers.near((asker, key), now, since, ahead=ahead, seen=before)
        return answer or self._put_together(call, 0.0) or self._of_another_time(asker, key, now)

    def _of_this_moment(
        self, asker: str, key: Hashable, pod: str, now: float, before: Callable[[CriCall], bool]
    ) -> Answer[CriCall] | None:
        """What the same asker saw a moment ago, or a moment later. Because of events the PLEG looks more or less often:
        of a pod it sees that only if nothing is told of the pod in between.
        """
        if not (asker and pod):
            return self._answers.near(
                (asker, key), now, self._changed.get(current().actor, 0.0), ahead=_SOON, seen=before
            )
        since = max(self._changed_pods.get(pod, 0.0), self._lists.told(pod, now), now - _SOON)
        ahead = min(_SOON, self._lists.next_told(pod, now) - now)
        return self._answers.near((asker, key), now, since, ahead=ahead, seen=before)

    def _happened(self, subject: str, now: float) -> float:
        """When something was last done to a sandbox or container, or to its pod, or was told of it."""
        pod = self._lists.pods.get(subject, "")
        return max(self._changed_pods.get(pod, 0.0), self._lists.told(subject, now))

    def _of_another_time(self, asker: str, key: Hashable, now: float) -> Answer[CriCall] | None:
        own = self._answers.other((asker, key), now)
        others = (self._answers.other((other, key), now) for other in _ASKERS if other != asker)
        return own or next(filter(None, others), None)

    def _put_together(self, call: CriCall, since: float) -> Answer[CriCall] | None:
        listed = self._lists.at(call.method, call.request, call.time, since)
        if listed is None:
            return None
        return Answer(call.time, call.time, msgspec.structs.replace(call, answer=listed))

    def _wait(self, seconds: float | None) -> None:
        """Wait as long as the recorded call took; None: without end."""
        if seconds is not None and seconds <= 0:
            return
        over = self._actors.future()
        if seconds is not None:
            self._actors.clock.after(seconds, over.set)
        over.get()


def _key(call: CriCall) -> Hashable:
    """The role of a call; of one that looks, and of which who asks makes his own number, with the asker."""
    key = role(call.method, call.request)
    return key if call.method in CHANGES else (_asker(call.sender), key)


def _pod_in(request: bytes) -> str:
    """The pod that a list is limited to; empty for none, and for what is no list."""
    asked = msgspec.json.decode(request)
    wanted = asked.get("sandbox_filter") or asked.get("container_filter") or {}
    return str((wanted.get("label_selector") or {}).get(POD_UID, ""))


def _subject_in(request: bytes) -> str:
    """The sandbox or container that a call is about; empty for none."""
    asked = msgspec.json.decode(request)
    return str(asked.get("container_id") or asked.get("sandbox_id") or "")


def _asker(actor: str) -> str:
    """Whose looks those of an actor are counted among: the PLEG's, which follow events and time, or the others'."""
    return next(asker for asker in _ASKERS if actor.endswith(asker))


def role(method: str, request: bytes) -> Hashable:
    """What a call is about: equal for the same call in two runs."""
    asked = msgspec.json.decode(request)
    match method:
        case "run_pod_sandbox":
            return method, *_metadata(asked["config"])
        case "create_container":
            return method, _metadata(asked["sandbox_config"])[0], *_metadata(asked["config"])
        case "pull_image":
            return method, asked["image"].get("image", "")
        case "stop_container" | "update_container_resources":
            return method, asked["container_id"]
        case _:
            said = {name: value for name, value in asked.items() if value}
            return method, msgspec.json.encode(said, order="deterministic")


def _metadata(config: dict[str, Any]) -> tuple[str, int]:
    """Uid (of a container its name) and attempt."""
    metadata = config.get("metadata", {})
    return metadata.get("uid") or metadata.get("name", ""), metadata.get("attempt", 0)


_NAMES: Final[dict[str, tuple[str, ...]]] = {
    name: function.__code__.co_varnames[1 : function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    for name, function in vars(ContainerRuntime).items()
    if not name.startswith("_") and hasattr(function, "__code__")
}
"""The methods of the contract, with the names of their arguments."""


@lru_cache(maxsize=4096)
def _answer(method: str, text: bytes) -> Any:
    """The answer that a JSON text stands for. Nobody changes an answer, so equal ones are one object."""
    value = msgspec.json.decode(text)
    if method == "exec_sync":
        return ExecResult(value["stdout"].encode(), value["stderr"].encode(), value["exit_code"])
    kind = _ANSWERS.get(method)
    if kind is None or value is None:
        return value
    if isinstance(kind, list):
        return [ParseDict(item, kind[0](), ignore_unknown_fields=True) for item in value]
    return ParseDict(value, kind(), ignore_unknown_fields=True)


def _error(call: CriCall) -> errors.CriError:
    kind = getattr(errors, call.error, errors.CriError)
    found = _ERROR.fullmatch(call.detail)
    if found is None:
        return cast("errors.CriError", kind(call.method, "", StatusCode.UNKNOWN, call.detail))
    operation, on, details, code = found.groups()
    return cast("errors.CriError", kind(operation, on or "", StatusCode[code], details))
