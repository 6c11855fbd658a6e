"""A pod that asks for what cannot be is told so, once and clearly; the other pods of the node do not notice."""

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
    """Variables of which each is twice the one before."""
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
        bench.tell("insert", pod("web"))
        bench.run(60)
    waiting = state_of(bench, "big")["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert " bytes" in waiting["message"]
    assert len(waiting["message"]) < 300
    assert "running" in state_of(bench, "web")
    assert [c.metadata.name for c in bench.runtime.containers.values()] == ["main"]
    assert not caplog.records
