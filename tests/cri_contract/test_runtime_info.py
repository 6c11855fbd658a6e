"""critest: Runtime info, and the calls about the runtime itself that a kubelet makes beside it."""

import json
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.cri_contract.client import LOOP, Client, refused
from tests.support.patience import PATIENCE


def test_version(client: Client) -> None:
    """critest: runtime should return version info."""
    version = client.runtime.Version(cri.VersionRequest())
    assert version.version
    assert version.runtime_name
    assert version.runtime_version
    assert version.runtime_api_version == "v1"


def test_conditions(client: Client) -> None:
    """critest: runtime should return runtime conditions."""
    status = client.runtime.Status(cri.StatusRequest()).status
    assert {each.type: each.status for each in status.conditions}.items() >= {
        ("RuntimeReady", True),
        ("NetworkReady", True),
    }


def test_verbose_status(client: Client) -> None:
    """Status with `verbose` tells more, in values that are JSON or plain words; without it nothing."""
    assert not client.runtime.Status(cri.StatusRequest()).info
    info = client.runtime.Status(cri.StatusRequest(verbose=True)).info
    assert info
    for value in info.values():
        assert value.isprintable() if value[:1] not in "{[" else json.loads(value) is not None


def _told(client: Client, container: str) -> Any:
    request = cri.ContainerStatusRequest(container_id=container, verbose=True)
    return json.loads(client.runtime.ContainerStatus(request).info["info"])


def test_verbose_container(client: Client) -> None:
    """ContainerStatus with `verbose` has the entry that debugging tools read: process, sandbox and configuration."""
    pod = client.pod()
    container = client.start(*LOOP, pod=pod)
    assert not client.runtime.ContainerStatus(cri.ContainerStatusRequest(container_id=container)).info
    told = _told(client, container)
    assert told["sandboxID"] == pod
    assert Path(f"/proc/{told['pid']}").exists()
    assert told["config"]["metadata"]["name"] == client.status(container).metadata.name
    client.stop(container)
    assert _told(client, container)["pid"] == 0


def test_verbose_specification(client: Client) -> None:
    """Its `runtimeSpec` is the config.json of the OCI runtime."""
    told = _told(client, client.start(*LOOP))
    assert told["runtimeSpec"]["process"]["args"] == list(LOOP)
    assert told["runtimeSpec"]["linux"]["cgroupsPath"]


def test_verbose_pod(client: Client) -> None:
    """PodSandboxStatus with `verbose` has the configuration of the pod."""
    pod = client.pod()
    assert not client.runtime.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=pod)).info
    answer = client.runtime.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=pod, verbose=True))
    told = json.loads(answer.info["info"])
    assert told["config"]["metadata"]["name"] == answer.status.metadata.name
    assert isinstance(told["pid"], int)


def test_verbose_pod_network(client: Client) -> None:
    """Its `runtimeSpec` has the network namespace of the pod, and `cniResult` what the plug-ins answered."""
    pod = client.pod(network=True)
    answer = client.runtime.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=pod, verbose=True))
    told = json.loads(answer.info["info"])
    namespaces = {each["type"]: each.get("path") for each in told["runtimeSpec"]["linux"]["namespaces"]}
    assert Path(namespaces["network"]).exists()
    assert answer.status.network.ip in json.dumps(told["cniResult"])


def test_verbose_image(client: Client) -> None:
    """ImageStatus with `verbose` has the configuration of the image."""
    spec = cri.ImageSpec(image=client.pulled("user-uid"))
    assert not client.image_service.ImageStatus(cri.ImageStatusRequest(image=spec)).info
    answer = client.image_service.ImageStatus(cri.ImageStatusRequest(image=spec, verbose=True))
    told = json.loads(answer.info["info"])["imageSpec"]
    assert told["config"]["User"] == "1002"
    assert (told["os"], told["rootfs"]["type"], len(told["rootfs"]["diff_ids"]) > 0) == ("linux", "layers", True)


def test_runtime_config(client: Client) -> None:
    """RuntimeConfig names the driver of control groups, which a kubelet takes over."""
    config = client.runtime.RuntimeConfig(cri.RuntimeConfigRequest())
    assert config.linux.cgroup_driver in (cri.CGROUPFS, cri.SYSTEMD)


def test_update_runtime_config(client: Client) -> None:
    """UpdateRuntimeConfig, a kubelet's hand-over of the node's range of addresses, is taken."""
    network = cri.NetworkConfig(pod_cidr="10.99.0.0/16")
    request = cri.UpdateRuntimeConfigRequest(runtime_config=cri.RuntimeConfig(network_config=network))
    assert client.runtime.UpdateRuntimeConfig(request) == cri.UpdateRuntimeConfigResponse()


def test_checkpoints_are_refused(client: Client) -> None:
    """CheckpointContainer is not offered, and says so as a missing method."""
    error = refused(client.runtime.CheckpointContainer, cri.CheckpointContainerRequest(container_id="x"))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


def test_events(client: Client) -> None:
    """GetContainerEvents tells the life of a container in order, with the status of its pod."""
    stream = client.runtime.GetContainerEvents(cri.GetEventsRequest())
    seen: list[cri.ContainerEventResponse] = []
    told = threading.Event()
    ids: list[str] = []

    def listen() -> None:
        try:
            for event in stream:
                seen.append(event)
                if event.container_event_type == cri.CONTAINER_DELETED_EVENT and event.container_id in ids:
                    told.set()
        except grpc.RpcError:
            return

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        pod = client.pod()
        while not seen and listener.is_alive():  # the stream may begin later than it was asked for
            client.remove(client.create(*LOOP, pod=pod))
        assert seen, "the stream has ended"
        ids.append(client.start(*LOOP, pod=pod))
        client.stop(ids[0])
        client.remove(ids[0])
        assert told.wait(PATIENCE)
    finally:
        stream.cancel()
        listener.join()
    events = [each for each in seen if each.container_id == ids[0]]
    assert [each.container_event_type for each in events] == [
        cri.CONTAINER_CREATED_EVENT,
        cri.CONTAINER_STARTED_EVENT,
        cri.CONTAINER_STOPPED_EVENT,
        cri.CONTAINER_DELETED_EVENT,
    ]
    assert {each.pod_sandbox_status.id for each in events} == {pod}


@pytest.mark.parametrize("method", ["ContainerStatus", "StartContainer", "ContainerStats", "ReopenContainerLog"])
def test_an_unknown_container(client: Client, method: str) -> None:
    """Calls about a container that does not exist say NotFound, which tells a kubelet that it is gone."""
    request = getattr(cri, f"{method}Request")(container_id="0" * 64)
    assert refused(getattr(client.runtime, method), request).code() is grpc.StatusCode.NOT_FOUND
