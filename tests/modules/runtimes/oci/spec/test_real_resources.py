"""Limits of real containers, read from their control groups."""

from pathlib import Path

import pytest

from modules.runtimes.oci.spec import CgroupLayout, updated_resources
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.spec.oci_runtime import Bench
from tests.modules.runtimes.oci.spec.samples import linux

_MIB = 1 << 20


def _read(group: Path, name: str) -> str:
    return (group / name).read_text().strip()


def test_limits_and_their_change(bench: Bench) -> None:
    """Memory, swap, shares and quota are set; a change of some leaves the others."""
    if bench.machine.cgroup_layout is CgroupLayout.UNIFIED:
        pytest.skip("the files of cgroup v1 are read")
    limits = cri.LinuxContainerResources(
        memory_limit_in_bytes=64 * _MIB, cpu_shares=512, cpu_quota=50_000, cpu_period=100_000, cpuset_cpus="0"
    )
    spec = bench.spec(linux(resources=limits, command=["sleep", "600"]))
    memory, cpu = bench.cgroup(spec.config, "memory"), bench.cgroup(spec.config, "cpu")
    with bench.running(spec) as container:
        assert _read(memory, "memory.limit_in_bytes") == str(64 * _MIB)
        if bench.machine.swap_accounting:
            assert _read(memory, "memory.memsw.limit_in_bytes") == str(64 * _MIB)
        assert (_read(cpu, "cpu.shares"), _read(cpu, "cpu.cfs_quota_us")) == ("512", "50000")
        for size in (128, 32):
            change = cri.LinuxContainerResources(memory_limit_in_bytes=size * _MIB, cpu_shares=1024)
            container.update(updated_resources(spec.config, change, bench.machine))
            assert _read(memory, "memory.limit_in_bytes") == str(size * _MIB)
            assert (_read(cpu, "cpu.shares"), _read(cpu, "cpu.cfs_quota_us")) == ("1024", "50000")
    assert not memory.exists()


@pytest.mark.parametrize("asked", [-999, 0, 300, 1000])
def test_oom_score(bench: Bench, asked: int) -> None:
    """What is asked for, as far as edgecore may: without CAP_SYS_RESOURCE no less than its own."""
    resources = cri.LinuxContainerResources(oom_score_adj=asked)
    done = bench.run(bench.spec(linux(resources=resources, command=["cat", "/proc/self/oom_score_adj"])))
    least = -1000 if "SYS_RESOURCE" in bench.machine.capabilities else bench.machine.oom_score_adj
    assert done.stdout == f"{max(asked, least)}\n", done.stderr
