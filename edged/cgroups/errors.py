"""The errors of control groups."""

from edged.errors import EdgedError


class CgroupError(EdgedError):
    """A control group could not be made, set or removed."""


class CgroupBusyError(CgroupError):
    """The cgroup still has processes."""
