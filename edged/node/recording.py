"""Records what edged gets from no message and no runtime: facts and usage of the machine, variables of Services, the
ends of pods that their workers notice.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from beehive.trace.entries import EntrySink
from beehive.trace.format import Note, Record
from beehive.trace.redact import Redactor
from edged.cri.contract import ContainerRuntime
from edged.eviction_api.usage import PodUsage
from edged.node.machine import MachineFacts, MachineInfo, MachineUsage
from edged.pods.model import PodUid
from modules.apimachinery.attempts import AttemptError
from modules.apimachinery.types import Pod


class _Names(msgspec.Struct, frozen=True):
    kind: str
    """Kind of the notes."""
    machine: str
    """Texts of the notes."""
    usage: str
    pods: str
    services: str
    ends: str


MACHINE_NOTES: Final = _Names("figures", "machine", "usage", "pods", "services", "ends")


class ServiceVariables(msgspec.Struct, frozen=True):
    """The variables of Services that a worker received (`Host.service_links`)."""

    namespace: str
    enabled: bool
    seconds: float
    """How long it waited."""
    variables: dict[str, str]
    error: tuple[str, str, str, bool] | None = None
    """Arguments of the `AttemptError`."""
    uid: str = ""
    """Of the pod; empty in older recordings."""


class MachineInfoEntry(msgspec.Struct, frozen=True):
    """Facts or usage that edged has received (`beehive.trace.entries.Entry`)."""

    time: float
    text: str
    data: Any
    size: int = 1000
    """Bytes of memory that the entry takes, roughly."""

    def record(self, time: float, redactor: Redactor) -> Record:
        """Return the note of the entry. Only variables of Services may be equal to a secret, such as an address."""
        data = msgspec.to_builtins(self.data)
        if self.text == MACHINE_NOTES.services:
            data["variables"] = {name: redactor.value(value) for name, value in data["variables"].items()}
        return Note(time, 0, 0, 0, MACHINE_NOTES.kind, "edged", self.text, data)


class RecordingMachineInfo(MachineInfo):
    """A recorder of the facts and usage of the machine whenever edged receives others than before: a replay has no
    machine.

    Args:
        figures: the source.
        sink: takes a `MachineInfoEntry` for each of them.
    """

    def __init__(self, figures: MachineInfo, sink: EntrySink) -> None:
        super().__init__()
        self._figures = figures
        self._sink = sink
        self._told: dict[str, Any] = {}

    def machine(self, root: Path, node_ip: str = "") -> MachineFacts:
        """See `MachineInfo`."""
        machine = self._figures.machine(root, node_ip)
        self._record(MACHINE_NOTES.machine, machine)
        return machine

    def usage(self, root: Path, images: Path | None = None) -> MachineUsage:
        """See `MachineInfo`."""
        usage = self._figures.usage(root, images)
        self._record(MACHINE_NOTES.usage, usage)
        return usage

    def pods(self, runtime: ContainerRuntime, *, anew: bool = False) -> tuple[PodUsage, ...]:
        """See `MachineInfo`."""
        pods = self._figures.pods(runtime, anew=anew)
        self._record(MACHINE_NOTES.pods, pods)
        return pods

    def _record(self, text: str, figures: MachineFacts | MachineUsage | tuple[PodUsage, ...]) -> None:
        if self._told.get(text) != figures:
            self._told[text] = figures
            self._sink.add(MachineInfoEntry(self._sink.monotonic(), text, figures))


def recorded_links(
    links: Callable[[str, bool], Mapping[str, str]], sink: EntrySink
) -> Callable[[Pod], Mapping[str, str]]:
    """Return `Host.service_links` that records each answer and error: a replay has no Services.

    Args:
        links: returns the variables for a namespace and `enableServiceLinks`.
        sink: takes a `MachineInfoEntry` for each answer.
    """

    def record(pod: Pod, began: float, found: Mapping[str, str], error: AttemptError | None) -> None:
        now = sink.monotonic()
        told = (error.attempt, error.on, error.hint, error.retryable) if error is not None else None
        size = 1000 + sum(map(len, found)) + sum(map(len, found.values()))
        answer = ServiceVariables(*links_wanted(pod), now - began, dict(found), told, pod.metadata.uid)
        sink.add(MachineInfoEntry(now, MACHINE_NOTES.services, answer, size))

    def recorded(pod: Pod) -> Mapping[str, str]:
        began = sink.monotonic()
        try:
            found = links(*links_wanted(pod))
        except AttemptError as error:
            record(pod, began, {}, error)
            raise
        record(pod, began, found, None)
        return found

    return recorded


def recorded_ends(sink: EntrySink) -> Callable[[PodUid, bool], bool]:
    """Return `Host.noticed_end` that records each pod whose worker has noticed its end: whether the end comes in time
    for a worker that is under way is a race of two threads.

    Args:
        sink: takes a `MachineInfoEntry` for each of them.
    """

    def noticed(uid: PodUid, is_ending: bool) -> bool:
        if is_ending:
            sink.add(MachineInfoEntry(sink.monotonic(), MACHINE_NOTES.ends, uid, size=200))
        return is_ending

    return noticed


def links_wanted(pod: Pod) -> tuple[str, bool]:
    """Return a pod's namespace and `enableServiceLinks`, which decide on its variables."""
    return pod.metadata.namespace, pod.spec.enable_service_links is not False
