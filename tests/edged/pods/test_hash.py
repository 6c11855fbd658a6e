"""The fingerprint of a definition, and how long an ending takes."""

import pytest
from msgspec.structs import replace

from edged.pods.hash import container_hash, differs, kubelet_hash
from modules.apimachinery.types import Container, EnvVar, Lifecycle, Probe, VolumeMount
from tests.edged.pods.builders import a_container

BASE = a_container(env=(EnvVar(name="A", value="1"),))


@pytest.mark.parametrize(
    "changed",
    [
        replace(BASE, image="busybox:1.36"),
        replace(BASE, command=("sh",)),
        replace(BASE, args=("x",)),
        replace(BASE, env=(EnvVar(name="A", value="2"),)),
        replace(BASE, working_dir="/w"),
        replace(BASE, volume_mounts=(VolumeMount(name="v", mount_path="/v"),)),
        replace(BASE, tty=True),
        replace(BASE, name="other"),
    ],
)
def test_a_field_that_the_process_sees_changes_the_hash(changed: Container) -> None:
    """Each such field makes another definition."""
    assert container_hash(changed) != container_hash(BASE)


@pytest.mark.parametrize(
    "changed",
    [
        replace(BASE, liveness_probe=Probe()),
        replace(BASE, lifecycle=Lifecycle()),
        replace(BASE, image_pull_policy="Always"),
        replace(BASE, termination_message_path="/x"),
    ],
)
def test_a_field_that_the_process_does_not_see_keeps_the_hash(changed: Container) -> None:
    """Such a field can be applied without a restart."""
    assert container_hash(changed) == container_hash(BASE)


def test_hash_is_stable_over_versions() -> None:
    """The value is stored with running containers: this one must never change, or an update restarts
    everything.
    """
    assert container_hash(BASE) == "0a02ad18ad1c3531"


@pytest.mark.parametrize(
    ("name", "image", "known"),
    [
        ("test_container", "foo/image:v1", "8e45cbd0"),  # of TestHashContainer in kubelet's own tests
        ("kube-controller-manager", "registry.k8s.io/kube-controller-manager:v1.32.0", "99f3a73e"),
        ("kube-scheduler", "registry.k8s.io/kube-scheduler:v1.32.0", "8c4b12d6"),
    ],
)
def test_the_kubelets_hash_is_the_kubelets(name: str, image: str, known: str) -> None:
    """Values of real kubelets; what else a container has does not matter."""
    assert kubelet_hash(Container(name=name, image=image, args=("/bin/sh", "-c", "echo abc"))) == known


def test_a_hash_of_ours_tells_by_itself() -> None:
    """Also one that an earlier version noted in the kubelet's place; the runtime's name of the image is not asked."""
    assert not differs(container_hash(BASE), BASE, "docker.io/library/other:1")
    assert differs(container_hash(BASE), replace(BASE, tty=True), f"docker.io/library/{BASE.image}")


@pytest.mark.parametrize(
    ("recorded", "image", "expected"),
    [
        (kubelet_hash(BASE), "docker.io/library/busybox:1.35", False),
        (kubelet_hash(BASE), "docker.io/library/other:1", False),
        (kubelet_hash(replace(BASE, image="busybox:1.34")), "docker.io/library/busybox:1.34", True),
        ("deadbeef", "docker.io/library/busybox:1.35", False),
        ("deadbeef", "busybox:1.35", False),
        ("deadbeef", "registry.example/busybox:1.35", True),
        ("deadbeef", "sha256:a1c9", False),
        ("deadbeef", "busybox@sha256:a1c9", False),
        ("deadbeef", "a1c9", False),
        ("deadbeef", "", False),
        ("", "docker.io/library/other:1", False),
    ],
)
def test_a_kubelets_container_is_another_one_only_with_another_image(recorded: str, image: str, expected: bool) -> None:
    """`deadbeef` stands for the hash of an older kubelet, which cannot be computed again."""
    assert differs(recorded, BASE, image) is expected


def test_an_image_without_a_tag_is_the_latest() -> None:
    container = replace(BASE, image="quay.io/x/tool")
    assert not differs("deadbeef", container, "quay.io/x/tool:latest")
    assert differs("deadbeef", container, "quay.io/x/tool:v2")
