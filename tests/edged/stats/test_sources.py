"""The kernel's files in one form, for all versions of cgroups."""

import os
from pathlib import Path

from edged.cgroups.hierarchies import Hierarchy
from edged.cgroups.names import CgroupPath
from edged.stats.model import InterfaceStats
from edged.stats.procfs_usage import ProcfsUsage, file_system
from edged.stats.provider import CgroupUsage
from edged.stats.usage import CpuRates, ResourceUsage, cpu_stats, memory_stats, total
from modules.apimachinery.types import Nanoseconds

AT = Nanoseconds(1_795_139_667_000_000_000)
PODS = CgroupPath("/kubepods")


def write(directory: Path, **files: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(text)
    return directory


def test_cgroup_v1(tmp_path: Path) -> None:
    """Sums over the cgroup's children, and the working set without inactive pages of files."""
    write(tmp_path / "cpuacct/kubepods", cpuacct__usage="5000\n")
    stat = "cache 7\ninactive_file 1\ntotal_inactive_file 300\ntotal_rss 600\ntotal_pgfault 9\ntotal_pgmajfault 2\n"
    write(
        tmp_path / "memory/kubepods",
        memory__usage_in_bytes="1000\n", memory__limit_in_bytes="9223372036854771712\n", memory__stat=stat,
    )  # fmt: skip
    write(tmp_path / "pids/kubepods", pids__current="4\n")
    mounts = [
        Hierarchy(tmp_path / "cpuacct", ("cpuacct",)),
        Hierarchy(tmp_path / "memory", ("memory",)),
        Hierarchy(tmp_path / "pids", ("pids",)),
    ]
    assert CgroupUsage(mounts).read(PODS, AT) == ResourceUsage(AT, 5000, 1000, 700, 600, None, 9, 2, 4)


def test_cgroup_v2(tmp_path: Path) -> None:
    """Microseconds there; a limit bounds the available memory."""
    write(
        tmp_path / "kubepods",
        cpu__stat="usage_usec 5\nuser_usec 3\n", memory__current="1000\n", memory__max="2000\n",
        memory__stat="anon 600\ninactive_file 300\npgfault 9\npgmajfault 2\n", pids__current="4\n",
    )  # fmt: skip
    usage = CgroupUsage([Hierarchy(tmp_path, ("cpu", "memory", "pids"), unified=True)]).read(PODS, AT)
    assert usage == ResourceUsage(AT, 5000, 1000, 700, 600, 2000, 9, 2, 4)
    memory = memory_stats(usage)
    assert memory is not None
    assert (memory.available_bytes, memory.working_set_bytes) == (1300, 700)


def test_a_missing_cgroup_or_controller_is_unknown(tmp_path: Path) -> None:
    """No cgroup, or a kernel without the controller."""
    assert CgroupUsage([Hierarchy(tmp_path, ("cpu", "memory"), unified=True)]).read(PODS, AT) is None
    assert CgroupUsage([]).read(PODS, AT) is None
    write(tmp_path / "kubepods", cpu__stat="usage_usec 5\n")
    assert CgroupUsage([Hierarchy(tmp_path, ("cpu",), unified=True)]).read(PODS, AT) == ResourceUsage(AT, cpu=5000)


def test_a_cgroup_without_a_limit_whose_pages_were_just_counted(tmp_path: Path) -> None:
    """The kernel counts the usage and its parts at two times."""
    stat = "anon 600\ninactive_file 300\n"
    write(tmp_path / "kubepods", memory__current="200\n", memory__max="max\n", memory__stat=stat)
    usage = CgroupUsage([Hierarchy(tmp_path, ("memory",), unified=True)]).read(PODS, AT)
    assert usage == ResourceUsage(AT, memory=200, working_set=0, rss=600)


def test_the_machine(tmp_path: Path) -> None:
    """From /proc: processors without idle time, memory, process ids, interfaces without the loopback one, the agent."""
    write(
        tmp_path,
        stat="cpu  10 20 30 400 50 1 2 3 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nbtime 1795139000\n",
        meminfo="MemTotal: 1000 kB\nMemFree: 300 kB\nInactive(file): 100 kB\nAnonPages: 200 kB\nHugePages_Total: 0\n",
        vmstat="pgfault 7\npgmajfault 1\nnr_free_pages 5\n",
        loadavg="0.1 0.2 0.3 2/345 6789\n",
    )
    write(tmp_path / "sys/kernel", pid_max="32768\n")
    ticks = 60 * os.sysconf("SC_CLK_TCK")
    agent_stat = f"6 (edge) core) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 {ticks} 20\n"
    write(tmp_path / "self", stat=agent_stat, statm="60 5 4 3 0 2 0\n")
    device = "h1\nh2\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  eth0: 11 5 1 0 0 0 0 0 22 6 2 0 0 0 0 0\n"
    write(tmp_path / "net", dev=device, route="Iface\tDestination\neth0\t00000000\n")
    machine = ProcfsUsage(tmp_path)
    usage = machine.node(AT)
    assert usage.cpu == 66 * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    assert (usage.memory, usage.working_set, usage.rss, usage.limit) == (700 << 10, 600 << 10, 200 << 10, 1000 << 10)
    assert (usage.faults, usage.major_faults) == (7, 1)
    limit, network = machine.rlimit(AT), machine.network(AT)
    assert (limit.maxpid, limit.curproc) == (32768, 345)
    assert network.interfaces == (InterfaceStats("eth0", 11, 1, 22, 2),)
    assert (network.name, network.rx_bytes, network.tx_errors) == ("eth0", 11, 2)
    assert (machine.boot_time(), machine.agent_start()) == ("2026-11-20T01:43:20Z", "2026-11-20T01:44:20Z")
    agent, resident = machine.agent(AT), 5 * os.sysconf("SC_PAGE_SIZE")
    assert agent.cpu == 23 * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))
    assert (agent.memory, agent.working_set, agent.rss, agent.limit) == (resident, resident, resident, None)
    assert (agent.faults, agent.major_faults) == (7, 9)


def test_the_network_of_a_pod_that_names_and_routes_as_it_likes(tmp_path: Path) -> None:
    """With NET_ADMIN a pod may have names of any bytes, and more routes and interfaces than are looked at."""
    numbers = b": 11 5 1 0 0 0 0 0 22 6 2 0 0 0 0 0\n"
    (tmp_path / "42/net").mkdir(parents=True)
    (tmp_path / "42/net/dev").write_bytes(b'h1\nh2\n\xff\x1e"' + numbers + b"e" + (b"e" + numbers) * 100_000)
    (tmp_path / "42/net/route").write_bytes(b"Iface\tDestination\n" + b"e\t01000000\n" * 100_000 + b"e\t00000000\n")
    network = ProcfsUsage(tmp_path).network(AT, 42)
    assert (network.name, 0 < len(network.interfaces) <= 256) == ("", True)


def test_a_machine_without_facts_breaks_nothing(tmp_path: Path) -> None:
    """Each figure by itself may be missing."""
    machine = ProcfsUsage(tmp_path)
    assert machine.agent(AT) == ResourceUsage(AT)
    assert machine.boot_time() is machine.agent_start() is None
    assert machine.network(AT).interfaces == ()
    assert machine.rlimit(AT).curproc is None
    assert machine.node(AT).cpu == 0
    assert file_system(tmp_path / "none", AT) is None


def test_this_machine() -> None:
    """Its own kernel gives plausible values."""
    machine = ProcfsUsage()
    node, agent = machine.node(AT), machine.agent(AT)
    assert 0 < (agent.working_set or 0) < (node.working_set or 0) < (node.limit or 0)
    assert (agent.cpu or 0) > 0
    assert (machine.rlimit(AT).maxpid or 0) > (machine.rlimit(AT).curproc or 0) > 0


def test_a_rate_needs_two_looks() -> None:
    """A count that started over (a restarted container) gives no rate."""
    rates, later = CpuRates(), Nanoseconds(AT + 2_000_000_000)
    assert rates.nano_cores("a", ResourceUsage(AT, cpu=100)) is None
    rates.rotate()
    assert rates.nano_cores("a", ResourceUsage(later, cpu=1_000_000_100)) == 500_000_000
    rates.rotate()
    assert rates.nano_cores("a", ResourceUsage(Nanoseconds(later + 1), cpu=5)) is None
    rates.rotate()
    rates.rotate()
    assert rates.nano_cores("a", ResourceUsage(Nanoseconds(later + 2), cpu=50)) is None
    assert cpu_stats(ResourceUsage(AT), None) is None


def test_unknown_figures_count_nothing_in_the_sum() -> None:
    """A value unknown in all parts is unknown."""
    assert total([ResourceUsage(AT, cpu=1, rss=2), ResourceUsage(AT, cpu=3)], AT) == ResourceUsage(AT, cpu=4, rss=2)
    assert total([], AT) == ResourceUsage(AT)
