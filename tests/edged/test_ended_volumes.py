"""What a pod that has ended leaves on the node's disk: its logs and termination messages, not its volumes."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from edged.pods.kill_options import KillOptions
from edged.volumes import VolumeError
from modules.apimachinery.types import to_value
from tests.edged.conftest import Bench, pod

EVICTED = KillOptions("Evicted", "The node was low on resource: ephemeral-storage.", grace_period=1)


def filling(**changes: Any) -> dict[str, Any]:
    """A pod with a volume of its own."""
    container = {
        "name": "main", "image": "busybox:1.36", "command": changes.pop("command", ["sleep", "inf"]),
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }  # fmt: skip
    return pod(containers=[container], volumes=[{"name": "v", "emptyDir": {}}], **changes)


def directory(bench: Bench) -> Path:
    """The pod's."""
    return bench.settings.root / "pods" / "uid-web"


def fill(bench: Bench) -> Path:
    """Let the pod write."""
    [volume] = directory(bench).glob("volumes/*/v")
    (volume / "large").write_text("x" * 1000)
    return volume


def test_an_evicted_pod_leaves_no_volume(bench: Bench) -> None:
    """It kept them until it was deleted, which a full disk does not let the store do."""
    bench.start(filling())
    volume = fill(bench)
    bench.end("uid-web", EVICTED, wait=3)
    assert not volume.exists()
    assert not (directory(bench) / "volumes").exists()
    assert directory(bench).is_dir()
    assert bench.meta.statuses("web")[-1]["reason"] == "Evicted"


@pytest.mark.parametrize("code", ["0", "3"])
def test_nor_does_a_pod_that_has_ended_by_itself(bench: Bench, code: str) -> None:
    bench.start(filling(restartPolicy="Never"))
    volume = fill(bench)
    bench.exit("main", int(code), wait=3)
    assert not volume.exists()
    assert bench.meta.phases("web")[-1] == ("Succeeded" if code == "0" else "Failed")


def test_a_restarted_container_keeps_its_volumes(bench: Bench) -> None:
    bench.start(filling(restartPolicy="OnFailure"))
    volume = fill(bench)
    bench.exit("main", 1, wait=30)
    assert bench.running() == ["main"]
    assert (volume / "large").exists()


def test_a_deleted_pod_loses_its_volumes_before_the_cloud_has_forgotten_it(bench: Bench) -> None:
    """A deletion that the cloud never confirms keeps no room."""
    bench.start(filling())
    volume = fill(bench)
    bench.tell("update", filling(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 1}), wait=3)
    assert not volume.exists()


def test_a_volume_that_cannot_be_removed_keeps_nobody_from_hearing_of_the_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status is told at once, the removal tried again, and only then is the cloud asked to forget the pod."""
    bench.start(filling())
    volume = fill(bench)
    bench.mounts.bind(Path("/elsewhere"), volume / "busy")
    with monkeypatch.context() as patched:
        patched.setattr(bench.mounts, "unmount", Mock(side_effect=VolumeError("unmount a volume", "v", "it is busy")))
        bench.tell("update", filling(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 1}), wait=10)
        assert bench.meta.phases("web")[-1] == "Succeeded"
        assert bench.meta.deletions == []
    bench.run(20)
    assert not volume.exists()
    assert bench.meta.deletions == ["default/pod/web"]


def test_the_next_agent_removes_the_remains(tmp_path: Path) -> None:
    """The pod ended while no agent ran."""
    first = Bench(tmp_path)
    first.start(filling(restartPolicy="Never"))
    volume = fill(first)
    [stored] = first.snapshots.pods
    first.meta.objects["default/pod/web"] = to_value(stored)
    first.runtime.end("main", 0)
    first.poison()
    first.run(30)
    assert not volume.exists()
    first.stop()
