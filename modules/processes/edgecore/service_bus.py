"""Adds the module servicebus to a node; imported only where it is enabled."""

from pathlib import Path

from beehive import Hive
from modules.edge.servicebus.module import ServiceBus, ServiceBusSettings
from modules.processes.edgecore.config import EdgeCoreConfig


def add_service_bus(hive: Hive, config: EdgeCoreConfig) -> None:
    """Add servicebus with the settings of `modules.serviceBus`."""
    bus = config.modules.service_bus
    settings = ServiceBusSettings(
        node=config.node_name,
        address=bus.server,
        port=bus.port,
        timeout=bus.timeout,
        certificate=Path(bus.tls_cert_file) if bus.tls_cert_file else None,
        key=Path(bus.tls_private_key_file) if bus.tls_private_key_file else None,
    )
    hive.add(ServiceBus, settings, [])
