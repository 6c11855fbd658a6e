"""The container runtime of a replay."""

import re
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any, Final, NoReturn, cast

import msgspec
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from beehive import Runtime
from beehive.decoding import decode_json
from beehive.trace import CriCall, CriEvent, Note
from beehive.trace.format import SYNCED
from beehive.trace.redact import Redactor
from beehive.trace_context import current_context
from edged.cri import errors
from edged.cri.contract import ContainerRuntime, ExecResult
from edged.cri.recording import CriEntry
from edged.events.reasons import Reason
from edged.housekeeping import HOUSEKEEPER
from edged.lifecycle.waits import HOOK
from edged.pods.effective_grace_period import SHORTEST_STOP_SECONDS
from edged.pods.labels import POD_UID
from edged.probes.worker_pool import PROBER
from modules.lab.replay.events import RecordedEvents
from modules.lab.replay.inspection_reads import InspectionReads
from modules.lab.replay.lists import LISTS, RecordedLists
from modules.lab.replay.sequences import LATE, NEAR, RecordedAnswer, Sequences
from modules.lab.replay.termination import TerminationMessages
from modules.lab.replay.worker_reads import CHANGES, FIRST, WorkerReads
from protos.cri.v1 import api_pb2 as pb
from protos.status import StatusCode

_ANSWERS: Final[dict[str, type[Message] | list[type[Message]]]] = {
    "version": pb.VersionResponse,
    "status": pb.StatusResponse,
    "pod_sandbox_status": pb.PodSandboxStatusResponse,
    "container_status": pb.ContainerStatusResponse,
    "image_status": pb.Image,
    "list_pod_sandboxes": [pb.PodSandbox],
    "list_containers": [pb.Container],
    "list_container_stats": [pb.ContainerStats],
    "list_metric_descriptors": [pb.MetricDescriptor],
    "list_pod_sandbox_metrics": [pb.PodSandboxMetrics],
    "list_images": [pb.Image],
    "image_fs_info": [pb.FilesystemUsage],
}
"""Message types of answers; ids are plain text."""

_LEAVE_IT: Final = frozenset({"exec_sync", "pull_image", "remove_image", "reopen_container_log"})
"""Calls of `CHANGES` that do not change a pod's lists."""
_OF_IMAGES: Final = frozenset({"pull_image", "remove_image"})
_SOON: Final = 0.02
"""Seconds within which two reads count as simultaneous."""
_LONGEST: Final = 10.0
"""Seconds by which a busy machine begins a collection of containers later than its replay."""
_BEFORE: Final = 0.001
"""Seconds before the end of a grace period."""
_REASONS: Final = frozenset(Reason)
_ASKERS: Final = ("/Pleg", "")
"""Ends of the names of actors that read the runtime."""

_ERROR: Final = re.compile(r"(\S+)(?: of (.*?))? failed: (.*) \(([A-Z_]+); .*\)", re.DOTALL)


class RecordedRuntime:
    """A runtime that answers CRI calls with the recorded answers, at the recorded times.

    A call is matched by its operation, by its object (a pod's sandbox or container with its attempt, an id, an image, a
    filter) and by its number among equal calls. A recorded error is raised again. A changing call that was never
    recorded is not answered, because its outcome is unknown. Events come at their recorded times.

    Args:
        actors: source of time and futures.
        calls: recorded calls, in the order of their beginnings.
        replace: replaces the recorded directories in a JSON text by this run's.
        events: recorded events, in their order; see `edged.cri.recording_events`.
        messages: the containers' termination messages.
        turns: when edged took what other threads had for it.
        ends: the ends of pods that their workers noticed.
    """

    def __init__(
        self,
        actors: Runtime,
        calls: list[CriCall],
        replace: Callable[[bytes], bytes],
        events: Sequence[CriEvent] = (),
        messages: TerminationMessages | None = None,
        turns: Sequence[Note] = (),
        ends: Sequence[Note] = (),
    ) -> None:
        self._reported = [note for note in turns if note.text.partition(" ")[0] in _REASONS]
        """When edged took Events to report; empty if that is not known."""
        self._messages = messages or TerminationMessages(())
        self.events = RecordedEvents(actors, events)
        self._actors = actors
        self._replace = replace
        self._redactor = Redactor()
        self._changed: dict[str, float] = {}
        """End of each actor's last change in the recorded run."""
        self._changed_pods: dict[str, float] = {}
        """End of each pod's last change."""
        self._images_changed = 0.0
        """End of the last pull or removal of an image."""
        self.unanswered: list[CriCall] = []
        """Calls that the recorded run never made."""
        self.under_way: list[CriCall] = []
        """Calls that have been recorded and will be answered, in the order of their beginnings."""
        self._collections = deque(call.time - call.seconds for call in calls if _is_collection(call.sender, call))
        """When the collections of dead containers began that this run has not begun yet."""
        self._lists = RecordedLists(calls, events)
        self._pending = self._changes_of_pods(calls)
        """Changes of each pod that this run has not begun yet."""
        self._workers = WorkerReads((call for call in calls if _is_of_workers(call)), self._pod_of, _role_of)
        self._ends = {(note.data, self._workers.last_begun(note.data, note.time)) for note in ends}
        """The pod and the last step of each worker that noticed an end."""
        self._inspections = InspectionReads((call for call in calls if _asker(call.sender)), _role_of)
        self._synced: dict[str, list[CriEvent]] = {}
        """Results of jobs, by pod."""
        for event in events:
            if event.kind == SYNCED:
                self._synced.setdefault(event.subject, []).append(event)
        self._answers = Sequences(
            (_key(call), RecordedAnswer(call.time - call.seconds, call.time, call)) for call in calls
        )

    def container_events(
        self, opened: Callable[[], None], happened: Callable[[pb.ContainerEventResponse], None]
    ) -> NoReturn:
        """Play the next recorded stream of events (`ContainerRuntime.container_events`)."""
        self.events.play(opened, happened)

    def synced_at(self, pod: str) -> float:
        """Return when edged took the result of the job of this pod that has just ended; now if that is not recorded."""
        now = self._actors.clock.monotonic()
        return self._workers.ended_at(pod, self._synced.get(pod, ())) or now

    def read_at(self, pod: str, now: float) -> float:
        """Return when the recorded run began a reading of this pod by a worker that the replay began at `now`."""
        return self._workers.begun_at(pod, now)

    def noticed_end(self, pod: str, is_ending: bool) -> bool:
        """Return whether the worker of the recorded run noticed at this step that its pod was being ended
        (`Host.noticed_end`); whether it is in a run that recorded no such notice.
        """
        return (pod, self._workers.present(pod)) in self._ends if self._ends else is_ending

    def read_by_workers(self) -> dict[str, list[float]]:
        """Return when workers of the recorded run began to read each pod, by its uid."""
        return self._workers.begins()

    def client(self) -> ContainerRuntime:
        """Return the runtime as edged uses it."""
        return cast("ContainerRuntime", self)

    def close(self) -> None:
        """Do nothing."""

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
        if _is_collection(current_context().actor, call):
            now += self._await_collection(now)
            call = msgspec.structs.replace(call, time=now)
        key = role(method, call.request)
        answer = self._answers.change(key) if method in CHANGES else self._read(key, call)
        if answer is None:
            self.unanswered.append(call)
        elif method in CHANGES:
            self._pending.get(self._pod_of(call), {}).pop(id(answer.value), None)
            self._workers.change_made(current_context().actor, current_context().span, answer.value)
            self.under_way.append(call)
        end = now if answer is None else self._end_of(answer, now)
        self._wait(None if answer is None else end - now)
        assert answer is not None  # noqa: S101 - one that is not there is waited for without end
        if method in CHANGES:
            self.under_way.remove(call)
            self._record_change(call, end)
        if answer.value.error:
            raise _error(answer.value)
        found = answer.value.answer
        return _answer(method, self._replace(self._messages.add_to(found) if method == "container_status" else found))

    def _await_collection(self, now: float) -> float:
        """Wait until a collection of dead containers began in the recorded run, and return the seconds: a worker may
        have removed a container before.
        """
        begun = self._collections
        while begun and begun[0] < now - LATE:
            begun.popleft()
        seconds = begun.popleft() - now if begun and begun[0] <= now + _LONGEST else 0.0
        self._wait(seconds)
        return max(0.0, seconds)

    def _end_of(self, answer: RecordedAnswer[CriCall], now: float) -> float:
        """Return when to answer a call that was made now. The answer of a preStop hook that did not fail precedes the
        end of its grace period, which may be a second though commands have more: a busy machine learned of both later.
        """
        call = answer.value
        limit = decode_json(call.request).get("timeout_seconds", 0) if call.sender == HOOK and not call.error else 0
        least = 1 if limit == SHORTEST_STOP_SECONDS else limit
        if not (limit and self._reported) or answer.end < now + least:
            return answer.end
        failed = f"{Reason.FAILED_PRE_STOP_HOOK} {self._pod_of(call)}"
        is_failed = any(note.text.startswith(failed) and note.time > answer.begin for note in self._reported)
        return answer.end if is_failed else now + least - _BEFORE

    def _record_change(self, call: CriCall, end: float) -> None:
        self._changed[current_context().actor] = end
        pod = self._pod_of(call)
        if call.method not in _LEAVE_IT:
            self._changed_pods[pod] = end
        if call.method in _OF_IMAGES:
            self._images_changed = end

    def _changes_of_pods(self, calls: list[CriCall]) -> dict[str, dict[int, CriCall]]:
        """Return the changing calls of each pod, by the identity of the call."""
        found: dict[str, dict[int, CriCall]] = {}
        for call in calls:
            if call.method in CHANGES and call.method not in _LEAVE_IT:
                found.setdefault(self._pod_of(call), {})[id(call)] = call
        return found

    def _pod_of(self, call: CriCall) -> str:
        """Return the uid of the pod that a call is about; empty for calls about no pod."""
        request = decode_json(call.request)
        config = request.get("sandbox_config") or request.get("config") or {}
        uid = config.get("metadata", {}).get("uid") or _pod_in(call.request)
        return uid or self._lists.pods.get(_subject_in(call.request), "")

    def _next_change(self, pod: str, now: float) -> Callable[[CriCall], bool]:
        """Return whether a worker's recorded read precedes the next change that this run has yet to make to the pod.

        Spans tell, because a call gets its number when it begins. A change that is overdue is not waited for. Reads
        concurrent to the worker, such as the PLEG's, may have seen a change or not.
        """
        pending = self._pending.get(pod, {}).values() if pod else ()
        first = min((call.span for call in pending if call.time - call.seconds > now - LATE), default=None)
        return lambda read: first is None or read.span < first

    def _read(self, key: Hashable, call: CriCall) -> RecordedAnswer[CriCall] | None:
        """Return the answer of this time. If none was recorded near it, the last answer or a composed list holds,
        unless something has happened to the object since. An image that is there is asked about once a second for all
        pods, so which pod's worker asks is a race.
        """
        actor, now = current_context().actor, call.time
        asker, since = _asker(actor), self._changed.get(actor, 0.0)
        of_pod, subject = _pod_in(call.request), _subject_in(call.request)
        pod = "" if asker else of_pod or self._lists.pods.get(subject, "")
        before = self._next_change(pod, now)
        answer = self._of_inspection(key, call) if asker else self._of_worker(key, call, pod, before)
        answer = answer or self._of_this_moment(asker, key, of_pod, now, before)
        if answer is None and of_pod:
            answer = self._put_together(call, self._changed_pods.get(of_pod, 0.0))
        if answer is None and subject:
            answer = self._answers.last((asker, key), now, self._happened(subject, now))
        if answer is None and call.method == "image_status":
            last = self._answers.last((asker, key), now, self._images_changed)
            answer = last and last._replace(end=now)
        if answer is None:
            ahead = LATE if asker and call.method not in LISTS else NEAR
            since = max(since, self._changed_pods.get(of_pod, 0.0))
            answer = self._answers.near((asker, key), now, since, ahead=ahead, seen=before)
        return answer or self._put_together(call, 0.0) or self._of_another_time(asker, key, now)

    def _of_worker(
        self, key: Hashable, call: CriCall, pod: str, before: Callable[[CriCall], bool]
    ) -> RecordedAnswer[CriCall] | None:
        """Return the answer that the same worker got when it read the pod at this step of its job."""
        context = current_context()
        if call.method == FIRST and pod:
            until = self._lists.next_change_at(pod, call.time)
            self._workers.begin(context.actor, context.span, pod, call.time, until, before)
        found = self._workers.answer(context.actor, pod, key) if pod else None
        return None if found is None else RecordedAnswer(found.time - found.seconds, found.time, found)

    def _of_inspection(self, key: Hashable, call: CriCall) -> RecordedAnswer[CriCall] | None:
        """Return the answer that the PLEG got in the inspection of this time."""
        found = self._inspections.answer(call.method, key, call.time)
        return None if found is None else RecordedAnswer(found.time - found.seconds, found.time, found)

    def _of_this_moment(
        self, asker: str, key: Hashable, pod: str, now: float, before: Callable[[CriCall], bool]
    ) -> RecordedAnswer[CriCall] | None:
        """Return the answer that the same reader got at nearly the same moment. Events change how often the PLEG reads;
        an answer about a pod counts only if no event about the pod lies between.
        """
        if not (asker and pod):
            return self._answers.near(
                (asker, key), now, self._changed.get(current_context().actor, 0.0), ahead=_SOON, seen=before
            )
        since = max(self._changed_pods.get(pod, 0.0), self._lists.changed_at(pod, now), now - _SOON)
        ahead = min(_SOON, self._lists.next_change_at(pod, now) - now)
        return self._answers.near((asker, key), now, since, ahead=ahead, seen=before)

    def _happened(self, subject: str, now: float) -> float:
        """Return when a sandbox or container, or its pod, was last changed, or when the last event about it came."""
        pod = self._lists.pods.get(subject, "")
        return max(self._changed_pods.get(pod, 0.0), self._lists.changed_at(subject, now))

    def _of_another_time(self, asker: str, key: Hashable, now: float) -> RecordedAnswer[CriCall] | None:
        own = self._answers.other((asker, key), now)
        others = (self._answers.other((other, key), now) for other in _ASKERS if other != asker)
        return own or next(filter(None, others), None)

    def _put_together(self, call: CriCall, since: float) -> RecordedAnswer[CriCall] | None:
        listed = self._lists.at(call.method, call.request, call.time, since)
        if listed is None:
            return None
        return RecordedAnswer(call.time, call.time, msgspec.structs.replace(call, answer=listed))

    def _wait(self, seconds: float | None) -> None:
        """Wait as long as the recorded call took; None waits forever."""
        if seconds is not None and seconds <= 0:
            return
        over = self._actors.future()
        if seconds is not None:
            self._actors.clock.after(seconds, over.set)
        over.get()


def _is_collection(actor: str, call: CriCall) -> bool:
    """Return whether an actor begins to collect dead containers with a call."""
    return actor == HOUSEKEEPER and call.method == "list_containers" and call.request == b"{}"


def _is_of_workers(call: CriCall) -> bool:
    """Return whether a worker made a call. A pod's probes run beside its jobs, before or after them."""
    return call.sender != PROBER and not _asker(call.sender)


def _key(call: CriCall) -> Hashable:
    """Return the key of a call's sequence: its role, and for a read also the reader, because the PLEG's reads are
    counted on their own.
    """
    key = role(call.method, call.request)
    return key if call.method in CHANGES else (_asker(call.sender), key)


def _role_of(call: CriCall) -> Hashable:
    return role(call.method, call.request)


def _pod_in(request: bytes) -> str:
    """Return the pod that a list is limited to; empty otherwise."""
    asked = decode_json(request)
    wanted = asked.get("sandbox_filter") or asked.get("container_filter") or {}
    return str((wanted.get("label_selector") or {}).get(POD_UID, ""))


def _subject_in(request: bytes) -> str:
    """Return the sandbox or container that a call is about; empty for other calls."""
    asked = decode_json(request)
    return str(asked.get("container_id") or asked.get("sandbox_id") or "")


def _asker(actor: str) -> str:
    """Return the group of readers of an actor: the PLEG, which follows events and time, or all others."""
    return next(asker for asker in _ASKERS if actor.endswith(asker))


def role(method: str, request: bytes) -> Hashable:
    """Return the role of a call, which is equal for the same call in two runs."""
    asked = decode_json(request)
    match method:
        case "run_pod_sandbox":
            return method, *_metadata(asked["config"])
        case "create_container":
            return method, _metadata(asked["sandbox_config"])[0], *_metadata(asked["config"])
        case "pull_image":
            return method, asked["image"].get("image", "")
        case "stop_container":
            return method, asked["container_id"]
        case _:
            fields = {name: value for name, value in asked.items() if value}
            return method, msgspec.json.encode(fields, order="deterministic")


def _metadata(config: dict[str, Any]) -> tuple[str, int]:
    """Return uid (for a container its name) and attempt."""
    metadata = config.get("metadata", {})
    return metadata.get("uid") or metadata.get("name", ""), metadata.get("attempt", 0)


_NAMES: Final[dict[str, tuple[str, ...]]] = {
    name: function.__code__.co_varnames[1 : function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    for name, function in vars(ContainerRuntime).items()
    if not name.startswith("_") and hasattr(function, "__code__")
}
"""The contract's methods with the names of their arguments."""


@lru_cache(maxsize=4096)
def _answer(method: str, text: bytes) -> Any:
    """Return the answer in a JSON text. Answers are never changed, so equal ones share one object."""
    value = decode_json(text)
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
