"""Kind of value of `shutdownGracePeriodByPodPriority`."""

from __future__ import annotations

from modules.processes.edgecore.config.value_kinds import UnfitError, ValueKind, Whole, shown

_PRIORITY = "priority"
_SECONDS = "shutdownGracePeriodSeconds"


class PriorityPeriods(ValueKind[dict[int, int]]):
    """A list of priorities with their seconds, which becomes a mapping."""

    priority = Whole("", -(2**31), 2**31 - 1)
    seconds = Whole("seconds", 0, 86_400)

    def __init__(self, most: int) -> None:
        """`most` is the largest number of entries."""
        self.most = most

    @property
    def expected(self) -> str:
        """The form of an entry."""
        return f"a list of at most {self.most}, each with {_PRIORITY} and {_SECONDS} (0 to {self.seconds.high})"

    def read(self, value: object) -> dict[int, int]:
        """Read a list; every entry is checked, and no priority may occur twice."""
        if not isinstance(value, list) or len(value) > self.most:
            raise UnfitError
        found: dict[int, int] = {}
        for entry in value:
            if not isinstance(entry, dict) or set(entry) != {_PRIORITY, _SECONDS}:
                raise UnfitError(shown(entry))
            priority = self.priority.read(entry[_PRIORITY])
            if priority in found:
                raise UnfitError(f"the priority {priority} comes twice")
            found[priority] = self.seconds.read(entry[_SECONDS])
        return found

    def write(self, setting: dict[int, int]) -> object:
        """Return a list."""
        return [{_PRIORITY: priority, _SECONDS: seconds} for priority, seconds in setting.items()]
