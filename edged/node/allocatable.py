"""What a node has, and what of it is for pods (kubelet's node allocatable), in base units. Pure."""

from collections.abc import Mapping
from fractions import Fraction

from edged.devices.model import DeviceCapacity
from edged.eviction_api.signals import Signal
from edged.eviction_api.thresholds import EvictionSettings
from edged.node.machine import MachineFacts

Amounts = dict[str, Fraction | int]


def capacity(machine: MachineFacts, devices: Mapping[str, DeviceCapacity], max_pods: int) -> Amounts:
    """Return the amounts of the node's own resources and devices."""
    return {
        **_resources(machine.cpus, machine.storage, machine.memory, max_pods),
        **machine.huge_pages,
        **{name: device.capacity for name, device in devices.items()},
    }


def allocatable(
    machine: MachineFacts,
    devices: Mapping[str, DeviceCapacity],
    max_pods: int,
    reserved: Mapping[str, Fraction],
    eviction: EvictionSettings,
) -> Amounts:
    """Return the amounts of the node's own resources and devices that are for pods: without those that are reserved,
    and those that hard eviction thresholds keep free. No other memory can be in huge pages.
    """

    def unreserved(name: str, amount: int) -> int:
        return max(0, int(amount - reserved.get(name, 0)))

    memory = machine.memory - sum(machine.huge_pages.values()) - eviction.reserve(Signal.MEMORY, machine.memory)
    storage = machine.storage - eviction.reserve(Signal.NODE_FS, machine.storage)
    return {
        **_resources(
            max(0, machine.cpus - reserved.get("cpu", 0)),
            unreserved("ephemeral-storage", storage),
            unreserved("memory", memory),
            max_pods,
        ),
        **{name: unreserved(name, amount) for name, amount in machine.huge_pages.items()},
        **{name: device.allocatable for name, device in devices.items()},
    }


def _resources(cpu: Fraction | int, storage: int, memory: int, pods: int) -> Amounts:
    """Return amounts by resource; memory in whole Ki."""
    return {"cpu": cpu, "ephemeral-storage": storage, "memory": memory // 1024 * 1024, "pods": pods}
