"""`modules.eventBus` and `modules.deviceTwin` of the configuration file."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from beehive import BeehiveError
from beehive.sockets.tls import TlsFiles
from modules.processes.edgecore.config import ConfigError, EdgeCoreConfig, loads
from modules.processes.edgecore.event_bus import event_bus_settings
from modules.processes.edgecore.settings import twin_settings

_TEXT = """
modules:
  edged: {{hostnameOverride: n1}}
  eventBus: {{enable: true, {rest}}}
"""


def test_by_default_there_are_devices_and_no_mqtt() -> None:
    config = loads("modules: {}").config
    assert config.modules.device_twin.enable
    assert not config.modules.event_bus.enable
    assert not twin_settings(config).mqtt


def test_kubeedges_keys_name_the_broker() -> None:
    rest = 'mqttServerExternal: "tcp://[::1]:1884", mqttUsername: u, mqttPassword: p, mqttSubClientID: me'
    config = loads(_TEXT.format(rest=rest)).config
    settings = event_bus_settings(config)
    broker = settings.broker
    assert broker is not None
    assert settings.internal is None
    assert (broker.host, broker.port, broker.client_id) == ("::1", 1884, "me")
    assert (broker.user, broker.password, broker.tls) == ("u", "p", None)
    assert twin_settings(config).mqtt


def test_the_broker_knows_the_node_by_its_name() -> None:
    broker = event_bus_settings(loads(_TEXT.format(rest="mqttMode: 2")).config).broker
    assert broker is not None
    assert broker.client_id == "edgecore-n1"


def test_tls_has_three_files() -> None:
    rest = 'mqttServerExternal: "ssl://h:8883", eventBusTLS: {enable: true, tlsMqttCAFile: /a}'
    broker = event_bus_settings(loads(_TEXT.format(rest=rest)).config).broker
    kept = Path("/etc/kubeedge/certs")
    assert broker is not None
    assert broker.tls == TlsFiles(Path("/a"), kept / "server.crt", kept / "server.key")


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ('mqttMode: 0, mqttServerInternal: "ssl://127.0.0.1:1884"', "has no TLS"),
        ('mqttMode: 1, mqttServerInternal: "tcp://0.0.0.0:1884"', "open to the network"),
        ('mqttMode: 0, mqttUsername: "a:b", mqttPassword: p', "colon"),
        ("mqttMode: 0, mqttUsername: a", "set a password"),
        ('mqttServerExternal: "ssl://h:8883"', "eventBusTLS.enable is false"),
        ("eventBusTLS: {enable: true}", "eventBusTLS.enable is true"),
        ('mqttServerExternal: "h"', "tcp://host:1883"),
    ],
)
def test_impossible_options_are_refused_with_the_remedy(rest: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        loads(_TEXT.format(rest=rest))


def _internal(directory: Path, mode: int) -> EdgeCoreConfig:
    text = _TEXT.format(rest=f"mqttMode: {mode}, mqttServerInternal: 'tcp://[::1]:1890', mqttQOS: 2, mqttRetain: true")
    config = loads(text).config
    edged = replace(config.modules.edged, root_directory=directory)
    return replace(config, modules=replace(config.modules, edged=edged))


def test_an_internal_broker_has_a_secret_name_for_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that knew it could take over edgecore's session. It stays the same, for the broker keeps the session."""
    monkeypatch.setattr("modules.processes.edgecore.event_bus.find_mosquitto", lambda: Path("/m"))
    both, alone = (event_bus_settings(_internal(tmp_path, mode)) for mode in (1, 0))
    assert both.broker is not None
    assert alone.broker is None
    assert both.internal == alone.internal
    found = alone.internal
    assert found is not None
    assert (found.program, found.host, found.port, found.qos, found.retain) == (Path("/m"), "::1", 1890, 2, True)
    assert re.fullmatch(r"edgecore-[0-9a-f]{32}", found.client_id)
    assert (tmp_path / "mosquitto" / "client-id").stat().st_mode & 0o777 == 0o600


def test_without_mosquitto_the_node_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no silent fallback."""
    monkeypatch.setattr("modules.processes.edgecore.event_bus.find_mosquitto", lambda: None)
    with pytest.raises(BeehiveError, match=r"mosquitto is not installed.*apt-get install mosquitto"):
        event_bus_settings(_internal(tmp_path, 0))
