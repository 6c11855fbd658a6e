"""Adds the module dmi to a node, on whose socket mappers of devices register."""

from beehive import Hive
from beehive.exposition import CollectorRegistry
from modules.edge.dmi.counters import DmiCollector, DmiCounters
from modules.edge.dmi.module import Dmi, DmiSettings
from modules.processes.edgecore.config import EdgeCoreConfig


def add_mappers(hive: Hive, config: EdgeCoreConfig, registry: CollectorRegistry) -> None:
    """Add dmi with the settings of `modules.deviceTwin`, and its metrics."""
    counters = DmiCounters()
    hive.add(Dmi, dmi_settings(config), counters)
    registry.register(DmiCollector(counters))


def dmi_settings(config: EdgeCoreConfig) -> DmiSettings:
    """Return dmi's settings."""
    twin = config.modules.device_twin
    return DmiSettings(
        socket=twin.dmi_socket,
        node=config.node_name,
        group=twin.dmi_sock_group,
        report_rate=twin.mapper_report_qps,
        report_burst=twin.mapper_report_burst,
        like_kubeedge=twin.like_kube_edge,
    )
