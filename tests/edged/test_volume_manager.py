"""edged with a storage driver, alone on the bus: claims become volumes, the cloud's operations are carried out."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import grpc
import pytest

from beehive import ModuleName, Threads
from edged.pods.paths import PodPaths
from edged.volume_manager import EmptyDirMonitor, Measure
from edged.volumes.directory_usage import DiskUsage
from modules.apimachinery.csi_drivers import NODE_ID_ANNOTATION
from modules.apimachinery.types import EmptyDirVolumeSource, Nanoseconds, Volume, format_time
from tests.edged.conftest import Bench, pod
from tests.edged.pods.builders import a_pod
from tests.support.csi_driver import NAME, CsiDriver
from tests.support.directories import short_directory

UNIQUE = f"kubernetes.io/csi/{NAME}^disk-1"


@pytest.fixture
def bench() -> Iterator[Bench]:
    """In a short directory: a socket's path has 107 bytes."""
    with short_directory("sto-") as made:
        bench = Bench(made)
        yield bench
        bench.stop()


@pytest.fixture
def driver(bench: Bench) -> Iterator[CsiDriver]:
    root = bench.settings.root
    with CsiDriver(root.parent / "driver", root / "plugins_registry") as made:
        yield made


def claim(bench: Bench, **spec: Any) -> None:
    """A bound claim `data`, and its volume."""
    bench.meta.cloud["default/persistentvolumeclaim/data"] = {
        "metadata": {"name": "data", "namespace": "default", "uid": "c1"},
        "spec": {"volumeName": "pv1"},
        "status": {"phase": "Bound"},
    }
    bench.meta.cloud["null/persistentvolume/pv1"] = {
        "metadata": {"name": "pv1"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "default", "name": "data", "uid": "c1"},
            "csi": {"driver": NAME, "volumeHandle": "disk-1"},
            **spec,
        },
    }


def no_attachment(bench: Bench) -> None:
    spec = {"attachRequired": False}
    bench.meta.objects[f"null/csidriver/{NAME}"] = {"metadata": {"name": NAME}, "spec": spec}


def claiming(name: str = "web") -> dict[str, Any]:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    return pod(name, volumes=volumes)


def message_of(bench: Bench, name: str = "web") -> str:
    """Why the pod's container waits, as it is reported."""
    found = next(pod for pod in bench.snapshots.pods if pod.metadata.name == name)
    waiting = found.status.container_statuses[0].state.waiting
    return waiting.message if waiting is not None else ""


def patches(bench: Bench) -> list[dict[str, Any]]:
    """What was patched of the node, oldest first."""
    return bench.meta.patches.get("null/nodepatch/n1", [])


def test_a_pod_waits_for_its_volume_and_starts_when_it_is_there(bench: Bench, driver: CsiDriver) -> None:
    """It says what it waits for: the claim, the volume's attachment, the driver; each comes in its turn."""
    bench.start(claiming())
    assert 'volume "v"' in message_of(bench)
    assert "persistentvolumeclaim not found: default/data" in message_of(bench)
    claim(bench)
    bench.tell("insert", bench.meta.cloud["default/persistentvolumeclaim/data"], "persistentvolumeclaim")
    assert f'volume not attached yet: "{UNIQUE}"' in message_of(bench)
    no_attachment(bench)
    driver.fail("NodeStageVolume", grpc.StatusCode.INTERNAL, "the disk spins up")
    bench.tell("insert", {"metadata": {"name": NAME, "namespace": "null"}}, "csidriver")
    assert "NodeStageVolume failed: disk-1 (the disk spins up; INTERNAL)" in message_of(bench)
    assert bench.running() == []
    assert bench.running(after=30) == ["main"]
    assert list(driver.published.values()) == ["disk-1"]


def test_the_cloud_gets_drivers_and_volumes_in_use(bench: Bench, driver: CsiDriver) -> None:
    """The volume is named until it is unstaged; the node's annotation has what the driver calls it."""
    no_attachment(bench)
    claim(bench)
    bench.start(wait=3)
    (marks,) = [patch["metadata"] for patch in patches(bench) if "metadata" in patch]
    assert json.loads(marks["annotations"][NODE_ID_ANNOTATION]) == {NAME: f"{NAME}-node-7"}
    assert marks["labels"] == {f"topology.{NAME}/node": "here"}
    bench.tell("insert", claiming(), wait=20)
    assert bench.running() == ["main"]
    bench.tell("delete", claiming(), wait=60)
    assert (driver.staged, driver.published) == ({}, {})
    said = [patch.get("status", {}) for patch in patches(bench)]
    assert [status["volumesInUse"] for status in said if "volumesInUse" in status] == [[UNIQUE], None]


def test_a_removal_waits_for_the_driver(bench: Bench, driver: CsiDriver) -> None:
    """Without the driver the pod's directory stays; when it registers again, the volume is undone immediately."""
    no_attachment(bench)
    claim(bench)
    bench.start(claiming(), wait=5)
    assert bench.running() == ["main"]
    directory = bench.settings.root / "pods" / "uid-web"
    driver.stop()
    bench.run(3)
    bench.tell("delete", claiming(), wait=120)
    assert directory.exists()
    driver.start()
    bench.run(5)
    assert not directory.exists()
    assert (driver.staged, driver.published) == ({}, {})


def test_a_removal_does_not_wait_for_a_volume_to_be_unstaged(bench: Bench, driver: CsiDriver) -> None:
    """It stays in use until the driver can; so the cloud does not detach it."""
    no_attachment(bench)
    claim(bench)
    bench.start(claiming(), wait=5)
    driver.fail("NodeUnstageVolume", grpc.StatusCode.INTERNAL, "busy", times=2)
    bench.tell("delete", claiming(), wait=20)
    assert not (bench.settings.root / "pods" / "uid-web").exists()
    assert (list(driver.staged), driver.published) == (["disk-1"], {})
    bench.run(80)
    assert driver.staged == {}
    said = [patch.get("status", {}) for patch in patches(bench)]
    assert [status["volumesInUse"] for status in said if "volumesInUse" in status][-1:] == [None]


def test_operations_of_the_cloud(bench: Bench, driver: CsiDriver) -> None:
    """Answered with what the driver says; an error is answered as such, not with silence as KubeEdge's is."""
    bench.start(wait=1)

    def ask(operation: str, **request: Any) -> tuple[str, Any]:
        message = bench.bee.message("default/volume/disk", operation, json.dumps(request), source="csidriver")
        answer = bench.bee.ask(ModuleName.EDGED, message)
        return str(answer.route.operation), json.loads(bytes(answer.content_raw()))

    created = ask("createvolume", name="disk", volumeCapabilities=[])
    assert created == ("response", {"volume": {"volume_id": "disk"}})
    assert ask("deletevolume", volumeId="disk") == ("response", {})
    operation, text = ask("controllerpublishvolume", volumeId="disk")
    assert operation == "error"
    assert "no volume disk" in text
    driver.stop()
    bench.run(3)
    assert ask("createvolume", name="disk")[0] == "error"


def test_a_mounted_token_is_renewed(bench: Bench) -> None:
    """After four fifths of its life, by the pod's own resynchronisation; the file changes as a whole."""
    token = {"audience": "api", "expirationSeconds": 600, "path": "token"}
    volumes = [{"name": "t", "projected": {"sources": [{"serviceAccountToken": token}]}}]

    def grant(text: str) -> None:
        expires = format_time(Nanoseconds(bench.bee.clock.now_ns() + 600 * 10**9))
        status = {"token": text, "expirationTimestamp": expires}
        bench.meta.cloud["default/serviceaccounttoken/default"] = {"metadata": {}, "spec": {}, "status": status}

    bench.start()
    grant("first")
    bench.tell("insert", pod(volumes=volumes))
    file = bench.settings.root / "pods/uid-web/volumes/kubernetes.io~projected/t/token"
    version = file.parent / "..data"
    assert file.read_text() == "first"
    before = version.readlink()
    grant("second")
    bench.run(300)
    assert (file.read_text(), version.readlink()) == ("first", before)
    grant("third")
    bench.run(300)
    assert file.read_text() == "third"
    assert version.readlink() != before


def test_a_pod_that_fills_its_volume_goes(bench: Bench) -> None:
    """Evicted, in kubelet's words, within ten seconds; others, and a volume within its limit, are left alone."""
    volumes = [{"name": "v", "emptyDir": {"sizeLimit": "64Ki"}}]
    bench.start()
    for name in ("web", "modest"):
        bench.tell("insert", pod(name, volumes=volumes))
    bench.tell("insert", pod("free", volumes=[{"name": "v", "emptyDir": {}}]))
    sizes = {"web": 100, "modest": 10, "free": 1000}
    for name, size in sizes.items():
        file = bench.settings.root / f"pods/uid-{name}/volumes/kubernetes.io~empty-dir/v/file"
        file.write_bytes(b"x" * size * 1024)
    bench.run(60)
    statuses = {each.metadata.name: each.status for each in bench.snapshots.pods}
    assert {name: status.phase for name, status in statuses.items()} == {
        "web": "Failed",
        "modest": "Running",
        "free": "Running",
    }
    assert statuses["web"].reason == "Evicted"
    assert statuses["web"].message == 'Usage of EmptyDir volume "v" exceeds the limit "64Ki". '
    assert bench.running() == ["main", "main"]
    (bench.settings.root / "pods/uid-modest/volumes/kubernetes.io~empty-dir/v/file").write_bytes(b"x" * 100 * 1024)
    assert bench.running(after=60) == ["main"], "it is measured again and again"


def test_nothing_is_kept_of_the_volumes_of_pods_that_are_gone(tmp_path: Path) -> None:
    """A count holds its directories open. A volume of an invalid name was never made, and keeps no other from it."""
    counts = Mock(measure=Mock(return_value=DiskUsage(0, 0)))
    with patch("edged.volume_manager.DirectoryCounts", return_value=counts):
        monitor = Threads().start(EmptyDirMonitor, PodPaths(tmp_path), lambda _: None)
    limited = EmptyDirVolumeSource(size_limit="1Ki")
    for uid in ("u1", "u2"):
        pods = (a_pod(meta={"uid": uid}, volumes=(Volume(name=name, empty_dir=limited),)) for name in ("v/v", "v"))
        monitor.ref.ask(Measure(tuple(pods)))
    monitor.ref.stop()
    kept = [{path.parts[-4] for path in call.args[0]} for call in counts.keep.call_args_list]
    assert kept == [{"u1"}, {"u2"}]
