"""Makes fixtures: reduces a recorded run to one pod and records today's code on it.

Messages, calls, rows and list items of other pods are left out; entries about no pod stay. The whole node is then
replayed and recorded, so that the fixture is consistent and shows what today's code does in each module.
"""

import base64
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from beehive.decoding import decode_json
from beehive.names import Operation
from beehive.trace import Change, CriCall, CriEvent, Delivered, LinkFrame, Record, RecordedMessage, StoreCommit
from modules.apimachinery.application import Target, key_of
from modules.lab.replay.directories import Directories
from modules.lab.replay.errors import ReplayError
from modules.lab.replay.event_outputs import is_event
from modules.lab.replay.events import STREAM
from modules.lab.replay.outputs import POD_UID, message_of
from modules.lab.replay.recorded import Recorded
from modules.lab.replay.run import Replayed, replay

_LIST_OF_PODS = key_of(Target("", "v1", "pods"))
_OF_PODS = frozenset({"pod", "podpatch", "podstatus"})
_REPEATED = frozenset({"list_pod_sandboxes", "list_containers", "status"})
_LISTS = frozenset({"list_pod_sandboxes", "list_containers"})


def reduced(recorded: Recorded, namespace: str, name: str) -> Recorded:
    """Return the run without the records about other pods.

    Raises:
        ReplayError: the trace has no such pod.
    """
    reducer = _Reducer(recorded, namespace, name)
    records = tuple(kept for record in recorded.records for kept in reducer.of(record))
    if not reducer.met:
        known = ", ".join(sorted(_pods_in(recorded))[:10]) or "no pod at all"
        raise ReplayError("cannot make a fixture", f"no pod {namespace}/{name} in the trace", f"it knows {known}")
    return msgspec.structs.replace(recorded, records=records, number=1)


def rerecorded(recorded: Recorded, root: Path) -> tuple[Recorded, Replayed]:
    """Return the run as today's code does it, and the comparison with the old one.

    Args:
        recorded: the run.
        root: an empty directory.
    """
    result = replay(recorded, root)
    directories = Directories(recorded.header, root)
    done = (record for record in result.records() if record.time <= recorded.end)
    records = [_with_texts(record, directories.theirs) for record in _thinned(done)]
    return msgspec.structs.replace(recorded, records=tuple(sorted(records, key=_time)), number=1), result


def _time(record: Record) -> float:
    return record.time


def _thinned(records: Iterable[Record]) -> Iterator[Record]:
    """Leave out repeated answers to the PLEG and the node's watch: of equal answers the first and the last stay."""
    waiting: dict[str, CriCall] = {}
    for record in records:
        if not isinstance(record, CriCall) or record.method not in _REPEATED or b"selector" in record.request:
            yield record
            continue
        last = waiting.get(record.method)
        if last is not None and last.answer != record.answer:
            yield last
        if last is None or last.answer != record.answer:
            yield record
        waiting[record.method] = record


class _Reducer:
    """The reduction of records to one pod."""

    def __init__(self, recorded: Recorded, namespace: str, name: str) -> None:
        self._namespace = namespace
        self._name = name
        self.met = False
        """Whether a record was about the pod."""
        self._others = _pods_in(recorded) - {f"{namespace}/{name}"}
        """The other pods, as namespace and name."""
        self._subjects: dict[str, str] = {}
        """Names of pods by the ids of their sandboxes and containers."""
        for call in recorded.calls():
            self._learn(call)

    def of(self, record: Record) -> Iterator[Record]:
        """Yield the rest of a record, if any."""
        match record:
            case Delivered():
                message = self._message(record.message)
                if message is not None:
                    yield msgspec.structs.replace(record, message=message)
            case LinkFrame():
                message = message_of(record.frame)
                if message is not None and message.operation == Operation.APPLICATION_RESPONSE:
                    yield msgspec.structs.replace(record, frame=self._answer_in(record.frame))
                elif message is None or not self._is_of_another(message.resource):
                    yield record
            case StoreCommit():
                yield from self._commit(record)
            case CriCall():
                yield from self._call(record)
            case CriEvent():
                if record.kind in STREAM and self._concerns(record):
                    yield record
            case _:
                yield record

    def _concerns(self, event: CriEvent) -> bool:
        """Return whether an event of the stream is about the pod, or about the stream itself."""
        mine = f"{self._namespace}/{self._name}"
        return not event.subject or self._subjects.get(event.subject, mine) == mine

    def _is_of_another(self, resource: str) -> bool:
        """Return whether a resource is another pod, belongs to one, or is an event about one (named after the pod)."""
        parts = resource.split("/")
        if len(parts) == 3 and is_event(resource):
            return f"{parts[0]}/{parts[2].rpartition('.')[0]}" in self._others
        if len(parts) != 3 or parts[1] not in _OF_PODS:
            return False
        mine = parts[0] == self._namespace and parts[2] == self._name
        self.met = self.met or mine
        return not mine

    def _message(self, message: RecordedMessage) -> RecordedMessage | None:
        if self._is_of_another(message.resource):
            return None
        if message.resource.endswith("/pod") and message.operation == "response":
            return msgspec.structs.replace(message, content=self._own_pods(message.content))
        if message.operation == Operation.APPLICATION_RESPONSE:
            return msgspec.structs.replace(message, content=self._own_listed(message.content))
        return message

    def _answer_in(self, frame: bytes) -> bytes:
        """Reduce a frame with the cloud's answer to an Application."""
        envelope = decode_json(frame, dict[str, msgspec.Raw])
        content = self._own_listed(bytes(envelope["content"]))
        return msgspec.json.encode({**envelope, "content": msgspec.Raw(content)})

    def _own_listed(self, content: bytes) -> bytes:
        """Reduce the cloud's answer to an Application if it is a list of pods."""
        app = decode_json(content)
        if not isinstance(app, dict) or app.get("Key") != _LIST_OF_PODS or not app.get("RespBody"):
            return content
        body = decode_json(base64.b64decode(app["RespBody"]))
        items = [item for item in body["items"] if self._is_mine(item["metadata"])]
        return msgspec.json.encode({**app, "RespBody": msgspec.json.encode({**body, "items": items})})

    def _own_pods(self, content: bytes) -> bytes:
        """Reduce a list of pods as texts."""
        items = decode_json(content)
        if not isinstance(items, list):
            return content
        return msgspec.json.encode([item for item in items if self._is_mine(_object(item).get("metadata") or {})])

    def _is_mine(self, metadata: dict[str, Any]) -> bool:
        return (metadata.get("namespace"), metadata.get("name")) == (self._namespace, self._name)

    def _commit(self, commit: StoreCommit) -> Iterator[Record]:
        changes = tuple(change for change in commit.changes if not self._is_of_another(change.key))
        if changes or commit.error:
            yield msgspec.structs.replace(commit, changes=changes)

    def _call(self, call: CriCall) -> Iterator[Record]:
        request = decode_json(call.request)
        pod = self._pod_of(request)
        if pod and pod != f"{self._namespace}/{self._name}":
            return
        if call.method in _LISTS and call.answer:
            mine = [item for item in decode_json(call.answer) if self._is_own_item(item)]
            yield msgspec.structs.replace(call, answer=msgspec.json.encode(mine))
        else:
            yield call

    def _is_own_item(self, item: dict[str, Any]) -> bool:
        return self._subjects.get(item["id"], "") == f"{self._namespace}/{self._name}"

    def _pod_of(self, request: dict[str, Any]) -> str:
        """Return namespace and name of the pod that a call is about; empty for calls about no pod."""
        config = request.get("sandbox_config") or request.get("config")
        if config:
            metadata = config.get("metadata", {})
            return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        for name_of_filter in ("sandbox_filter", "container_filter"):
            uid = ((request.get(name_of_filter) or {}).get("label_selector") or {}).get(POD_UID)
            if uid:
                return self._subjects.get(uid, str(uid))
        subject = str(request.get("container_id") or request.get("sandbox_id") or "")
        return self._subjects.get(subject, subject)

    def _learn(self, call: CriCall) -> None:
        if not call.answer:
            return
        if call.method in _LISTS:
            for item in decode_json(call.answer):
                labels = item.get("labels", {})
                pod = f"{labels.get(_NAMESPACE, '')}/{labels.get(_NAME, '')}"
                self._subjects[item["id"]] = self._subjects[labels.get(POD_UID, "")] = pod
        elif call.method in ("run_pod_sandbox", "create_container"):
            request = decode_json(call.request)
            pod = self._pod_of(request)
            metadata = (request.get("sandbox_config") or request["config"]).get("metadata", {})
            self._subjects[decode_json(call.answer)] = self._subjects[metadata.get("uid", "")] = pod


_NAME = "io.kubernetes.pod.name"
_NAMESPACE = "io.kubernetes.pod.namespace"


def _object(item: Any) -> dict[str, Any]:
    value = decode_json(item) if isinstance(item, str) else item
    return value if isinstance(value, dict) else {}


def _pods_in(recorded: Recorded) -> set[str]:
    resources = (one.message.resource.split("/") for one in recorded.delivered())
    return {f"{parts[0]}/{parts[2]}" for parts in resources if len(parts) == 3 and parts[1] == "pod"}


def _with_texts(record: Record, plain: Callable[[bytes], bytes]) -> Record:
    """Replace directories in all texts of a record."""
    replace = msgspec.structs.replace
    match record:
        case CriCall():
            detail = plain(record.detail.encode()).decode()
            return replace(record, request=plain(record.request), answer=plain(record.answer), detail=detail)
        case Delivered():
            return replace(record, message=replace(record.message, content=plain(record.message.content)))
        case LinkFrame():
            return replace(record, frame=plain(record.frame))
        case StoreCommit():
            return replace(record, changes=tuple(_changed(change, plain) for change in record.changes))
        case _:
            return record


def _changed(change: Change, plain: Callable[[bytes], bytes]) -> Change:
    return msgspec.structs.replace(change, value=plain(change.value))
