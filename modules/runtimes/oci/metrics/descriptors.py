"""The metrics of ListMetricDescriptors: names, help, labels and kinds, as kubelets with cAdvisor have them.

CRI has whole numbers only, so that times are in whole seconds.
"""

from typing import Final, NamedTuple

from protos.cri.v1 import api_pb2 as cri

LABELS: Final = ("container", "id", "image", "name", "namespace", "pod")
"""Labels of every metric, in this order; a metric's own labels come after them."""

_COUNTER: Final = cri.COUNTER
_GAUGE: Final = cri.GAUGE


class MetricDescriptor(NamedTuple):
    """One metric."""

    kind: cri.MetricType.ValueType
    help: str
    labels: tuple[str, ...] = ()
    """Its own."""


class Sample(NamedTuple):
    """One value of a metric."""

    name: str
    value: int
    labels: tuple[str, ...] = ()
    """Values of the metric's own labels."""


_CPU: Final = {
    "container_cpu_usage_seconds_total": MetricDescriptor(_COUNTER, "Processor time used, in seconds"),
    "container_cpu_user_seconds_total": MetricDescriptor(_COUNTER, "Processor time used in user mode, in seconds"),
    "container_cpu_system_seconds_total": MetricDescriptor(_COUNTER, "Processor time used in the kernel, in seconds"),
    "container_cpu_cfs_periods_total": MetricDescriptor(
        _COUNTER, "Enforcement periods of the CPU limit that have passed"
    ),
    "container_cpu_cfs_throttled_periods_total": MetricDescriptor(
        _COUNTER, "Enforcement periods in which it was throttled"
    ),
    "container_cpu_cfs_throttled_seconds_total": MetricDescriptor(
        _COUNTER, "Time for which it was throttled, in seconds"
    ),
}
_MEMORY: Final = {
    "container_memory_cache": MetricDescriptor(_GAUGE, "Page cache, in bytes"),
    "container_memory_failcnt": MetricDescriptor(_COUNTER, "Times that memory usage hit the limit"),
    "container_memory_failures_total": MetricDescriptor(
        _COUNTER, "Memory allocation failures", ("failure_type", "scope")
    ),
    "container_memory_kernel_usage": MetricDescriptor(_GAUGE, "Kernel memory, in bytes"),
    "container_memory_mapped_file": MetricDescriptor(_GAUGE, "Memory mapped files, in bytes"),
    "container_memory_max_usage_bytes": MetricDescriptor(_GAUGE, "Largest memory usage so far, in bytes"),
    "container_memory_rss": MetricDescriptor(_GAUGE, "Anonymous memory, in bytes"),
    "container_memory_swap": MetricDescriptor(_GAUGE, "Swap, in bytes"),
    "container_memory_usage_bytes": MetricDescriptor(_GAUGE, "Memory usage with page cache, in bytes"),
    "container_memory_working_set_bytes": MetricDescriptor(_GAUGE, "Memory usage without inactive files, in bytes"),
    "container_oom_events_total": MetricDescriptor(_COUNTER, "Processes killed for want of memory"),
    "container_hugetlb_usage_bytes": MetricDescriptor(_GAUGE, "Huge pages, in bytes", ("pagesize",)),
    "container_hugetlb_max_usage_bytes": MetricDescriptor(_GAUGE, "Most huge pages so far, in bytes", ("pagesize",)),
}
_PRESSURE: Final = {
    f"container_pressure_{resource}_{kind}_seconds_total": MetricDescriptor(_COUNTER, f"{text} waited for {resource}")
    for resource in ("cpu", "memory", "io")
    for kind, text in (("stalled", "Seconds in which all tasks"), ("waiting", "Seconds in which some task"))
}
_DISK: Final = {
    "container_blkio_device_usage_total": MetricDescriptor(
        _COUNTER, "Bytes read and written by device", ("device", "major", "minor", "operation")
    ),
    "container_fs_reads_bytes_total": MetricDescriptor(_COUNTER, "Bytes read", ("device",)),
    "container_fs_reads_total": MetricDescriptor(_COUNTER, "Reads completed", ("device",)),
    "container_fs_writes_bytes_total": MetricDescriptor(_COUNTER, "Bytes written", ("device",)),
    "container_fs_writes_total": MetricDescriptor(_COUNTER, "Writes completed", ("device",)),
    "container_fs_inodes_free": MetricDescriptor(_GAUGE, "Free inodes of the file system", ("device",)),
    "container_fs_inodes_total": MetricDescriptor(_GAUGE, "Inodes of the file system", ("device",)),
    "container_fs_limit_bytes": MetricDescriptor(_GAUGE, "Size of the file system, in bytes", ("device",)),
    "container_fs_usage_bytes": MetricDescriptor(_GAUGE, "Writable layer, in bytes", ("device",)),
}
_PROCESSES: Final = {
    "container_processes": MetricDescriptor(_GAUGE, "Processes"),
    "container_threads": MetricDescriptor(_GAUGE, "Threads"),
    "container_threads_max": MetricDescriptor(_GAUGE, "Most threads allowed; 0 for no limit"),
    "container_file_descriptors": MetricDescriptor(_GAUGE, "Open file descriptors"),
    "container_sockets": MetricDescriptor(_GAUGE, "Open sockets"),
    "container_ulimits_soft": MetricDescriptor(_GAUGE, "Soft limits of the first process", ("ulimit",)),
    "container_last_seen": MetricDescriptor(_GAUGE, "Time of the measurement, in seconds since the epoch"),
    "container_start_time_seconds": MetricDescriptor(_GAUGE, "Start, in seconds since the epoch"),
}
_ASKED: Final = {
    "container_spec_cpu_period": MetricDescriptor(_GAUGE, "Enforcement period of the CPU limit, in microseconds"),
    "container_spec_cpu_quota": MetricDescriptor(_GAUGE, "Processor time allowed in a period, in microseconds"),
    "container_spec_cpu_shares": MetricDescriptor(_GAUGE, "CPU shares"),
    "container_spec_memory_limit_bytes": MetricDescriptor(_GAUGE, "Memory limit, in bytes; 0 for none"),
    "container_spec_memory_reservation_limit_bytes": MetricDescriptor(
        _GAUGE, "Memory reservation, in bytes; 0 for none"
    ),
    "container_spec_memory_swap_limit_bytes": MetricDescriptor(
        _GAUGE, "Limit of memory with swap, in bytes; 0 for none"
    ),
}
_NETWORK: Final = {
    f"container_network_{direction}_{name}_total": MetricDescriptor(_COUNTER, f"{text} {verb}", ("interface",))
    for direction, verb in (("receive", "received"), ("transmit", "transmitted"))
    for name, text in (
        ("bytes", "Bytes"),
        ("packets", "Packets"),
        ("errors", "Packets with errors while being"),
        ("packets_dropped", "Packets dropped while being"),
    )
}
DESCRIPTORS: Final[dict[str, MetricDescriptor]] = {
    **_CPU, **_MEMORY, **_PRESSURE, **_DISK, **_PROCESSES, **_ASKED, **_NETWORK,
}  # fmt: skip
"""All metrics by name."""


def metric_descriptors() -> list[cri.MetricDescriptor]:
    """Return the answer of ListMetricDescriptors."""
    return [
        cri.MetricDescriptor(name=name, help=each.help, label_keys=(*LABELS, *each.labels))
        for name, each in sorted(DESCRIPTORS.items())
    ]


def metrics(samples: list[Sample], labels: tuple[str, ...], now_ns: int) -> list[cri.Metric]:
    """Return samples as CRI's metrics; `labels` are the values of `LABELS`."""
    return [
        cri.Metric(
            name=each.name,
            timestamp=now_ns,
            metric_type=DESCRIPTORS[each.name].kind,
            label_values=(*labels, *each.labels),
            value=cri.UInt64Value(value=max(0, each.value)),
        )
        for each in samples
    ]
