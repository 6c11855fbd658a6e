"""The fingerprint of a definition, and how long an ending takes."""

import pytest
from msgspec.structs import replace

from edged.api import Container, EnvVar, Lifecycle, Pod, Probe, VolumeMount
from edged.pods.grace_period import grace_seconds
from edged.pods.hash import container_hash
from tests.edged.pods.builders import a_container, a_pod

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
def test_what_the_process_sees_changes_the_hash(changed: Container) -> None:
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
def test_what_the_process_does_not_see_keeps_the_hash(changed: Container) -> None:
    """Such a field can be applied without a restart."""
    assert container_hash(changed) == container_hash(BASE)


def test_hash_is_stable_over_versions() -> None:
    """The value is stored with running containers: this one must never change, or an update restarts
    everything.
    """
    assert container_hash(BASE) == "0a02ad18ad1c3531"


@pytest.mark.parametrize(
    ("pod", "override", "grace"),
    [
        (a_pod(), None, 30),
        (a_pod(termination_grace_period_seconds=5), None, 5),
        (a_pod(termination_grace_period_seconds=5, meta={"deletion_grace_period_seconds": 2}), None, 2),
        (a_pod(termination_grace_period_seconds=5, meta={"deletion_grace_period_seconds": 0}), None, 1),
        (a_pod(termination_grace_period_seconds=0), None, 1),
        (a_pod(termination_grace_period_seconds=5), 3, 3),
        (a_pod(termination_grace_period_seconds=10**18), None, 2**31 - 1),
    ],
)
def test_grace_period(pod: Pod, override: int | None, grace: int) -> None:
    """An override, then the deletion's, then the pod's own, then 30 s; never none."""
    assert grace_seconds(pod, override) == grace
