"""A person's day with kubectl's verbs: a cloud and a node in processes of their own, and `cloudcore` typed at them."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import is_ready
from tests.end_to_end.processes import PATIENCE, REPOSITORY, wait_until

pytestmark = pytest.mark.gives_its_machine_back


def cloudcore(machine: Machine, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run `cloudcore WORDS` to its end."""
    command = [sys.executable, "-m", "modules.processes.cloudcore", *words, "--socket", str(machine.cloud.socket)]
    return subprocess.run(
        command, cwd=REPOSITORY, input=given, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_a_pod_is_applied_described_changed_and_replaced(machine: Machine, tmp_path: Path) -> None:
    run = partial(cloudcore, machine)
    file = tmp_path / "greeter.yaml"
    text = (REPOSITORY / "examples" / "greeter.yaml").read_text()
    file.write_text(text)
    assert run("apply", "-f", str(file)).stdout.splitlines() == ["configmap/greeting created", "pod/greeter created"]
    machine.cloud.pods.wait("greeter", is_ready)
    assert run("diff", "-f", str(file)).returncode == 0
    described = run("describe", "pod", "greeter").stdout
    for line in ("Status:           Running", "    Restart Count:  0", "  Ready                       True "):
        assert line in described.splitlines()
    assert "      /greeting from greeting (ro)" in described.splitlines()
    node = run("describe", "node").stdout
    assert "Non-terminated Pods:" in node
    assert "greeter" in node
    phases = run("get", "pods", "-o", r'jsonpath={range .items[*]}{.metadata.name}={.status.phase}{"\n"}{end}')
    assert phases.stdout.strip() == "greeter=Running"
    columns = run("get", "pods", "-o", "custom-columns=NAME:.metadata.name,IMAGES:.spec.containers[*].image")
    assert [line.split() for line in columns.stdout.splitlines()] == [["NAME", "IMAGES"], ["greeter", "busybox:1.36"]]

    file.write_text(text.replace("good morning", "good night"))
    changed = run("diff", "-f", str(file))
    assert (changed.returncode, "+  greeting.txt: good night" in changed.stdout) == (1, True)
    assert run("apply", "-f", "-", given=file.read_text()).stdout.splitlines() == [
        "configmap/greeting configured", "pod/greeter unchanged",
    ]  # fmt: skip
    uid = run("get", "pod", "greeter", "-o", "jsonpath={.metadata.uid}").stdout
    replaced = run("replace", "--force", "-f", str(file))
    assert replaced.returncode == 0, replaced.stderr
    assert run("get", "pod", "greeter", "-o", "jsonpath={.metadata.uid}").stdout != uid
    wait_until(lambda: is_ready(machine.cloud.get("pods", "greeter")), "the new pod is ready")
