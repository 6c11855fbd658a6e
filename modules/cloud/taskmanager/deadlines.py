"""The time-outs of a job, by this cloudcore's own monotonic clock: nothing depends on what a node says of the time."""

from modules.cloud.taskmanager.progress import JobLimits
from modules.cloud.taskmanager.statuses import JobStatus, NodeTask, TaskPhase


class Deadlines:
    """The time since when each task of a job, and the job, has been as it is.

    It begins anew with cloudcore: a restart lengthens a time-out, and never shortens it.
    """

    def __init__(self) -> None:
        self._limit = 0.0
        self._now = 0.0
        self._changed = 0.0
        self._since: dict[str, tuple[int, float]] = {}
        """Of each task in progress, how many actions it has reported, and since when."""
        self._seen: tuple[int, ...] = ()

    def observe(self, status: JobStatus, limits: JobLimits, now: float) -> None:
        """Look at the status as it is stored, at a time in monotonic seconds."""
        self._now, self._limit = now, limits.timeout
        running = {
            task.node_name: len(task.action_flow) for task in status.node_status if task.phase == TaskPhase.IN_PROGRESS
        }
        kept = {node: at for node, at in self._since.items() if running.get(node) == at[0]}
        self._since = {node: kept.get(node, (actions, now)) for node, actions in running.items()}
        seen = tuple(hash((task.phase, len(task.action_flow))) for task in status.node_status)
        if seen != self._seen:
            self._seen, self._changed = seen, now

    def is_overdue(self, task: NodeTask) -> bool:
        """Return whether a task in progress has shown nothing for too long."""
        _, since = self._since.get(task.node_name, (0, self._now))
        return self._now - since >= self._limit

    @property
    def quiet(self) -> float:
        """Seconds for which nothing has happened to the whole job."""
        return self._now - self._changed

    @property
    def is_stalled(self) -> bool:
        """Whether nothing has happened to the whole job for too long."""
        return self.quiet >= self._limit
