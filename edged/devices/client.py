"""The gRPC client of a device plug-in.

Imported when the first plug-in registers: nodes without devices do without the generated code.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from edged.devices.model import Device, PluginOptions
from edged.errors import PluginCallError
from edged.plugins.socket import PluginSocket
from edged.pods.config.device_options import DeviceMount, DeviceNode, DeviceRunContainerOptions
from protos.deviceplugin.v1beta1 import api_pb2 as proto

_SERVICE: Final = "v1beta1.DevicePlugin"
_HEALTHY: Final = "Healthy"
_SECONDS: Final = 10.0
"""Time-out of calls without work (kubelet's time-out to connect)."""
_ALLOCATE_SECONDS: Final = 120.0
"""A plug-in may have to reset a device. kubelet waits without limit; this is the default time-out of runtime calls."""
_PRE_START_SECONDS: Final = 30.0
"""kubelet's KubeletPreStartContainerRPCTimeoutInSecs."""


class GrpcDevicePlugin:
    """A `DevicePlugin` behind its socket (kubelet's endpoint)."""

    def __init__(self, endpoint: Path) -> None:
        self._socket = PluginSocket(endpoint)

    def options(self) -> PluginOptions:
        method = f"{_SERVICE}/GetDevicePluginOptions"
        answer = self._socket.call(method, proto.Empty(), proto.DevicePluginOptions, _SECONDS)
        return PluginOptions(answer.pre_start_required, answer.get_preferred_allocation_available)

    def watch(self) -> Iterator[tuple[Device, ...]]:
        answers = self._socket.stream(f"{_SERVICE}/ListAndWatch", proto.Empty(), proto.ListAndWatchResponse)
        for answer in answers:
            yield tuple(_device(device) for device in answer.devices)

    def preferred(self, available: AbstractSet[str], must: AbstractSet[str], count: int) -> frozenset[str]:
        asked = proto.ContainerPreferredAllocationRequest(
            available_deviceIDs=sorted(available), must_include_deviceIDs=sorted(must), allocation_size=count
        )
        request = proto.PreferredAllocationRequest(container_requests=[asked])
        method = f"{_SERVICE}/GetPreferredAllocation"
        answer = self._socket.call(method, request, proto.PreferredAllocationResponse, _SECONDS)
        return frozenset(device for each in answer.container_responses[:1] for device in each.deviceIDs)

    def allocate(self, devices: AbstractSet[str]) -> DeviceRunContainerOptions:
        asked = proto.ContainerAllocateRequest(devices_ids=sorted(devices))
        request = proto.AllocateRequest(container_requests=[asked])
        answer = self._socket.call(f"{_SERVICE}/Allocate", request, proto.AllocateResponse, _ALLOCATE_SECONDS)
        if not answer.container_responses:
            raise PluginCallError("Allocate", ", ".join(sorted(devices)), "OK", "the answer is empty")
        return _run_options(answer.container_responses[0])

    def pre_start(self, devices: AbstractSet[str]) -> None:
        request = proto.PreStartContainerRequest(devices_ids=sorted(devices))
        method = f"{_SERVICE}/PreStartContainer"
        self._socket.call(method, request, proto.PreStartContainerResponse, _PRE_START_SECONDS)

    def close(self) -> None:
        self._socket.close()


def _device(device: proto.Device) -> Device:
    return Device(device.ID, device.health == _HEALTHY, tuple(node.ID for node in device.topology.nodes))


def _run_options(answer: proto.ContainerAllocateResponse) -> DeviceRunContainerOptions:
    return DeviceRunContainerOptions(
        envs=dict(answer.envs),
        mounts=tuple(DeviceMount(each.container_path, each.host_path, each.read_only) for each in answer.mounts),
        nodes=tuple(DeviceNode(each.container_path, each.host_path, each.permissions) for each in answer.devices),
        annotations=dict(answer.annotations),
        cdi_devices=tuple(each.name for each in answer.cdi_devices),
    )
