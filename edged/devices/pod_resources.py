"""Kubernetes' pod resources API (v1): monitoring agents list the devices of containers with it.

This agent has neither exclusive CPUs nor memory, nor dynamic resources (claims): those lists are empty.
"""

from collections.abc import Callable, Iterable, Mapping

from edged.devices.contract import Answer
from edged.devices.manager import DeviceManager
from edged.devices.model import Device
from edged.devices.pod_devices import ContainerAllocations
from edged.errors import DeviceError
from edged.pods.model import PodUid
from edged.pods.restart import is_terminal
from modules.apimachinery.pods.sidecars import is_sidecar
from modules.apimachinery.types import Container, Pod
from protos.podresources.v1 import api_pb2 as proto


def methods(manager: DeviceManager, pods: Callable[[], Iterable[Pod]]) -> dict[str, Answer]:
    """Return the methods of the API by name."""

    def active() -> list[Pod]:
        return [pod for pod in pods() if not is_terminal(pod)]

    def listing(_: bytes) -> proto.ListPodResourcesResponse:
        given = manager.pods()
        return proto.ListPodResourcesResponse(pod_resources=[_of_pod(pod, given) for pod in active()])

    def get(raw: bytes) -> proto.GetPodResourcesResponse:
        request = proto.GetPodResourcesRequest.FromString(raw)
        identity = (request.pod_namespace, request.pod_name)
        for pod in active():
            if (pod.metadata.namespace, pod.metadata.name) == identity:
                return proto.GetPodResourcesResponse(pod_resources=_of_pod(pod, manager.pods()))
        raise DeviceError(f"pod {request.pod_name} in namespace {request.pod_namespace} not found")

    def allocatable(_: bytes) -> proto.AllocatableResourcesResponse:
        return proto.AllocatableResourcesResponse(devices=_of_devices(manager.healthy()))

    return {"List": listing, "Get": get, "GetAllocatableResources": allocatable}


def _of_pod(pod: Pod, given: Mapping[PodUid, ContainerAllocations]) -> proto.PodResources:
    """Return a pod with the containers that may run at the same time: init containers have ended when the
    others start.
    """
    allocations = given.get(PodUid(pod.metadata.uid), {})
    running = (*(c for c in pod.spec.init_containers if is_sidecar(c)), *pod.spec.containers)
    return proto.PodResources(
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        containers=[_of_container(container, allocations) for container in running],
    )


def _of_container(container: Container, allocations: ContainerAllocations) -> proto.ContainerResources:
    has = {resource: allocation.devices for resource, allocation in sorted(allocations.get(container.name, {}).items())}
    return proto.ContainerResources(name=container.name, devices=_of_devices(has))


def _of_devices(devices: Mapping[str, Iterable[Device]]) -> list[proto.ContainerDevices]:
    """Return each device by itself, once for each nearby NUMA node, as kubelet does."""
    return [
        proto.ContainerDevices(resource_name=resource, device_ids=[device.id], topology=topology)
        for resource, each in devices.items()
        for device in each
        for topology in _topologies(device)
    ]


def _topologies(device: Device) -> list[proto.TopologyInfo | None]:
    if not device.numa:
        return [None]
    return [proto.TopologyInfo(nodes=[proto.NUMANode(ID=number)]) for number in device.numa]
