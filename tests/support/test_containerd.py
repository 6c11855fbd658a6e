"""The private containerd leaves a machine as it found it, and its images are the same every time."""

import subprocess
from pathlib import Path

import pytest

from edged.cri.client import CriClient
from protos.cri.v1 import api_pb2 as pb
from tests.support.containerd import PrivateContainerd, reason_missing
from tests.support.images import BUSYBOX_IMAGE, busybox_image, docker_archive
from tests.support.leftovers import cgroups_named

_MISSING = reason_missing()
pytestmark = [pytest.mark.containerd, pytest.mark.slow, pytest.mark.skipif(_MISSING is not None, reason=_MISSING or "")]


def _run_pod(containerd: PrivateContainerd) -> str:
    """Starts a pod that does not end; its address."""
    client = CriClient(containerd.endpoint)
    config = pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name="pod", uid="uid", namespace="default"),
        linux=pb.LinuxPodSandboxConfig(cgroup_parent=f"{containerd.cgroup_parent}/pod"),
    )
    sandbox = client.run_pod_sandbox(config)
    container = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="main"), image=pb.ImageSpec(image=BUSYBOX_IMAGE), command=["sleep", "1000"]
    )
    client.start_container(client.create_container(sandbox, container, config))
    address = client.pod_sandbox_status(sandbox).status.network.ip
    client.close()
    return address


def _traces(containerd: PrivateContainerd) -> list[str]:
    """Return everything on this machine that mentions the private containerd."""
    name = containerd.directory.name
    places = {
        "mounts": Path("/proc/self/mounts").read_text(),
        "links": subprocess.run(["ip", "link"], check=True, capture_output=True, text=True).stdout,
        "processes": subprocess.run(["ps", "ax"], check=True, capture_output=True, text=True).stdout,
        "cgroups": " ".join(str(path) for path in cgroups_named(f"/{name}")),
        "files": " ".join(str(path) for path in Path("/tmp").iterdir()),
    }
    return [place for place, text in places.items() if name in text]


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed before it is stopped"])
def test_nothing_is_left_on_the_machine(killed: bool) -> None:
    with PrivateContainerd(cni=True) as containerd:
        _run_pod(containerd)
        assert _traces(containerd) == ["mounts", "links", "processes", "cgroups", "files"]
        if killed:
            containerd.kill()
    assert _traces(containerd) == []


def test_two_run_side_by_side_without_sharing_pods_or_addresses() -> None:
    with PrivateContainerd(cni=True) as one, PrivateContainerd(cni=True) as other:
        addresses = {_run_pod(containerd).rpartition(".")[0] for containerd in (one, other)}
        assert len(addresses) == 2
        for containerd in (one, other):
            client = CriClient(containerd.endpoint)
            assert len(client.list_pod_sandboxes()) == 1
            client.close()


def test_the_same_image_has_the_same_id_every_time(tmp_path: Path) -> None:
    """And another with another config, so that tests can have as many images as they like."""
    archives = [docker_archive(image, tmp_path) for image in (busybox_image(), busybox_image())]
    assert archives[0] == archives[1]
    assert docker_archive(busybox_image(User="65534"), tmp_path) != archives[0]
