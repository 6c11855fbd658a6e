"""The metaserver in the process: off unless it is switched on, and an address that cannot be had ends the start."""

import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from beehive import Hive, Threads
from beehive.sockets.ports import ListenError
from edged.server.snapshots import Snapshots
from metamanager.rows import row_of
from metamanager.store import open_store
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.errors import ConfigError
from modules.processes.edgecore.config.loading import load
from modules.processes.edgecore.config.model import MetaServer
from modules.processes.edgecore.config.writing import render
from modules.processes.edgecore.metaserver import serve_api
from tests.support.kubectl import Kubectl
from tests.support.ports import free_port

_replace = msgspec.structs.replace
SECRET = b'{"metadata":{"name":"s","namespace":"default"},"data":{"x":"eA=="}}'


def configured(root: Path, port: int, *, secrets: bool = False) -> EdgeCoreConfig:
    config = EdgeCoreConfig.below(root)
    server = MetaServer(enable=True, server=f"127.0.0.1:{port}", serve_secrets=secrets)
    meta = _replace(config.modules.meta_manager, meta_server=server)
    return _replace(config, modules=_replace(config.modules, meta_manager=meta))


@pytest.mark.parametrize(("secrets", "status"), [(False, 403), (True, 200)])
def test_secrets_are_served_when_that_is_configured(tmp_path: Path, secrets: bool, status: int) -> None:
    """And everything ends with the stack."""
    port, threads = free_port(), Threads()
    with ExitStack() as stack:
        config = configured(tmp_path, port, secrets=secrets)
        store = serve_api(config, Hive(threads), Snapshots(), open_store, stack)(str(tmp_path / "db"))
        store.put(row_of("default/secret/s", SECRET, 0))
        store.commit()
        assert Kubectl(port).ask("/api/v1/namespaces/default/secrets/s").status == status
        store.close()
    with pytest.raises(ConnectionRefusedError):
        Kubectl(port).ask("/version")
    threads.close()


def test_an_address_that_is_taken_is_named_with_its_setting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, ExitStack() as stack:
        config = configured(tmp_path, taken.getsockname()[1])
        threads = Threads()
        stack.callback(threads.close)
        with pytest.raises(ListenError, match=r"metaServer\.server chooses another"):
            serve_api(config, Hive(threads), Snapshots(), open_store, stack)


@pytest.mark.parametrize("server", ["localhost:10550", "127.0.0.1", "127.0.0.1:0", "10550"])
def test_an_address_is_an_ip_address_with_a_port(tmp_path: Path, server: str) -> None:
    file = tmp_path / "edgecore.yaml"
    file.write_text(render(configured(tmp_path, 10550)).replace("127.0.0.1:10550", server))
    with pytest.raises(ConfigError, match="an IP address and a port"):
        load(file)


def test_a_node_without_it_does_not_carry_it() -> None:
    """Memory: nothing of it is imported."""
    loaded = "[n for n in sys.modules if n.startswith('modules.edge.metaserver')]"
    script = f"import sys, modules.processes.edgecore.process; print({loaded})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
