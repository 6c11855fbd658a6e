"""The modules of a node that a configuration switches on, in the order of their start.

A module that is off is not imported, because its libraries take memory: each function here imports its own
(`tests/modules/processes/edgecore/test_imports.py`). docs/add-a-module.md adds one.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from beehive import Hive
from beehive.exposition import CollectorRegistry
from beehive.http.authority import server_of
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.model import Modules

if TYPE_CHECKING:
    from modules.edge.dmi.settings import DmiSettings


def add_optional_modules(hive: Hive, config: EdgeCoreConfig, registry: CollectorRegistry) -> None:
    """Add the modules of `OPTIONAL_MODULES` that the configuration enables.

    Raises:
        BeehiveError: eventbus is to run mosquitto, which is not installed.
        OSError: the directory of mosquitto cannot be written.
    """
    for module in OPTIONAL_MODULES:
        if module.is_enabled(config.modules):
            module.add(hive, config, registry)


def _add_dmi(hive: Hive, config: EdgeCoreConfig, registry: CollectorRegistry) -> None:
    from modules.edge.dmi.counters import DmiCounters, dmi_metrics  # noqa: PLC0415
    from modules.edge.dmi.module import Dmi  # noqa: PLC0415

    counters = DmiCounters()
    hive.add(Dmi, dmi_settings(config), counters)
    registry.register(partial(dmi_metrics, counters))


def dmi_settings(config: EdgeCoreConfig) -> "DmiSettings":
    """Return dmi's settings, from `modules.deviceTwin`."""
    from modules.edge.dmi.settings import DmiSettings  # noqa: PLC0415

    twin = config.modules.device_twin
    return DmiSettings(
        socket=twin.dmi_socket,
        node=config.node_name,
        group=twin.dmi_sock_group,
        report_rate=twin.mapper_report_qps,
        report_burst=twin.mapper_report_burst,
        like_kubeedge=twin.like_kube_edge,
    )


def _add_event_bus(hive: Hive, config: EdgeCoreConfig, registry: CollectorRegistry) -> None:
    from modules.processes.edgecore.event_bus import add_event_bus  # noqa: PLC0415

    add_event_bus(hive, config, registry)


def _add_test_manager(hive: Hive, config: EdgeCoreConfig, _registry: CollectorRegistry) -> None:
    from modules.edge.testmanager.module import ManagerSettings, NodeTestManager  # noqa: PLC0415

    options = config.modules.db_test
    hive.add(NodeTestManager, ManagerSettings(options.token_file, options.port))


def _add_service_bus(hive: Hive, config: EdgeCoreConfig, _registry: CollectorRegistry) -> None:
    from modules.edge.servicebus.module import ServiceBus, ServiceBusSettings  # noqa: PLC0415

    modules, bus = config.modules, config.modules.service_bus
    server, test = modules.meta_manager.meta_server, modules.db_test
    own = {modules.edged.tailored_kubelet_config.read_only_port}
    own |= {server_of(server.server)[1]} if server.enable else set()
    own |= {test.port} if test.enable else set()
    settings = ServiceBusSettings(
        node=config.node_name,
        address=bus.server,
        port=bus.port,
        timeout=bus.timeout,
        certificate=Path(bus.tls_cert_file) if bus.tls_cert_file else None,
        key=Path(bus.tls_private_key_file) if bus.tls_private_key_file else None,
        own_ports=frozenset(own),
    )
    hive.add(ServiceBus, settings, [])


def _add_edge_stream(hive: Hive, config: EdgeCoreConfig, registry: CollectorRegistry) -> None:
    from modules.processes.edgecore.edge_stream import add_edge_stream  # noqa: PLC0415

    add_edge_stream(hive, config, registry)


def _has_store(modules: Modules) -> bool:
    return modules.meta_manager.enable


def _has_mappers(modules: Modules) -> bool:
    return _has_store(modules) and modules.device_twin.enable and modules.device_twin.enable_mappers


class OptionalModule(msgspec.Struct, frozen=True):
    """A module that a configuration switches on: the condition, and the function that adds it to the hive."""

    is_enabled: Callable[[Modules], bool]
    add: Callable[[Hive, EdgeCoreConfig, CollectorRegistry], None]


OPTIONAL_MODULES: Final = (
    OptionalModule(_has_mappers, _add_dmi),
    OptionalModule(lambda modules: _has_store(modules) and modules.event_bus.enable, _add_event_bus),
    OptionalModule(lambda modules: _has_store(modules) and modules.db_test.enable, _add_test_manager),
    OptionalModule(lambda modules: _has_store(modules) and modules.service_bus.enable, _add_service_bus),
    OptionalModule(lambda modules: modules.edge_stream.enable, _add_edge_stream),
)
"""They start after metamanager and devicetwin, and before edged and edgehub."""
