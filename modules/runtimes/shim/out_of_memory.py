"""Whether the kernel has killed a process of a container for its limit of memory."""

from functools import cache

_CGROUPS = "/sys/fs/cgroup"
_LONGEST = 64 * 1024


def ran_out_of_memory(groups: str) -> bool:
    """Return whether it has killed one in control groups that are still there.

    Args:
        groups: of a process, as /proc/PID/cgroup has them while it lives.
    """
    lines = (line.split(":", 2) for line in groups.splitlines())
    paths = {each: path for _, controllers, path in lines for each in controllers.split(",")}  # v2 has none
    if "memory" in paths:
        file = f"{_CGROUPS}/memory{paths['memory']}/memory.oom_control"
    elif "" in paths:
        try:
            file = f"{_CGROUPS}{paths[''].removeprefix(_mounted_group())}/memory.events"
        except OSError:
            return False
    else:
        return False
    return any(field.startswith("oom_kill ") and field != "oom_kill 0" for field in _text(file).splitlines())


@cache
def _mounted_group() -> str:
    """Return the control group (v2) that is mounted: in a node without root, not the topmost; without one, "".

    It is read once: the table of mounts grows with the pods. Raises OSError.
    """
    found = ""
    with open("/proc/self/mountinfo", errors="surrogateescape") as lines:  # noqa: PTH123 - as below
        for line in lines:
            fields = line.split(" ", 5)
            if fields[4] == _CGROUPS and " - cgroup2 " in fields[5]:
                found = fields[3].rstrip("/")
    return found


def _text(path: str) -> str:
    try:
        with open(path) as file:  # noqa: PTH123 - pathlib costs a shim a megabyte
            return file.read(_LONGEST)
    except OSError:
        return ""
