"""Waves of a job: its nodes have their turn in groups, with a pause and a look at the failures between them.

Annotations of the job say so: `operations.edgecore.io/waves` has the numbers of nodes after each wave, such as
`1,10%,all`, and `operations.edgecore.io/pause` the seconds between two waves.
"""

import re
from collections.abc import Collection, Mapping
from math import ceil
from typing import Final, NamedTuple

from modules.cloud.taskmanager.progress import has_begun
from modules.cloud.taskmanager.statuses import FAILED, FINAL, NodeTask, TaskPhase

WAVES: Final = "operations.edgecore.io/waves"
PAUSE: Final = "operations.edgecore.io/pause"
_WAVE: Final = re.compile(r"([0-9]{1,6})(%?)|all", re.ASCII)
_PAUSE: Final = re.compile(r"[0-9]{1,6}", re.ASCII)
_MOST_WAVES: Final = 100
_SHOWN: Final = 5
"""Names in a reason."""


class Waves(NamedTuple):
    """The waves of a job."""

    sizes: tuple[str, ...]
    """Of each, as it is written."""
    pause: float
    """Seconds."""

    @classmethod
    def of(cls, annotations: Mapping[str, str]) -> "Waves | None":
        """Return the waves in annotations; None without any. Raises ValueError for a text that has none."""
        text = annotations.get(WAVES, "")
        if not text:
            return None
        sizes, pause = tuple(part.strip() for part in text.split(",")), annotations.get(PAUSE, "0")
        if len(sizes) > _MOST_WAVES or not all(_WAVE.fullmatch(each) for each in sizes) or not _PAUSE.fullmatch(pause):
            raise ValueError(f"no waves: {text[:60]!r} and {pause[:20]!r}; 1,10%,all and seconds are wanted")
        return cls(sizes, float(pause))

    def number(self, wave: int, nodes: int) -> int:
        """Return how many of so many nodes belong to the waves up to one; to those after the last, all."""
        if wave >= len(self.sizes):
            return nodes
        found = _WAVE.fullmatch(self.sizes[wave])
        if found is None or found[1] is None:
            return nodes
        return min(nodes, ceil(nodes * int(found[1]) / 100) if found[2] else int(found[1]))

    def open(self, tasks: list[NodeTask], connected: Collection[str], quiet: float) -> int:
        """Return how many tasks, from the first, are in the waves that have begun.

        A wave begins when all nodes of the ones before it that are here have ended, and nothing has happened for the
        pause. Nodes that are away hold up no wave, and have their turn when they come.

        Args:
            tasks: of the job, in order.
            connected: the nodes that are here.
            quiet: seconds for which nothing has happened to the job.
        """
        number = 0
        for wave in range(len(self.sizes) + 1):
            before, number = number, max(number, self.number(wave, len(tasks)))
            is_over = all(task.phase in FINAL or _is_away(task, connected) for task in tasks[:before])
            if wave and not any(map(has_begun, tasks[before:number])) and not (is_over and quiet >= self.pause):
                return before
        return number

    def begun(self, tasks: list[NodeTask]) -> tuple[int, int]:
        """Return how many waves have begun, and how many tasks they have."""
        waves = number = before = 0
        for wave in range(len(self.sizes) + 1):
            start, before = before, max(before, self.number(wave, len(tasks)))
            if any(map(has_begun, tasks[start:before])):
                waves, number = wave + 1, before
        return waves, number


def gate_of(tasks: list[NodeTask], ready: Collection[str], tolerance: float) -> str:
    """Return why the next wave waits: more of the nodes that have had their turn have failed, or are not ready now,
    than may; else "".

    Args:
        tasks: in the waves that have begun.
        ready: nodes that are ready.
        tolerance: share of the nodes.
    """
    ended = [task for task in tasks if task.phase in FINAL and has_begun(task)]
    lost = [task.node_name for task in ended if task.phase not in FAILED and task.node_name not in ready]
    failed = sum(task.phase in FAILED for task in ended)
    if not lost or failed + len(lost) <= tolerance * len(ended):
        return ""
    shown = ", ".join(lost[:_SHOWN]) + (", …" if len(lost) > _SHOWN else "")
    return f"the next wave waits: of the nodes that succeeded {len(lost)} are not ready now: {shown}"


def _is_away(task: NodeTask, connected: Collection[str]) -> bool:
    return task.phase == TaskPhase.PENDING and task.node_name not in connected


def stop_of(tasks: list[NodeTask], tolerance: float) -> str:
    """Return why no further node has its turn: more nodes have failed than may; else "".

    The share is one of all nodes of these waves, as the first few that end of a large wave say little.

    Args:
        tasks: in the waves that have begun.
        tolerance: share of the nodes.
    """
    own = [task for task in tasks if has_begun(task) or task.phase == TaskPhase.PENDING]
    failed = sum(task.phase in FAILED and bool(task.action_flow) for task in own)
    if failed <= tolerance * len(own):
        return ""
    return f"the waves have stopped: {failed} of the {len(own)} nodes of the waves so far have failed"
