"""`edgecore top`: kubectl's table from a kubelet's figures."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edged.stats.model import CpuStats
from edged.stats.provider import FRESH
from modules.apimachinery.types.times import Time
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.local import top
from modules.processes.edgecore.local.top import Usage, cores, ordered
from tests.modules.processes.common.pod_commands.stub import Stub, pod, run

EARLIER, LATER = Time("2026-11-20T05:00:00Z"), Time("2026-11-20T05:00:02Z")
MEBIBYTE = 1 << 20


def test_the_node_has_measured_again_in_between() -> None:
    assert top.SECONDS > FRESH


@pytest.mark.parametrize(
    ("before", "after", "milli"),
    [
        (None, None, None),
        (None, CpuStats(LATER, 5_000_000, 1), 5),
        (CpuStats(EARLIER, None, 0), CpuStats(LATER, None, 1_000_000_000), 500),
        (CpuStats(EARLIER, None, 9), CpuStats(LATER, None, 1), None),
        (CpuStats(LATER, None, 1), CpuStats(LATER, None, 1), None),
        (None, CpuStats(LATER, None, 1), None),
    ],
)
def test_cores(before: CpuStats | None, after: CpuStats | None, milli: int | None) -> None:
    assert cores(before, after) == milli


def test_the_greatest_comes_first() -> None:
    a, b, c = Usage(("a",), 1, None), Usage(("b",), None, 5), Usage(("c",), 3, 2)
    assert ordered([a, b, c], "cpu") == [c, a, b]
    assert ordered([a, b, c], "memory") == [b, c, a]
    assert ordered([a, b, c], "") == [a, b, c]


def measured(milli: int, *containers: str) -> dict[str, Any]:
    """The figures of a pod `p`, whose containers use one and the same."""
    cpu = {"time": LATER, "usageNanoCores": milli * 1_000_000, "usageCoreNanoSeconds": 1}
    memory = {"time": LATER, "workingSetBytes": milli * MEBIBYTE}
    return {
        "podRef": {"name": "p", "namespace": "default", "uid": "1"},
        "cpu": cpu,
        "memory": memory,
        "containers": [{"name": name, "cpu": cpu, "memory": memory} for name in containers],
    }


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setattr(top, "SECONDS", 0)
    made = Stub(tmp_path, pod("p", "a", "b", namespace="default"), pod("q", namespace="other"))
    other = {**measured(7, "x"), "podRef": {"name": "q", "namespace": "other", "uid": "2"}}
    cpu = {"time": LATER, "usageNanoCores": 500_000_000, "usageCoreNanoSeconds": 1}
    node = {"nodeName": "n1", "cpu": cpu, "memory": {"time": LATER, "workingSetBytes": 256 * MEBIBYTE}}
    made.stats = [{"node": node, "pods": [measured(12, "a", "b"), other]}] * 2
    yield made
    made.server.stop()


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (("pods",), ["NAME CPU(cores) MEMORY(bytes)", "p 12m 12Mi"]),
        ((), ["NAMESPACE NAME CPU(cores) MEMORY(bytes)", "default p 12m 12Mi", "other q 7m 7Mi"]),
        (("pod", "p"), ["NAME CPU(cores) MEMORY(bytes)", "p 12m 12Mi"]),
        (("pods", "-n", "other", "--no-headers"), ["q 7m 7Mi"]),
        (("pods", "-A", "--sort-by=memory"),
         ["NAMESPACE NAME CPU(cores) MEMORY(bytes)", "default p 12m 12Mi", "other q 7m 7Mi"]),
        (("pods", "--containers"), ["POD NAME CPU(cores) MEMORY(bytes)", "p a 12m 12Mi", "p b 12m 12Mi"]),
        (("pods", "-A", "--sum", "--no-headers"),
         ["default p 12m 12Mi", "other q 7m 7Mi", "________ ________ ________", "19m 19Mi"]),
        (("nodes",), ["NAME CPU(cores) CPU(%) MEMORY(bytes) MEMORY(%)", "n1 500m 25% 256Mi 25%"]),
        (("node", "n1", "--no-headers"), ["n1 500m 25% 256Mi 25%"]),
    ],
)  # fmt: skip
def test_tables(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], lines: list[str]
) -> None:
    assert run(tmp_path, "top", *arguments) == ExitCode.OK
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == lines


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("pods", "-l", "a=b"), ExitCode.OK, "no pods in namespace default"),
        (("pods", "gone"), ExitCode.REFUSED, "pod default/gone"),
        (("nodes", "n2"), ExitCode.REFUSED, "this one is n1"),
        (("services",), ExitCode.USAGE, "pods or nodes"),
    ],
)
def test_missing_objects_are_reported(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, says: str
) -> None:
    assert run(tmp_path, "top", *arguments) == status
    assert says in capsys.readouterr().err
