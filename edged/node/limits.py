"""Limits that the kernel sets to containers of this process."""

from pathlib import Path

from edged.pods.config.resources import HostResources

_CAP_SYS_RESOURCE = 1 << 24


def pod_machine(memory: int, *, cpu_quota: bool = True, cpu_quota_period: float = 0.1) -> HostResources:
    """Return the host's resources that containers' resources and security depend on.

    Without CAP_SYS_RESOURCE no container may get a lower oom_score_adj than this process has: the kernel refuses it,
    and the container would not start.

    Args:
        memory: of the machine, in bytes.
        cpu_quota: whether CPU limits are enforced.
        cpu_quota_period: of the CPU quota, in seconds.
    """
    return HostResources(
        memory=memory,
        smallest_oom_adjust=None if _may_lower_oom_score() else _own_oom_score(),
        cfs_quota=cpu_quota,
        cfs_period=round(cpu_quota_period * 1_000_000),
        masked_paths=throttled_processors(),
    )


def throttled_processors(root: Path = Path("/sys/devices/system/cpu")) -> tuple[str, ...]:
    """Return the paths with the throttle counters of processors, which are masked (kubelet's defaultMaskedPaths)."""
    found = root.glob("cpu[0-9]*/thermal_throttle")
    return tuple(map(str, sorted(found, key=lambda path: (len(path.parent.name), path.parent.name))))


def _may_lower_oom_score() -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) & _CAP_SYS_RESOURCE)
    return False


def _own_oom_score() -> int:
    return int(Path("/proc/self/oom_score_adj").read_text())
