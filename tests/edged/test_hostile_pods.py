"""A pod with impossible wishes gets one clear error; the node's other pods do not notice."""

import logging
from typing import Any

import pytest

from tests.edged.conftest import Bench, pod


def state_of(bench: Bench, name: str) -> dict[str, Any]:
    """What the first container is reported to wait for or to do."""
    statuses = bench.meta.statuses(name)[-1]["containerStatuses"]
    state: dict[str, Any] = statuses[0]["state"]
    return state


def chain(length: int) -> list[dict[str, str]]:
    """Variables, each twice as long as its predecessor."""
    return [
        {"name": "V0", "value": "x" * 16},
        *({"name": f"V{n}", "value": f"$(V{n - 1})$(V{n - 1})"} for n in range(1, length)),
    ]


@pytest.mark.parametrize(
    "wanted",
    [{"env": chain(40)}, {"env": chain(9), "args": ["$(V8)" * 30] * 50}, {"env": chain(9), "command": ["$(V8)" * 99]}],
)
def test_what_no_process_can_be_started_with_is_a_config_error(
    bench: Bench, wanted: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The container waits with CreateContainerConfigError and says why; nothing is made, and the next pod runs."""
    bench.start()
    with caplog.at_level(logging.ERROR):
        bench.tell("insert", pod("big", containers=[{"name": "main", "image": "busybox:1.36", **wanted}]))
        bench.tell("insert", pod("web"), wait=60)
    waiting = state_of(bench, "big")["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert " bytes" in waiting["message"]
    assert len(waiting["message"]) < 300
    assert "running" in state_of(bench, "web")
    assert [c.metadata.name for c in bench.runtime.containers.values()] == ["main"]
    assert not caplog.records


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400], ids=["above", "below", "far above"])
def test_a_number_beyond_64_bits_ends_nothing(bench: Bench, number: int, caplog: pytest.LogCaptureFixture) -> None:
    """Such a pod is left out, as a kubelet's decoder refuses it; the largest of 64 bits is a number like any other."""
    bench.start(pod("beyond", activeDeadlineSeconds=number), pod("largest", terminationGracePeriodSeconds=2**63 - 1))
    bench.tell("insert", pod("web"), wait=60)
    assert not bench.meta.statuses("beyond")
    assert "running" in state_of(bench, "largest")
    assert "running" in state_of(bench, "web")
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
