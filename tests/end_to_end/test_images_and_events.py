"""Images from a registry with credentials, and what the cloud learns of it all."""

import base64
import json
import secrets
from collections.abc import Iterator

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, phase, pod, state_of
from tests.support.control_client import Get
from tests.support.images import busybox_image
from tests.support.registry import Registry

PASSWORD = "correct-horse-battery"  # noqa: S105
WRONG = "battery-horse-correct"
_CONTAINERD = pytest.param("containerd", marks=pytest.mark.containerd)
CONTAINERD = pytest.mark.parametrize("runtime", [_CONTAINERD], indirect=True)
EMBEDDED = pytest.mark.parametrize("runtime", ["embedded"], indirect=True)


@pytest.fixture
def registry() -> Iterator[Registry]:
    """With an image that nobody has seen before."""
    image = busybox_image("app", Labels={"name": secrets.token_hex()})
    with Registry(image, "me", PASSWORD) as made:
        yield made


def pull_secret(name: str, registry: Registry, password: str) -> JsonObject:
    auth = base64.b64encode(f"me:{password}".encode()).decode()
    config = json.dumps({"auths": {registry.address: {"auth": auth}}}).encode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "default"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(config).decode()},
    }


def told(machine: Machine, name: str, reason: str, words: str = "") -> JsonObject:
    """Wait until the cloud has such an event about a pod or node."""

    def fits(event: JsonObject) -> bool:
        about = event["involvedObject"]["name"]
        return (about, event["reason"]) == (name, reason) and words in event["message"]

    return machine.cloud.mirror("Event").wait_any(fits, f"event {reason} about {name}")


@CONTAINERD
def test_a_registry_opens_for_the_pods_own_secret_and_is_asked_once_for_five_pods(
    stopped_machine: Machine, registry: Registry
) -> None:
    """A wrong secret is named in the status and in an event, and no password leaks."""
    machine, image = stopped_machine, f"{registry.address}/team/app:1"
    machine.start()
    machine.cloud.apply(pull_secret("right", registry, PASSWORD), pull_secret("wrong", registry, WRONG))
    machine.cloud.apply(pod("wrong", container(image=image), imagePullSecrets=[{"name": "wrong"}], hostNetwork=True))
    machine.cloud.pods.wait("wrong", lambda obj: state_of(obj, "waiting").get("reason") == "ImagePullBackOff")
    assert registry.refused > 0
    names = [f"p{number}" for number in range(5)]
    registry.answers.clear()
    for name in names:
        wanted = pod(name, container(image=image), imagePullSecrets=[{"name": "right"}], hostNetwork=True)
        machine.cloud.apply(wanted)
    for name in names:
        machine.cloud.pods.wait(name, lambda obj: state_of(obj, "waiting").get("message", "").startswith("Pulling"))
    registry.answers.set()
    for name in names:
        machine.cloud.pods.wait(name, lambda obj: phase(obj) == "Running")
    assert registry.resolved == 1
    assert told(machine, "wrong", "Failed", "Failed to pull image")["type"] == "Warning"
    told(machine, "wrong", "BackOff")
    told(machine, "p0", "Pulling")
    told(machine, "p0", "Pulled")
    log = (machine.directory / "edgecore.log").read_text()
    events = str(machine.cloud.mirror("Event").objects())
    for password in (PASSWORD, WRONG):
        assert password not in log
        assert password not in events


@EMBEDDED
def test_the_cloud_gets_a_pods_life_without_any_setting(stopped_machine: Machine) -> None:
    machine = stopped_machine
    machine.start()
    told(machine, "edge-1", "Starting")
    machine.cloud.apply(pod("p"))
    machine.cloud.pods.wait("p", lambda obj: phase(obj) == "Running")
    for reason in ("Created", "Started"):
        event = told(machine, "p", reason)
        assert event["involvedObject"]["fieldPath"] == "spec.containers{app}"
        assert event["source"] == {"component": "kubelet", "host": "edge-1"}
    machine.cloud.delete("Pod", "p")
    told(machine, "p", "Killing", "Stopping container app")


@EMBEDDED
def test_a_file_with_false_is_obeyed(stopped_machine: Machine) -> None:
    """KubeEdge's own default file does."""
    machine = stopped_machine
    machine.edge.edged["report_event"] = False
    machine.start()
    machine.cloud.apply(pod("crasher", container("exit 1")))
    machine.cloud.pods.wait("crasher", lambda obj: state_of(obj, "waiting").get("reason") == "CrashLoopBackOff")
    machine.cloud.delete("Pod", "crasher")
    machine.cloud.pods.wait_gone("crasher")
    events = [item.object for item in machine.cloud.client.run(Get("Event", namespace=None)) if item.object]
    components = {event["source"]["component"] for event in events}
    assert components == {"default-scheduler", "node-controller"}, "the node writes none"
