"""Volumes that are mounts on the machine: memory, paths within volumes, persistent ones. Deleted pods leave none."""

import json
import socket
from pathlib import Path

import pytest

from edged.volumes import KernelMounts
from modules.apimachinery.kinds import JsonObject
from tests.edged.volumes.mounting import needs_mounts
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import config_map, container, is_ready, mount, pod, state_of
from tests.end_to_end.processes import mounts_below, wait_until
from tests.support.csi_driver import CsiDriver


def delete_and_look(machine: Machine, made: JsonObject) -> None:
    """Delete a pod; at the end neither a mount nor a file of it may be there."""
    machine.cloud.delete("Pod", made["metadata"]["name"])
    directory = machine.edge.root / "edged" / "pods" / str(made["metadata"]["uid"])
    wait_until(lambda: not directory.exists(), "the pod's directory is gone")
    assert mounts_below(directory) == []


@pytest.mark.gives_its_machine_back
@needs_mounts
def test_memory_and_paths_within_volumes(machine: Machine, tmp_path: Path) -> None:
    """An emptyDir of medium Memory is a tmpfs of its size, shared by the containers, and there again after edgecore was
    killed. A hostPath is what its type says, made or waited for. A subPath shows a directory or a file of a volume
    alone. All of it is unmounted and removed with the pod, by an agent that did not mount it.
    """
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "file").write_text("from the machine\n")
    volumes: tuple[JsonObject, ...] = (
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
        {"name": "host", "hostPath": {"path": str(tmp_path), "type": "Directory"}},
        *(
            {"name": kind.lower(), "hostPath": {"path": str(machine.directory / kind), "type": kind}}
            for kind in ("DirectoryOrCreate", "FileOrCreate", "Socket")
        ),
        {"name": "null", "hostPath": {"path": "/dev/null", "type": "CharDevice"}},
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
    machine.cloud.pods.wait("p", lambda made: "a socket is expected, and nothing is there" in waits(made, "writer"))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(machine.directory / "Socket"))
    made = machine.cloud.pods.wait("p", is_ready)
    assert (machine.directory / "DirectoryOrCreate").is_dir()
    assert (machine.directory / "FileOrCreate").is_file()
    wait_until(lambda: machine.edge.lines(made, "reader") == ["hello"], "the reader has read it")
    wait_until(lambda: len(machine.edge.lines(made, "writer")) >= 4, "the writer's log has all")
    assert machine.edge.lines(made, "writer") == ["tmpfs", "4096", "from the machine", "file"]
    machine.edge.kill()
    machine.start_edge()
    wait_until(lambda: "p" in machine.edge.pods(), "edgecore runs again")
    assert (machine.edge.volume(made, "empty-dir", "memory") / "greeting").read_text() == "hello\n"
    delete_and_look(machine, made)
    assert (tmp_path / "given" / "file").read_text() == "from the machine\n"
    (machine.directory / "Socket").unlink()


@pytest.mark.gives_its_machine_back
@needs_mounts
def test_a_mount_within_a_volume_of_files(machine: Machine) -> None:
    """KubeEdge's edgemesh-agent mounts a ConfigMap within another one. Both change, and the mounts within stay."""
    volumes: tuple[JsonObject, ...] = (
        {"name": "outer", "configMap": {"name": "outer"}},
        {"name": "inner", "configMap": {"name": "inner"}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
    )
    script = (
        "echo kept > /outer/memory/file; until grep -q two /outer/key; do sleep 0.05; done;"
        " until grep -q two /outer/inner/key; do sleep 0.05; done; cat /outer/memory/file; exec sleep 600"
    )
    mounts = [mount("inner", "/outer/inner"), mount("outer", "/outer"), mount("memory", "/outer/memory")]
    for name in ("outer", "inner"):
        machine.cloud.apply(config_map(name, key="one"))
    machine.cloud.apply(
        pod("p", container(script, volumeMounts=mounts), volumes=volumes, terminationGracePeriodSeconds=1)
    )
    made = machine.cloud.pods.wait("p", is_ready)
    for name in ("outer", "inner"):
        machine.cloud.apply(config_map(name, key="two"))
    wait_until(lambda: machine.edge.lines(made) == ["kept"], "the changes came, and the mount is still there")
    delete_and_look(machine, made)


def claim(machine: Machine, name: str, **source: JsonObject) -> None:
    """A claim and the volume that it gets."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, "volumeName": f"pv-{name}"}
    meta = {"name": name, "namespace": "default"}
    volume = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Mi"}, **source}
    machine.cloud.apply(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"pv-{name}"}, "spec": volume},
    )


def claimed(name: str, **fields: bool) -> JsonObject:
    """A volume of a pod that is a claim's."""
    return {"name": name, "persistentVolumeClaim": {"claimName": name, **fields}}


def hosts(*names: str) -> JsonObject:
    """Affinity to nodes of these names."""
    requirement = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(names)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}


@needs_mounts
def test_persistent_volumes_of_the_node_and_of_a_driver(machine: Machine, tmp_path: Path) -> None:
    """A local volume, and a driver's, are written by one pod and read by the next; the driver's is staged once for two
    pods, and a single pod's is not. A pod whose volume is for other nodes, or whose driver is not there,
    waits and says why. In the end there is neither a mount nor a directory, and what was written is still there.
    """
    (tmp_path / "disk").mkdir()
    root = machine.edge.root / "edged"
    driver = CsiDriver(machine.directory / "driver", root / "plugins_registry", mounts=KernelMounts())
    claim(machine, "disk", local={"path": str(tmp_path / "disk")}, nodeAffinity=hosts(NODE))
    claim(machine, "driven", csi={"driver": driver.name, "volumeHandle": "d1"})
    claim(machine, "foreign", local={"path": str(tmp_path / "disk")}, nodeAffinity=hosts("elsewhere"))
    policy = {"attachRequired": False, "podInfoOnMount": True, "volumeLifecycleModes": ["Persistent", "Ephemeral"]}
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver"}
    machine.cloud.apply({**kind, "metadata": {"name": driver.name}, "spec": policy})
    mounts = [mount("disk", "/disk"), mount("driven", "/driven")]
    write = container(
        "echo local > /disk/file; echo driven > /driven/file; echo mine > /inline/file; exec sleep 600",
        volumeMounts=[*mounts, mount("inline", "/inline")],
    )
    read = container(
        "until cat /disk/file /driven/file; do sleep 0.05; done; touch /driven/new || echo refused; exec sleep 600",
        volumeMounts=mounts,
    )
    short = {"terminationGracePeriodSeconds": 1}
    inline = {"name": "inline", "csi": {"driver": driver.name, "volumeAttributes": {"size": "1"}}}
    machine.cloud.apply(pod("writer", write, volumes=(claimed("disk"), claimed("driven"), inline), **short))
    bound = {"nodeName": NODE}  # the scheduler would not choose the node
    machine.cloud.apply(pod("lost", container(), volumes=(claimed("foreign"),), **bound, **short))
    machine.cloud.pods.wait("lost", lambda made: "node affinity check failed: pv-foreign" in waits(made))
    machine.cloud.pods.wait("writer", lambda made: f"driver name {driver.name} not found" in waits(made))
    with driver:
        writer = machine.cloud.pods.wait("writer", is_ready)
        read_only = (claimed("disk"), claimed("driven", readOnly=True))
        machine.cloud.apply(pod("reader", read, volumes=read_only, **short))
        reader = machine.cloud.pods.wait("reader", is_ready)
        seen = {"local", "driven", "refused"}
        wait_until(lambda: seen <= set(machine.edge.lines(reader)), "the reader has read it")
        assert driver.made().count("NodeStageVolume") == 1
        assert len(driver.published) == 3
        summary = json.loads(machine.edge.get("/stats/summary")[1])
        assert {
            (volume["name"], volume["pvcRef"]["name"])
            for made in summary["pods"]
            for volume in made.get("volume", ())
            if "pvcRef" in volume
        } == {("disk", "disk")}
        machine.edge.kill()
        machine.start_edge()
        for each in (writer, reader, machine.cloud.get("Pod", "lost")):
            delete_and_look(machine, each)
        wait_until(lambda: (driver.staged, driver.published) == ({}, {}), "the driver's volumes are unstaged")
        wait_until(lambda: not _files_below(root / "plugins"), "what the node knew of them is gone")
    runtime = machine.edge.root / "edged" / "oci"  # what is its own stays as long as it is there
    kept = tuple(str(runtime / each) for each in ("namespaces", "programs", "runtime"))
    assert [each for each in mounts_below(machine.directory) if not each.startswith(kept)] == []
    assert (tmp_path / "disk" / "file").read_text() == "local\n"
    assert (driver.volumes / "d1" / "file").read_text() == "driven\n"


def _files_below(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def waits(made: JsonObject, name: str = "app") -> str:
    """Why a pod's container waits."""
    return str(state_of(made, "waiting", name).get("message"))
