"""Volumes that are mounts on the machine: memory, paths within volumes. What a deleted pod leaves is nothing."""

from __future__ import annotations

from pathlib import Path

from modules.edgecontroller.kinds import JsonObject
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, is_ready, mount, pod
from tests.end_to_end.processes import mounts_below, wait_until


def delete_and_look(machine: Machine, made: JsonObject) -> None:
    """Delete a pod; at the end neither a mount nor a file of it may be there."""
    machine.cloud.delete("Pod", made["metadata"]["name"])
    directory = machine.edge.root / "edged" / "pods" / str(made["metadata"]["uid"])
    wait_until(lambda: not directory.exists(), "the pod's directory is gone")
    assert mounts_below(directory.parent) == []


def test_memory_and_paths_within_volumes(machine: Machine, tmp_path: Path) -> None:
    """An emptyDir of medium Memory is a tmpfs of its size, shared by the containers, and there again after edgecore was
    killed. A subPath shows a directory or a file of a volume alone. All of it is unmounted and removed with the pod,
    by an agent that did not mount it.
    """
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "file").write_text("from the machine\n")
    volumes: tuple[JsonObject, ...] = (
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
        {"name": "host", "hostPath": {"path": str(tmp_path), "type": "Directory"}},
    )
    writer = container(
        "grep ' /memory ' /proc/mounts | cut -d ' ' -f 3; df -k /memory | tail -n 1 | awk '{print $2}';"
        " cat /only; ls /dir; echo hello > /memory/greeting; exec sleep 600",
        "writer",
        volumeMounts=[
            mount("memory", "/memory"),
            mount("host", "/only", subPath="given/file"),
            mount("host", "/dir", subPathExpr="$(SUB)", readOnly=True),
        ],
        env=[{"name": "SUB", "value": "given"}],
    )
    reader = container(
        "until [ -s /memory/greeting ]; do sleep 0.05; done; cat /memory/greeting; exec sleep 600",
        "reader",
        volumeMounts=[mount("memory", "/memory")],
    )
    machine.cloud.apply(pod("p", writer, reader, volumes=volumes, terminationGracePeriodSeconds=1))
    made = machine.cloud.pods.wait("p", is_ready)
    wait_until(lambda: machine.edge.lines(made, "reader") == ["hello"], "the reader has read it")
    assert machine.edge.lines(made, "writer") == ["tmpfs", "4096", "from the machine", "file"]
    machine.edge.kill()
    machine.start_edge()
    wait_until(lambda: "p" in machine.edge.pods(), "edgecore runs again")
    assert (machine.edge.volume(made, "empty-dir", "memory") / "greeting").read_text() == "hello\n"
    delete_and_look(machine, made)
    assert (tmp_path / "given" / "file").read_text() == "from the machine\n"
