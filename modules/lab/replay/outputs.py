"""Extracts from records the outputs of a module or of the whole node.

Outputs are messages to others and answers, CRI calls that change something, frames to the cloud, and rows of the store.
Each has the object it is about, because the order of outputs is defined only for one object.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.names import SHUTDOWN_RESOURCE, ModuleName, Operation, ResourceType
from beehive.resource import Side, type_of
from beehive.trace import CriCall, Delivered, Direction, LinkFrame, Record, RecordedMessage, StoreCommit
from edged.cri.contract import SERVER_ACTOR
from edged.probes.worker_pool import PROBER
from edgehub.subject import subject
from modules.lab.replay.event_outputs import event_lines, is_event
from modules.lab.replay.normalize import Ids, lines
from modules.lab.replay.worker_reads import CHANGES

NODE: Final = ""
"""The whole node, where a module's name is expected."""
MODULES: Final = (ModuleName.METAMANAGER, ModuleName.DEVICETWIN, ModuleName.EDGED, ModuleName.EDGEHUB)
"""Modules that can be replayed, alone or together as a whole node, in the order of their start."""

POD_UID: Final = "io.kubernetes.pod.uid"
"""Label of sandboxes and containers; see `edged.pods.labels`."""
ROTATION: Final = "reopen_container_log"
"""A call that depends on the files of logs alone, which are in no trace."""
_MOMENT: Final = 1.0
"""Window, in seconds, where a device's changes may be stored together or one by one."""
_OF_THE_NODE: Final = frozenset({"node", "nodepatch", "nodestatus", "lease"})


class Output(msgspec.Struct, frozen=True):
    """One output."""

    time: float
    about: Hashable
    """Object, or part of it, within which the order of outputs counts."""
    title: str
    """Summary in one line."""
    lines: tuple[str, ...]
    """The whole output in normal form."""
    ordered: bool = True
    """Whether count and order matter; otherwise only that it occurred at all."""
    passing: bool = False
    """Whether the other run may lack it: it was soon replaced by another one, or is the only command of a probe, whose
    time is drawn: its container has ended before the next one.
    """


class RunOutputs:
    """The outputs of one run.

    Args:
        module: name of the module, or `NODE`.
        given: ids of messages that came from outside.
        same_machine: whether both runs had the same machine; if not, contents about the node are not compared.
        plain: replaces directories in a JSON text by the recorded ones.
        pods: pod uids by the ids of sandboxes and containers, as far as they are known.
    """

    def __init__(
        self,
        module: str,
        given: frozenset[str],
        *,
        same_machine: bool = True,
        plain: Callable[[bytes], bytes] = lambda text: text,
        pods: dict[str, str] | None = None,
    ) -> None:
        self._module = module
        self._same_machine = same_machine
        self._plain = plain
        self._given = given
        self._ids = Ids(given)
        self.pods: dict[str, str] = dict(pods or {})

    def outputs(self, records: Iterable[Record]) -> list[Output]:
        """Return the outputs in their order: a span is drawn when something begins."""
        found = []
        for record in sorted(records, key=lambda record: record.span):
            found += self._of(record)
        return found if self._module else _with_passing(found)

    def _of(self, record: Record) -> "list[Output]":
        match record:
            case Delivered() if self._leaves(record) and not is_shutdown(record):
                return self._message(sent_at(record), record.module, record.way, record.message)
            case CriCall(method=method) if method == ROTATION:
                return []
            case CriCall() if self._module in (NODE, ModuleName.EDGED) and record.sender != SERVER_ACTOR:
                return self._call(record)
            case LinkFrame(direction=Direction.OUT) if self._module in (NODE, ModuleName.EDGEHUB):
                return self._frame(record)
            case StoreCommit(operation="commit") if self._module in (NODE, ModuleName.METAMANAGER):
                return self._commit(record)
            case _:
                return []

    def _leaves(self, record: Delivered) -> bool:
        """Return whether a message left the replayed part: the module, or all that are replayed together."""
        if self._module:
            return belongs(record.sender, self._module)
        if not is_played(record.sender):
            return False
        return record.message.parent_id in self._given if record.way == "response" else not is_played(record.module)

    def _message(self, time: float, to: str, way: str, message: RecordedMessage) -> list[Output]:
        answer = way == "response"
        to = "who asked" if answer else to
        on = subject(message.message())
        what = f"{message.operation} {on}"
        self._ids.add(message.id, what)
        unordered = message.operation in (Operation.QUERY, Operation.KEEPALIVE)
        content: Any = None
        if is_event(message.resource) and not answer:
            title, text = event_lines(_decoded(self._plain(message.content)))
            return [Output(time, (to, title), f"{title} to {to}", text, ordered=False)]
        if self._same_machine or type_of(message.resource, Side.EDGE) not in _OF_THE_NODE:
            content = _decoded(self._plain(message.content))
        else:
            unordered = True
        parent = self._ids.name(message.parent_id)
        envelope = {
            "source": message.source,
            "group": message.group,
            "sync": message.sync,
            "resourceversion": message.resourceversion,
            **({"answers": parent} if parent else {}),
        }
        about: Hashable = ("answer", parent) if answer else (to, on)
        if (
            way == "frame" and self._module == NODE
        ):  # no order between acknowledgements of metamanager, nor of one and edged's message
            about = (to, on, parent or message.source)
        title = f"{way} {what} to {to}"
        return [Output(time, about, title, (title, *lines({**envelope, "content": content})), not unordered)]

    def _call(self, call: CriCall) -> list[Output]:
        if call.method not in CHANGES:
            self._learn(call)
            return []
        request = decode_json(self._plain(call.request))
        about = self._about(call, request)
        title = f"{call.method} {subject_of(request)}"
        if call.method == "pull_image":
            del request["sandbox_config"]
        is_probe = call.sender == PROBER
        text = (title, *lines(request))
        return [Output(_began(call), ("runtime", *about), title, text, ordered=not is_probe, passing=is_probe)]

    def _about(self, call: CriCall, request: dict[str, Any]) -> tuple[str, ...]:
        """Return the object of a call, usually its pod. Containers are stopped concurrently, so each stop is an object
        of its own, and so is each command of a hook or probe, which other threads run. Pods that need an image at the
        same moment share one pull (`edged.images.puller`), and for which of them it is made is a race.
        """
        config = request.get("sandbox_config") or request.get("config") or {}
        uid = config.get("metadata", {}).get("uid", "")
        subject = subject_of(request)
        if uid and call.answer:
            self.pods[str(_decoded(call.answer))] = uid
        if call.method == "stop_container":
            return "stop", subject
        if call.method == "pull_image":
            return "pull", subject
        if call.method == "exec_sync":
            return "exec", subject, *request["command"]
        return (uid or self.pods.get(subject, subject),)

    def _learn(self, call: CriCall) -> None:
        if call.method in ("list_containers", "list_pod_sandboxes") and call.answer not in (b"", b"null"):
            for item in decode_json(call.answer, list[_Listed]):
                self.pods.setdefault(item.id, item.labels.get(POD_UID, item.id))

    def _frame(self, frame: LinkFrame) -> list[Output]:
        message = message_of(frame.frame)
        if message is None:
            title = "frame that is no message"
            return [Output(frame.time, ("link", ""), title, (title, *lines(_decoded(frame.frame))))]
        return self._message(frame.time, "the cloud", "frame", message)

    def _commit(self, commit: StoreCommit) -> list[Output]:
        if commit.error:
            return []
        found = []
        for change in commit.changes:
            title = f"{change.operation} {change.key} in the store"
            value = _decoded(self._plain(change.value)) if change.value else None
            if is_event(change.key):
                event, text = event_lines(value)
                found.append(Output(commit.time, ("store", event), f"{event} in the store", text, ordered=False))
                continue
            found.append(Output(commit.time, ("store", change.key), title, (title, *lines({"value": value}))))
        return found


class _Listed(msgspec.Struct):
    id: str = ""
    labels: dict[str, str] = {}


class _Header(msgspec.Struct):
    msg_id: str = ""
    parent_msg_id: str = ""
    timestamp: int = 0
    resourceversion: str = ""
    sync: bool = False
    type: str = ""


class _Route(msgspec.Struct):
    source: str = ""
    destination: str = ""
    group: str = ""
    operation: str = ""
    resource: str = ""


class _Envelope(msgspec.Struct):
    header: _Header
    route: _Route
    content: msgspec.Raw = msgspec.Raw(b"null")


def message_of(frame: bytes) -> RecordedMessage | None:
    """Return the message in a recorded frame, or None if the frame is no message."""
    try:
        envelope = decode_json(frame, _Envelope)
    except msgspec.DecodeError:
        return None
    header, route = envelope.header, envelope.route
    return RecordedMessage(
        header.msg_id, header.parent_msg_id, header.timestamp, header.resourceversion, header.sync, header.type,
        route.source, route.destination, route.group, route.operation, route.resource, bytes(envelope.content),
    )  # fmt: skip


def belongs(actor: str, module: str) -> bool:
    """Return whether an actor is a module or one of the module's own actors."""
    return actor == module or actor.startswith(f"{module}/")


def _with_passing(outputs: list[Output]) -> list[Output]:
    """Mark the rows of a device that were written again within a moment. devicetwin stores together what comes during a
    commit, and how much that is depends on the threads of a whole node.
    """
    found: list[Output] = []
    later: dict[str, float] = {}
    for output in reversed(outputs):
        match output.about:
            case ("store", str(key)) if type_of(key, Side.EDGE) == ResourceType.DEVICE_TWIN:
                is_passing = later.get(key, float("inf")) - output.time <= _MOMENT
                later[key] = output.time
                found.append(msgspec.structs.replace(output, passing=is_passing))
            case _:
                found.append(output)
    return found[::-1]


def is_played(actor: str) -> bool:
    """Return whether an actor belongs to a module that is replayed with the whole node."""
    return any(belongs(actor, name) for name in MODULES)


def is_shutdown(record: Delivered) -> bool:
    """Return whether edged sent itself a message that the machine shuts down, or no longer does; it gets that from
    logind.
    """
    return record.module == ModuleName.EDGED and record.message.resource == SHUTDOWN_RESOURCE


def sent_at(record: Delivered) -> float:
    """Return when a message was sent."""
    return record.time - record.handled - record.waited


def handled_from(record: Delivered) -> float:
    """Return when its handler began."""
    return record.time - record.handled


def _began(record: Record) -> float:
    match record:
        case Delivered():
            return sent_at(record)
        case CriCall(method=method) if method in CHANGES:
            return record.time - record.seconds
        case _:
            return record.time


def subject_of(request: dict[str, Any]) -> str:
    """Return a readable name of the object of a CRI call."""
    config = request.get("config", {})
    if config:
        metadata = config.get("metadata", {})
        of = request.get("sandbox_config", {}).get("metadata", {}).get("name", metadata.get("namespace", ""))
        attempt = metadata.get("attempt", 0)
        return f"{metadata.get('name', '')} of {of}" + (f" #{attempt}" if attempt else "")
    image = request.get("image")
    if isinstance(image, dict):
        return str(image.get("image", ""))
    return str(request.get("container_id") or request.get("sandbox_id") or "")


def _decoded(text: bytes) -> Any:
    try:
        return decode_json(text)
    except (msgspec.DecodeError, UnicodeError):
        return text.decode("utf-8", "replace")
