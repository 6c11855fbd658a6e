"""The place of the node's server, its addresses, and that it leaves nothing."""

import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beehive import Hive, Threads
from beehive.http.responses import text
from beehive.http.router import HttpRoute
from beehive.sockets.unix_sockets import short_name
from edged.server.snapshots import Snapshots
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.kubelet import TailoredKubeletConfig
from modules.processes.edgecore.config.section import plain
from modules.processes.edgecore.edged_server import serve
from modules.processes.edgecore.socket_path import socket_path
from tests.support.ports import free_port

_replace = msgspec.structs.replace


def configured(root: Path, kubelet: dict[str, Any] | None = None, **edged: Any) -> EdgeCoreConfig:
    config = EdgeCoreConfig.below(root)
    section = _replace(config.modules.edged, **edged)
    tailored = _replace(section.tailored_kubelet_config, **{"read_only_port": free_port(), **(kubelet or {})})
    section = _replace(section, tailored_kubelet_config=tailored)
    return _replace(config, modules=_replace(config.modules, edged=section))


@contextmanager
def served(config: EdgeCoreConfig, owners: Iterable[HttpRoute] = ()) -> Iterator[None]:
    threads = Threads()
    socket_path(config).parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        serve(config, Hive(threads), Snapshots(), lambda: b"", stack, owners)
        yield
    threads.close()


def ask(connection: socket.socket, path: str, *headers: str) -> int:
    with connection:
        connection.settimeout(60)
        connection.sendall("\r\n".join([f"GET {path} HTTP/1.0", *headers, "", ""]).encode())
        return int(connection.recv(1000).split()[1])


def on_port(config: EdgeCoreConfig, path: str, *headers: str) -> int:
    port = config.modules.edged.tailored_kubelet_config.read_only_port
    return ask(socket.create_connection(("127.0.0.1", port)), path, *headers)


def on_socket(config: EdgeCoreConfig, path: str) -> int:
    connection = socket.socket(socket.AF_UNIX)
    with short_name(socket_path(config)) as name:
        connection.connect(name)
    return ask(connection, path)


EXEC = "/exec/ns/p/app?command=ls&output=1"


def test_the_state_of_the_agent_is_on_the_socket_only(tmp_path: Path) -> None:
    """It names the cloud and what its pods wait for."""
    config = configured(tmp_path)
    with served(config, [HttpRoute("/edgecore/state", lambda _: text(200, "ok"))]):
        assert (on_port(config, "/edgecore/state"), on_socket(config, "/edgecore/state")) == (404, 200)


def test_what_acts_is_on_the_socket_only(tmp_path: Path) -> None:
    """400 says that the path is there; only a pod and an upgrade are missing."""
    config = configured(tmp_path)
    with served(config):
        assert (on_port(config, "/pods"), on_port(config, EXEC)) == (200, 404)
        assert (on_socket(config, "/pods"), on_socket(config, EXEC)) == (200, 400)
        assert socket_path(config).stat().st_mode & 0o777 == 0o600
    assert not socket_path(config).exists()


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Host: 127.0.0.1:10255", 200),
        ("Host: [::1]:10255", 200),
        ("Host: 192.0.2.7", 200),
        ("Host: localhost:10255", 200),
        ("Host: LocalHost.", 200),
        ("Host: edge-7:10255", 200),
        ("Host:", 200),
        ("Host: evil.example", 403),
        ("Host: evil.example:10255", 403),
        ("Host: localhost\r\nSec-Fetch-Site: cross-site", 403),
        ("Host: edge-7.evil.example", 403),
        ("Host: 127.0.0.1.evil.example", 403),
        ("Host: [evil]", 403),
        ("Origin: http://evil.example", 403),
        ("Origin: null", 403),
    ],
)
def test_pages_of_browsers_are_not_served(tmp_path: Path, header: str, status: int) -> None:
    """A name that leads here (DNS rebinding) and a script of another site read neither pods nor logs nor settings."""
    config = configured(tmp_path, hostname_override="edge-7")
    with served(config):
        for path in ("/pods", "/configz", "/healthz/ping", "/metrics"):
            assert on_port(config, path, header) == status


def test_it_is_on_the_port_when_that_is_configured(tmp_path: Path) -> None:
    config = configured(tmp_path, streaming_on_read_only_port=True)
    with served(config):
        assert on_port(config, EXEC) == on_socket(config, EXEC) == 400


def test_without_debugging_handlers_both_say_so(tmp_path: Path) -> None:
    config = configured(tmp_path, {"enable_debugging_handlers": False})
    with served(config):
        assert on_port(config, "/configz") == on_socket(config, EXEC) == 405


def test_a_node_without_a_port_has_its_socket(tmp_path: Path) -> None:
    config = configured(tmp_path, {"read_only_port": 0})
    with served(config):
        assert on_socket(config, "/healthz/ping") == 200


def test_a_process_without_edged_has_no_socket(tmp_path: Path) -> None:
    config = configured(tmp_path, enable=False)
    with served(config):
        assert on_port(config, "/healthz/ping") == 200
        assert not socket_path(config).exists()


def test_settings_are_shown_as_the_file_has_them() -> None:
    shown = plain(TailoredKubeletConfig())
    assert shown["syncFrequency"] == "1m0s"
    assert shown["crashLoopBackOff"] == {"maxContainerRestartPeriod": "5m0s"}
    assert msgspec.json.encode(shown)


@pytest.mark.parametrize("word", ["token", "password", "dataSource"])
def test_no_secret_is_among_them(word: str) -> None:
    assert word.encode() not in msgspec.json.encode(plain(TailoredKubeletConfig()))


def test_the_kubernetes_api_is_on_the_socket_only(tmp_path: Path) -> None:
    config = configured(tmp_path)
    with served(config):
        for path in ("/version", "/api", "/apis", "/api/v1/pods", "/api/v1/secrets", "/api/v1/nodes"):
            assert (on_port(config, path), on_socket(config, path)) == (404, 200), path
        assert on_socket(config, "/api/v1/serviceaccounts") != 200
