"""Adds the module eventbus to a node; imported only where it is enabled, for its MQTT library takes memory."""

from functools import partial

from beehive import Hive
from beehive.errors import BeehiveError
from beehive.exposition import CollectorRegistry
from beehive.http.authority import server_of
from beehive.sockets.tls import TlsFiles
from modules.edge.eventbus.counters import EventBusCounters
from modules.edge.eventbus.internal_broker import INSTALL, InternalBroker
from modules.edge.eventbus.metrics import event_bus_metrics
from modules.edge.eventbus.module import EventBus, EventBusSettings
from modules.edge.eventbus.mosquitto_files import client_id, find_mosquitto
from modules.edge.eventbus.session import BrokerSettings
from modules.processes.edgecore.config import EdgeCoreConfig

INTERNAL, BOTH, EXTERNAL = range(3)
"""KubeEdge's numbers of `mqttMode`."""


def add_event_bus(hive: Hive, config: EdgeCoreConfig, registry: CollectorRegistry) -> None:
    """Add eventbus with the settings of `modules.eventBus`.

    Raises:
        BeehiveError: it is to run mosquitto, which is not installed.
        OSError: the directory of mosquitto cannot be written.
    """
    counters = EventBusCounters()
    hive.add(EventBus, event_bus_settings(config), counters)
    registry.register(partial(event_bus_metrics, counters))


def event_bus_settings(config: EdgeCoreConfig) -> EventBusSettings:
    """Return eventbus's settings. Raises as `add_event_bus`."""
    mode = config.modules.event_bus.mqtt_mode
    external = None if mode == INTERNAL else _external(config)
    return EventBusSettings(config.node_name, external, None if mode == EXTERNAL else _internal(config))


def _external(config: EdgeCoreConfig) -> BrokerSettings:
    bus = config.modules.event_bus
    host, port = server_of(bus.mqtt_server_external)
    tls = bus.event_bus_tls
    files = TlsFiles(tls.tls_mqtt_ca_file, tls.tls_mqtt_cert_file, tls.tls_mqtt_private_key_file)
    return BrokerSettings(
        host=host,
        port=port,
        client_id=bus.mqtt_sub_client_id or f"edgecore-{config.node_name}",
        user=bus.mqtt_username,
        password=str(bus.mqtt_password),
        tls=files if tls.enable else None,
    )


def _internal(config: EdgeCoreConfig) -> InternalBroker:
    bus, directory = config.modules.event_bus, config.internal_broker
    program = find_mosquitto()
    if program is None:
        mode = f"modules.eventBus.mqttMode is {bus.mqtt_mode}"
        raise BeehiveError("run the internal MQTT broker", f"mosquitto is not installed, and {mode}", INSTALL)
    host, port = server_of(bus.mqtt_server_internal)
    return InternalBroker(
        directory=directory,
        program=program,
        host=host,
        port=port,
        client_id=client_id(directory),
        user=bus.mqtt_username,
        password=str(bus.mqtt_password),
        queue=bus.mqtt_session_queue_size,
        qos=bus.mqtt_qos,
        retain=bus.mqtt_retain,
    )
