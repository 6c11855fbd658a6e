"""`edgecore services` and `edgecore resolve` by a running edgemesh, on the owner's socket."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from socket import socket

import msgspec
import pytest

from beehive import Hive, Threads
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_unix
from beehive.http.router import Router
from metamanager.module import MetaManager, MetaSettings
from metamanager.rows import row_of
from metamanager.store import open_store
from modules.apimachinery.types import encode
from modules.edge.edgemesh.counters import MeshCounters
from modules.edge.edgemesh.dns.resolving import DnsNames
from modules.edge.edgemesh.dns.server import NameServer
from modules.edge.edgemesh.dns.upstream import UpstreamResolver
from modules.edge.edgemesh.dns.zone import Zone
from modules.edge.edgemesh.module import EdgeMesh, MeshSettings
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.cli import main
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.owner_routes import MeshRoutes
from tests.end_to_end.processes import wait_until
from tests.modules.edge.edgemesh.objects import NODE, endpoint, service, slice_of


def _no_sockets() -> tuple[socket, socket]:
    raise OSError("the port 53 is taken")


def _config(*, enable: bool) -> EdgeCoreConfig:
    config = EdgeCoreConfig()
    mesh = msgspec.structs.replace(config.modules.edge_mesh, enable=enable)
    return msgspec.structs.replace(config, modules=msgspec.structs.replace(config.modules, edge_mesh=mesh))


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """The directory of a node with a running edgemesh that knows two Services, and nothing else."""
    store = open_store(str(tmp_path / "edgecore.db"))
    ends = (endpoint("192.0.2.2", targetRef={"kind": "Pod", "name": "web-1"}), endpoint("192.0.2.3", ready=False))
    for key, value in (
        ("default/service/web", service()),
        ("default/service/sets", service("sets", "None")),
        ("default/endpointslice/web-x", slice_of(*ends)),
    ):
        store.put(row_of(key, encode(value), 0))
    store.commit()
    store.close()
    threads, counters = Threads(), MeshCounters()
    hive = Hive(threads, outside=lambda *_: True)
    names = DnsNames(
        Zone("cluster.local", threads.clock.random), UpstreamResolver(lambda _: [], threads.clock, counters)
    )
    server_of_names = partial(NameServer, names, _no_sockets, lambda _: True, threads.clock, counters)
    hive.add(MetaManager, MetaSettings(str(tmp_path / "edgecore.db")))
    hive.add(EdgeMesh, MeshSettings(NODE), None, [], counters, server_of_names)
    hive.start()
    (tmp_path / "edged").mkdir()
    server = HttpServer(
        listen_unix(tmp_path / "edged" / "edged.sock"),
        Router(MeshRoutes(hive, _config(enable=True)).routes),
        hive.clock,
    )
    server.start()
    wait_until(lambda: names.domain == "cluster.local" and counters.services == 2, "the store is read")
    yield tmp_path
    server.stop()
    hive.stop()
    threads.close()


def test_services_are_listed_and_one_is_shown_with_its_endpoints(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--root", str(root)]
    assert main(["services", *where]) == ExitCode.OK
    told = capsys.readouterr()
    lines = [line.split() for line in told.out.splitlines()]
    assert lines == [
        ["SERVICE", "TYPE", "ADDRESSES", "PORTS", "USED", "BY"],
        ["default/sets", "ClusterIP", "-", "80/TCP", "0/0", "-"],
        ["default/web", "ClusterIP", "10.96.0.1", "80/TCP", "1/2", "-"],
    ]
    assert "no data plane is configured" in told.err
    for words in (["web"], ["default/web"], ["web", "-n", "default"]):
        assert main(["services", *words, *where]) == ExitCode.OK
        out = capsys.readouterr().out
        assert "nothing carries connections on this node" in out
        assert "192.0.2.2   8080    n2     web-1   ready       used" in out
        assert "192.0.2.3   8080    n2     -       not ready   it is not ready" in out
    assert main(["services", "web", "-o", "json", *where]) == ExitCode.OK
    assert [each["used"] for each in json.loads(capsys.readouterr().out)["endpoints"]] == [True, False]
    assert main(["services", "-n", "other", "-o", "json", *where]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["services"] == []
    with pytest.raises(SystemExit) as ended:
        main(["services", "other/web", *where])
    assert ended.value.code == ExitCode.REFUSED
    assert "this node knows no such Service" in capsys.readouterr().err


def test_a_name_is_resolved_with_its_source(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--root", str(root)]
    assert main(["resolve", "web", *where]) == ExitCode.OK
    told = capsys.readouterr()
    assert told.out == "web.default.svc.cluster.local  5 s  A  10.96.0.1  (this node)\n"
    assert "the port 53 is taken" in told.err
    assert main(["resolve", "10.96.0.1", "-v", *where]) == ExitCode.OK
    assert "1.0.96.10.in-addr.arpa PTR: 1 record, from this node\n" in capsys.readouterr().out
    assert main(["resolve", "web", "-o", "json", *where]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["addresses"] == ["10.96.0.1"]
    assert main(["resolve", "web", "-n", "other", *where]) == ExitCode.REFUSED
    out = capsys.readouterr().out
    assert out.startswith("web.other.svc.cluster.local A: NXDOMAIN, from this node\n")
    nobody = "SERVFAIL, from nobody: no name server answers\n"
    assert out.endswith(f"web A: {nobody}web AAAA: {nobody}")


@pytest.mark.parametrize("words", [["a..b"], ["web", "--type", "MX"], ["x" * 400]])
def test_other_texts_than_names_are_refused(root: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["resolve", *words, "--root", str(root)])
    assert ended.value.code == ExitCode.REFUSED
    assert "name" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["services"], ["resolve", "web"]])
def test_a_node_without_edgemesh_names_the_setting(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    threads = Threads()
    (tmp_path / "edged").mkdir()
    routes = MeshRoutes(Hive(threads), _config(enable=False)).routes
    server = HttpServer(listen_unix(tmp_path / "edged" / "edged.sock"), Router(routes), threads.clock)
    server.start()
    try:
        with pytest.raises(SystemExit) as ended:
            main([*words, "--root", str(tmp_path)])
    finally:
        server.stop()
        threads.close()
    assert ended.value.code == ExitCode.REFUSED
    assert "modules.edgeMesh.enable is false" in capsys.readouterr().err
