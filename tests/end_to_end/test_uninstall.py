"""`edgecore uninstall` on a node that has run: its processes and mounts are gone, and its files."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from edged.cgroups.opening import machine_hierarchies
from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, is_ready, mount, pod
from tests.end_to_end.processes import Process, mounts_below, processes_of, run_program, wait_until
from tests.support.own_node import write_node
from tests.support.slow import one_in

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: c, image: "x:1", command: [sh, -c, "trap '' TERM; echo up; while :; do sleep 1; done"]}
"""
MEMORY = "  volumes: [{name: v, emptyDir: {medium: Memory}}]\n"


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of edgecore to its end."""
    return run_program("edgecore", *arguments)


@pytest.mark.parametrize("stop", one_in(2, [True, False]))
def test_nothing_is_left(stop: bool, tmp_path: Path) -> None:
    """Of a pod that ignores SIGTERM and has a volume in memory, and of an MQTT broker; the user's manifest stays."""
    root = tmp_path / "n"
    write_node(root, all_modules=shutil.which("mosquitto") is not None)
    (root / "manifests").mkdir()
    (root / "manifests/p.yaml").write_text(POD + (MEMORY if os.geteuid() == 0 else ""))
    process = Process("modules.processes.edgecore", ["run", "--root", str(root)], tmp_path / "log")
    try:
        logs = root / "logs" / "pods"
        wait_until(lambda: any(each.read_text() for each in logs.glob("*/c/*.log")), "the container runs")
        refused = call("uninstall", "--root", str(root), "--yes")
        assert (refused.returncode, "--stop" in refused.stderr) == (ExitCode.NOT_DONE, True)
        if not stop:
            process.kill()
        done = call("uninstall", "--root", str(root), "--yes", *(["--stop"] if stop else []))
        assert done.returncode == ExitCode.OK, done.stderr
        assert process.wait() == (ExitCode.OK if stop else -9)
        assert "end pod default/web-" in done.stderr
        assert {path.relative_to(root) for path in root.rglob("*")} == {Path("manifests"), Path("manifests/p.yaml")}
        assert mounts_below(root) == []
        wait_until(lambda: processes_of(root) == [], "no process is left")
    finally:
        process.kill()
        for pid in processes_of(root):
            subprocess.run(["kill", "-KILL", str(pid)], check=False)


def test_on_both_runtimes(machine: Machine) -> None:
    """A node that a cloud has sent a pod: sandbox, cgroups, mounts and files go; the file that was named stays."""
    edge = machine.edge
    in_memory = {"name": "v", "emptyDir": {"medium": "Memory"}}
    volumes = (in_memory,) if os.geteuid() == 0 else ()
    forever = container("trap '' TERM; while :; do sleep 1; done", volumeMounts=[mount("v", "/v") for _ in volumes])
    machine.cloud.apply(pod("p", forever, volumes=volumes))
    machine.cloud.pods.wait("p", is_ready)
    edge.kill()
    done = call("uninstall", "--config", str(edge.file), "--yes")
    assert done.returncode == ExitCode.OK, done.stderr
    assert "end pod default/p" in done.stderr
    assert machine.runtime.pods(edge.root / "edged") == 0
    assert mounts_below(edge.root) == []
    assert [path for path in edge.root.rglob("*") if not path.is_dir()] == []
    assert edge.file.exists()
    cgroups = [h.mount / edge.cgroup_root.lstrip("/") / "kubepods" for h in machine_hierarchies()]
    assert [path for path in cgroups if path.exists()] == []
