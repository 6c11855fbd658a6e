"""The settings themselves: what the assembly asks of them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.processes.edgecore.config import PROCESS_ENDPOINT, ConfigError, EdgeCoreConfig, loads, verify
from modules.processes.edgecore.config.names import NODE_NAME, RUNTIME_ENDPOINT, host_name, node_name_from
from modules.processes.edgecore.config.value_kinds import Text, UnfitError


def test_embedded_keeps_everything_below_its_root(tmp_path: Path) -> None:
    """Every path an ordinary user would have to write to is below the one directory."""
    config = EdgeCoreConfig.below(tmp_path)
    verify(config, "test")
    edged = config.modules.edged
    paths = [edged.root_directory, edged.tailored_kubelet_config.pod_logs_dir, config.container_runtime_root]
    paths += [config.container_runtime_socket, Path(config.database.data_source)]
    assert all(path.is_relative_to(tmp_path) for path in paths)
    assert config.runs_container_runtime
    assert config.runtime_endpoint == config.image_endpoint == f"unix://{tmp_path}/edged/embedded.sock"
    assert config.database_url == f"sqlite:///{tmp_path}/edgecore.db"
    assert config.websocket_url.startswith("ws://127.0.0.1:10000/")


def test_a_relative_root_is_taken_from_the_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sockets and database do not move when the process changes its directory later."""
    monkeypatch.chdir(tmp_path)
    assert EdgeCoreConfig.below(Path("x")) == EdgeCoreConfig.below(tmp_path / "x")


def test_a_root_too_long_for_a_socket_is_an_error() -> None:
    """Said before anything starts, not by a failing bind."""
    with pytest.raises(ConfigError, match=r"modules\.edged\.rootDirectory: too long by 14 bytes"):
        verify(EdgeCoreConfig.below(Path("/" + "x" * 100)), "--root")


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ("cloud:10000", "wss://cloud:10000/p/n/events"),
        ("wss://cloud:10000", "wss://cloud:10000/p/n/events"),
        ("ws://127.0.0.1:1", "ws://127.0.0.1:1/p/n/events"),
        ("'[::1]:10000'", "wss://[::1]:10000/p/n/events"),
    ],
)
def test_websocket_url(server: str, url: str) -> None:
    """TLS unless the scheme says otherwise; then project and node, as KubeEdge's edgehub has them."""
    text = f"modules: {{edgeHub: {{projectID: p, websocket: {{server: {server}}}}}, edged: {{hostnameOverride: n}}}}"
    assert loads(text).config.websocket_url == url


def test_each_server_has_its_websocket_url() -> None:
    hub = "{projectID: p, websocket: {server: 'a:1', backupServers: ['b:2']}}"
    text = f"modules: {{edgeHub: {hub}, edged: {{hostnameOverride: n}}}}"
    assert loads(text).config.websocket_urls == ("wss://a:1/p/n/events", "wss://b:2/p/n/events")


def test_the_image_service_is_the_runtime_unless_configured() -> None:
    """With the process runtime, too, the endpoint that edged calls is a socket."""
    kubelet = "modules: {edged: {rootDirectory: /r, tailoredKubeletConfig: {%s}}}"
    one = loads(kubelet % "containerRuntimeEndpoint: /run/crio.sock").config
    assert (one.runtime_endpoint, one.image_endpoint) == ("unix:///run/crio.sock", "unix:///run/crio.sock")
    two = loads(kubelet % "containerRuntimeEndpoint: unix:///a, imageServiceEndpoint: unix:///b").config
    assert (two.runtime_endpoint, two.image_endpoint) == ("unix:///a", "unix:///b")
    embedded = loads(kubelet % "containerRuntimeEndpoint: 'embedded://'").config
    assert (embedded.runtime_endpoint, embedded.image_endpoint) == (
        "unix:///r/embedded.sock",
        "unix:///r/embedded.sock",
    )


def test_an_empty_node_name_is_the_host_name() -> None:
    """As with the kubelet, in lower case."""
    config = loads('modules: {edged: {hostnameOverride: ""}}').config
    assert config.node_name == host_name() == host_name().lower()


def test_a_host_name_that_cannot_name_a_node_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one value that is wrong without standing in the file; the embedded node makes a name of it instead."""
    monkeypatch.setattr("modules.processes.edgecore.config.model.host_name", lambda: "my_host")
    with pytest.raises(ConfigError, match=r'hostnameOverride: the host name "my_host" cannot name a node'):
        loads('modules: {edged: {hostnameOverride: ""}}')
    assert EdgeCoreConfig.below(Path("/x")).node_name == "my-host"


@given(st.text(max_size=300))
def test_a_node_name_can_be_made_of_any_host_name(host: str) -> None:
    """And what is made is allowed, and stays what it is."""
    name = node_name_from(host)
    assert NODE_NAME.read(name) == name != ""
    assert node_name_from(name) == name


@pytest.mark.parametrize("endpoint", ["unix://relative", "unix:///" + "x" * 107, "", "http://x", "embedded://x"])
def test_endpoints_that_cannot_be(endpoint: str) -> None:
    """A socket has an absolute path that the kernel can take."""
    with pytest.raises(UnfitError):
        RUNTIME_ENDPOINT.read(endpoint)


def test_settings_cannot_be_changed() -> None:
    """One process, one configuration."""
    config = EdgeCoreConfig.default()
    with pytest.raises(AttributeError):
        config.modules.edge_hub.heartbeat = 3  # type: ignore[misc]
    assert not config.runs_container_runtime
    assert config.runtime_endpoint != PROCESS_ENDPOINT


def test_a_text_has_as_many_characters_as_it_may_have() -> None:
    kind = Text("letters", "[a-z]*", most=3)
    assert kind.read("abc") == "abc"
    for unfit in ("abcd", "AB", 7):
        with pytest.raises(UnfitError):
            kind.read(unfit)
