"""The rows of the pods: contents, order, selection. Pure."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from edged.stats.model import PodStats
from modules.apimachinery.printing.fields import JsonObject, text_at
from modules.apimachinery.printing.pods import PodSummary, pod_summary
from modules.apimachinery.types.times import SECOND, TimeError, parse_time
from modules.processes.edgecore.top.look import NodeSnapshot
from modules.processes.edgecore.top.pod_waits import pod_reason
from modules.processes.edgecore.top.spans import Tone

_GOOD = frozenset({"Running"})
_ENDED = frozenset({"Completed", "Succeeded"})
_BUSY = frozenset({"Pending", "ContainerCreating", "PodInitializing", "Terminating"})


class SortKey(StrEnum):
    """The sort key of the rows."""

    NAME = "name"
    STATUS = "status"
    RESTARTS = "restarts"
    CPU = "cpu"
    MEMORY = "memory"
    AGE = "age"

    def following(self) -> "SortKey":
        """Return the next one, after the last the first."""
        keys = list(SortKey)
        return keys[(keys.index(self) + 1) % len(keys)]


class PodRow(NamedTuple):
    """A pod as it is shown. Texts are as they came."""

    uid: str
    namespace: str
    name: str
    ready: str
    status: str
    tone: Tone
    restarts: int
    restarted: float | None
    """Seconds since the last restart."""
    cpu: int | None
    """Billionths of a core."""
    memory: int | None
    """Bytes of the working set."""
    age: float | None
    """Seconds."""
    reason: str
    """Why it is not as it should be; empty if it is."""

    @property
    def title(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


def pod_rows(look: NodeSnapshot) -> list[PodRow]:
    """Return the rows of all pods, in the order of the answer."""
    usage = look.usage_by_uid()
    return [_row(pod, look, usage.get(text_at(pod, "metadata.uid"))) for pod in look.pods]


def selected(rows: Iterable[PodRow], words: str) -> list[PodRow]:
    """Return the rows where every word occurs, in name, status or reason; without regard to case."""
    wanted = words.lower().split()
    return [row for row in rows if all(word in f"{row.title} {row.status} {row.reason}".lower() for word in wanted)]


def ordered(rows: Iterable[PodRow], key: SortKey) -> list[PodRow]:
    """Return the rows in order: names and statuses from A, the largest figures and the youngest pods first."""

    def rank(row: PodRow) -> tuple[float | str, ...]:
        match key:
            case SortKey.NAME:
                return ()
            case SortKey.STATUS:
                return (_TONES.index(row.tone), row.status)
            case SortKey.RESTARTS:
                return (-row.restarts,)
            case SortKey.CPU:
                return (-(row.cpu or 0),)
            case SortKey.MEMORY:
                return (-(row.memory or 0),)
            case SortKey.AGE:
                return (float("inf") if row.age is None else row.age,)

    return sorted(rows, key=lambda row: (*rank(row), row.namespace, row.name, row.uid))


_TONES: Sequence[Tone] = (Tone.BAD, Tone.BUSY, Tone.STRONG, Tone.PLAIN, Tone.GOOD, Tone.FAINT)
"""Order by status: pods that need attention come first."""


def _row(pod: JsonObject, look: NodeSnapshot, usage: PodStats | None) -> PodRow:
    now, summary = look.state.now, pod_summary(pod)
    cpu, memory = (None, None) if usage is None else (usage.cpu, usage.memory)
    return PodRow(
        uid=text_at(pod, "metadata.uid"),
        namespace=text_at(pod, "metadata.namespace"),
        name=text_at(pod, "metadata.name"),
        ready=f"{summary.ready}/{summary.containers}",
        status=summary.status,
        tone=_tone(summary),
        restarts=summary.restarts,
        restarted=_since(summary.last_restart, now),
        cpu=None if cpu is None else cpu.usage_nano_cores,
        memory=None if memory is None else memory.working_set_bytes,
        age=_since(text_at(pod, "metadata.creationTimestamp") or text_at(pod, "status.startTime"), now),
        reason=pod_reason(pod, summary.status),
    )


def _tone(summary: PodSummary) -> Tone:
    if summary.status in _GOOD:
        return Tone.GOOD if summary.ready == summary.containers else Tone.BUSY
    if summary.status in _ENDED:
        return Tone.FAINT
    started = summary.status.removeprefix("Init:")
    return Tone.BUSY if summary.status in _BUSY or started[:1].isdecimal() else Tone.BAD


def _since(moment: str, now: float) -> float | None:
    try:
        return max(0.0, now - parse_time(moment) / SECOND) if moment else None
    except TimeError:
        return None
