"""Processor and memory usage of nodes and their containers, from the summaries of nodes' servers.

Nodes are asked when a client asks here. A node's rate of processor time is its average since the request before, so a
node that was not asked for a while is asked twice.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Final, NamedTuple

import msgspec

from beehive.clock import Clock, Timer
from beehive.decoding import decode_json
from modules.cloud.apiserver.endpoints.pod_streams import NodeServer

_log = logging.getLogger(__name__)

TARGET: Final = "/stats/summary?only_cpu_and_memory=true"
BETWEEN_SECONDS: Final = 2.1
"""Between two questions: a node measures again after 2 s (`edged.stats.provider.FRESH`)."""
FRESH_SECONDS: Final = 5.0
"""Seconds that an answer is used again."""
KEPT_SECONDS: Final = 60.0
"""The longest time over which a rate may be the average."""
SILENT_SECONDS: Final = 30.0
"""Seconds without a question to a node that has not answered, so that it does not delay requests to other nodes."""
_MOST_PODS: Final = 1024
_MOST_CONTAINERS: Final = 256

PodKey = tuple[str, str, str]
"""Namespace, name and uid."""

_Amount = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Name = Annotated[str, msgspec.Meta(max_length=253)]


class _Cpu(msgspec.Struct, rename="camel"):
    usage_nano_cores: _Amount | None = None


class _Memory(msgspec.Struct, rename="camel"):
    working_set_bytes: _Amount | None = None


class _Measured(msgspec.Struct):
    cpu: _Cpu | None = None
    memory: _Memory | None = None


class _Container(_Measured, kw_only=True):
    name: _Name


class _Reference(msgspec.Struct):
    name: _Name
    namespace: _Name
    uid: _Name = ""


class _Pod(msgspec.Struct, rename="camel"):
    pod_ref: _Reference
    containers: Annotated[list[_Container], msgspec.Meta(max_length=_MOST_CONTAINERS)] = []


class _Summary(msgspec.Struct):
    """The part of kubelet's Summary that is needed."""

    node: _Measured
    pods: Annotated[list[_Pod], msgspec.Meta(max_length=_MOST_PODS)] = []


class MetricsPoint(NamedTuple):
    """The usage of processors and memory at a time."""

    nano_cores: int
    """Billionths of a core."""
    bytes: int
    """The working set of memory."""


class NodeUsage(NamedTuple):
    """A node's measurement."""

    at: float
    """Seconds since the epoch."""
    window: float
    """Seconds over which processor time is averaged."""
    node: MetricsPoint | None
    pods: dict[PodKey, dict[str, MetricsPoint]]
    """Usage of the containers by name, as the node reports it: the caller compares its pods with those bound to it."""


def _pause(clock: Clock, seconds: float) -> None:
    """Wait on a thread of an HTTP server."""
    over = threading.Event()
    clock.after(seconds, over.set)
    over.wait()


class UsageReader:
    """A reader of the usage of nodes and their pods, which asks the nodes and keeps the answers for a moment.
    Thread-safe.

    Args:
        source: asks them.
        clock: for times and the end of the cache.
    """

    def __init__(self, source: NodeServer, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: dict[str, float] = {}
        """Monotonic seconds of a node's last answer."""
        self._silent: dict[str, float] = {}
        """Monotonic seconds of a node's missing answer."""
        self._known: dict[str, NodeUsage] = {}
        self._timer: Timer | None = None

    def read(self, nodes: Iterable[str]) -> dict[str, NodeUsage]:
        """Return the usage of those nodes that answer, on a thread that may wait.

        Raises:
            ApiStatusError: no node can be asked.
        """
        with self._lock:
            self._drop_old()
            wanted = dict.fromkeys(nodes)
            due = [node for node in wanted if node not in self._known and node not in self._silent]
            first = [node for node in due if node not in self._asked]
            if first:
                self._ask(first, self._record_answer)
                if not self._asked.keys().isdisjoint(first):
                    _pause(self._clock, BETWEEN_SECONDS)
            again = [node for node in due if node in self._asked and node not in self._silent]
            if again:
                self._ask(again, self._keep)
            self._tidy_later(FRESH_SECONDS)
            return {node: self._known[node] for node in wanted if node in self._known}

    def _ask(self, nodes: list[str], took: Callable[[str, bytes], object]) -> None:
        self._silent |= dict.fromkeys(self._source.gather(nodes, TARGET, took), self._clock.monotonic())

    def _record_answer(self, node: str, _text: bytes) -> None:
        self._asked[node] = self._clock.monotonic()

    def _keep(self, node: str, text: bytes) -> None:
        now = self._clock.monotonic()
        window = now - self._asked.get(node, now)
        self._asked[node] = now
        try:
            summary = decode_json(text, _Summary)
        except (msgspec.DecodeError, UnicodeError) as error:
            _log.warning("node %s: its statistics cannot be read: %s", node, error)
            self._silent[node] = now
            return
        self._known[node] = NodeUsage(self._clock.now(), window, _usage(summary.node), dict(_pods(summary)))

    def _drop_old(self) -> None:
        now = self._clock.monotonic()
        self._silent = {node: at for node, at in self._silent.items() if now - at < SILENT_SECONDS}
        self._asked = {node: at for node, at in self._asked.items() if now - at < KEPT_SECONDS}
        fresh = {node for node, at in self._asked.items() if now - at < FRESH_SECONDS}
        self._known = {node: usage for node, usage in self._known.items() if node in fresh}

    def _tidy_later(self, seconds: float) -> None:
        is_due = self._timer is not None and self._timer.active
        if not is_due and (self._asked or self._silent):
            self._timer = self._clock.after(seconds, self._tidy)

    def _tidy(self) -> None:
        """Drop old answers, and set the timer again until none is left."""
        if not self._lock.acquire(blocking=False):
            return  # somebody reads, and will set the timer again
        try:
            self._drop_old()
            self._tidy_later(KEPT_SECONDS)
        finally:
            self._lock.release()


def _pods(summary: _Summary) -> Iterator[tuple[PodKey, dict[str, MetricsPoint]]]:
    for pod in summary.pods:
        found = {each.name: usage for each in pod.containers if (usage := _usage(each)) is not None}
        if found:
            yield (pod.pod_ref.namespace, pod.pod_ref.name, pod.pod_ref.uid), found


def _usage(measured: _Measured) -> MetricsPoint | None:
    """Return the measured usage, None if a part of it is missing."""
    cpu, memory = measured.cpu, measured.memory
    if cpu is None or cpu.usage_nano_cores is None or memory is None or memory.working_set_bytes is None:
        return None
    return MetricsPoint(cpu.usage_nano_cores, memory.working_set_bytes)
