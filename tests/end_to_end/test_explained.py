"""A running node is asked why: the flight recorder is written and explained."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from edged.chains.file import ChainFile
from modules.processes.edgecore.cli import main
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, is_ready, mount, pod
from tests.end_to_end.processes import wait_until

WRITTEN = "the flight recorder was written to "


def dump(machine: Machine) -> Path:
    """The file of the flight recorder that SIGUSR2 has written."""
    process = machine.edge.process
    before = process.text().count(WRITTEN)
    process.signal(signal.SIGUSR2)
    wait_until(lambda: process.text().count(WRITTEN) > before, "the flight recorder")
    return Path(process.text().rpartition(WRITTEN)[2].partition(" (")[0])


def explain(file: Path, name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `edgecore trace explain --json` says of a pod."""
    capsys.readouterr()
    main(["trace", "explain", "--json", str(file), "pod", f"default/{name}"])
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


@pytest.mark.gives_its_machine_back
def test_the_story_of_a_pod_that_runs(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """From the cloud's frame through every module to the start, each step caused by one before it."""
    machine.cloud.apply(pod("explained-runs"))
    machine.cloud.pods.wait("explained-runs", is_ready)
    told = explain(dump(machine), "explained-runs", capsys)
    assert told["state"] == "running"
    steps = told["steps"]
    of_pod = next(step for step in steps if "explained-runs" in step["text"])
    assert of_pod["way"] == "cloud → edgehub"  # a relist that shows the container may have begun before
    start = next(step for step in steps if step["mark"] == "runs")
    assert start["text"].startswith("start_container app (")
    ways = []
    while start is not None:
        ways.append(start["way"])
        start = None if start["cause"] is None else steps[start["cause"] - 1]
    assert ways == ["edged → runtime (CRI)", "metamanager → edged", "edgehub → metamanager", "cloud → edgehub"]
    assert any(step["way"] == "edgehub → cloud" and "podpatch" in step["text"] for step in steps)


@pytest.mark.gives_its_machine_back
def test_why_a_pod_does_not_run(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """The configmap that is nowhere is named."""
    volume = {"name": "cm", "configMap": {"name": "nowhere"}}
    machine.cloud.apply(pod("explained-waits", container(volumeMounts=[mount("cm", "/cm")]), volumes=(volume,)))
    machine.cloud.pods.wait("explained-waits", lambda obj: bool((obj.get("status") or {}).get("phase")))
    told: dict[str, Any] = {}

    def named() -> bool:
        told.update(explain(dump(machine), "explained-waits", capsys))
        return "nowhere" in told["why"]

    wait_until(named, "a reason that names the configmap")
    assert told["state"] == "not running"
    assert [step for step in told["steps"] if step["mark"] == "waits here"]


def test_the_steps_of_a_pod_outlive_the_agent(stopped_machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """Those from before it was killed, too, with the cause, and without a cloud."""
    machine = stopped_machine
    machine.start()
    machine.cloud.apply(pod("kept", container(envFrom=[{"configMapRef": {"name": "nowhere"}}])))
    root = machine.edge.root / "edged"
    wait_until(lambda: "nowhere" in str([chain.steps for chain in ChainFile(root).read()]), "the cause is on the disk")
    [before] = _failures(machine, capsys)
    machine.edge.kill()
    machine.cloud.kill()
    machine.start_edge()
    wait_until(lambda: "kept" in machine.edge.pods(), "the node has its pod again")
    assert before in _failures(machine, capsys)


def _failures(machine: Machine, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The steps that say what is missing, by `edgecore why`, without how often they came."""
    capsys.readouterr()
    assert main(["why", "pod", "default/kept", "-o", "json", "--config", str(machine.edge.file)]) == 0
    steps = [step["text"] for step in json.loads(capsys.readouterr().out)["steps"]]
    return [re.sub(r" \([0-9]+ times\)", "", text) for text in steps if "configmap not found: nowhere" in text]
