"""Whether the kernel has killed a process of a container for its limit of memory."""

_CGROUPS = "/sys/fs/cgroup"
_LONGEST = 64 * 1024


def ran_out_of_memory(groups: str) -> bool:
    """Return whether it has killed one in control groups that are still there.

    Args:
        groups: of a process, as /proc/PID/cgroup has them while it lives.
    """
    root = _mounted_group()
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        path = path.removeprefix(root)
        for each in controllers.split(","):
            place = f"{_CGROUPS}/{each}{path}" if each else f"{_CGROUPS}{path}"
            for name in ("memory.oom_control", "memory.events"):
                for field in _text(f"{place}/{name}").splitlines():
                    if field.startswith("oom_kill ") and field != "oom_kill 0":
                        return True
    return False


def _mounted_group() -> str:
    """Return the control group (v2) that is mounted: in a node without root, not the topmost; without one, ""."""
    found = ""
    try:
        with open("/proc/self/mountinfo") as lines:  # noqa: PTH123 - as below
            for line in lines:
                fields = line.split(" ", 5)
                if fields[4] == _CGROUPS and " - cgroup2 " in fields[5]:
                    found = fields[3].rstrip("/")
    except OSError:
        return ""
    return found


def _text(path: str) -> str:
    try:
        with open(path) as file:  # noqa: PTH123 - pathlib costs a shim a megabyte
            return file.read(_LONGEST)
    except OSError:
        return ""
