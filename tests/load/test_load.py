"""`cloudcore load`: stand-ins over real links, with faults, that leave no object behind."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modules.cli.rest import RestClient
from modules.lab.load.joining import contexts_of
from modules.lab.load.objects import NAMESPACE, LoadError, LoadObjects, name_of
from modules.lab.load.run import Crowd, LoadPlan
from modules.lab.load.stand_in import Address
from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.config import TlsConfig
from modules.processes.common.exit_codes import ExitCode
from tests.modules.processes.cloudcore.stubs import Stub

NAMES = [name_of(number) for number in range(3)]
_LISTS = (
    "/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces", "/api/v1/events", "/api/v1/configmaps", "/api/v1/secrets",
    "/apis/coordination.k8s.io/v1/leases",
)  # fmt: skip


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Stub]:
    """A cloud with certificates."""
    with Stub(tmp_path, tls=TlsConfig(directory=tmp_path / "tls", https_port=0)) as stub:
        yield stub


def objects_of(stub: Stub) -> set[tuple[str, str, str]]:
    """The kinds and names of all objects that a load could leave."""
    client = RestClient(stub.config.control_socket)
    return {
        (path, each["metadata"].get("namespace", ""), each["metadata"]["name"])
        for path in _LISTS
        for each in client.get(path)["items"]
    }


def load_of(stub: Stub) -> LoadObjects:
    return LoadObjects(RestClient(stub.config.control_socket), stub.client)


def urls(stub: Stub) -> tuple[Address, str]:
    """Where nodes connect, and where they get certificates."""
    websocket, https = (url for url in stub.core.urls if url.startswith(("wss://", "https://")))
    host, _, port = websocket.removeprefix("wss://").rpartition(":")
    return Address(host, int(port)), https


def test_stand_ins_join_report_and_leave_nothing(cloud: Stub) -> None:
    """With certificates, a link that breaks, and a node that says nothing more; removed twice, nothing is left."""
    before, objects, said = objects_of(cloud), load_of(cloud), list[str]()
    address, https = urls(cloud)
    objects.begin()
    contexts = contexts_of(NAMES, https, cloud.client.token(60.0, reason="cloudcore load"))

    async def life() -> None:
        made = Crowd(LoadPlan(2, 0.01, silent=1), NAMES, address, contexts, said.append)
        await made.begin(lambda: objects.make_pods(NAMES, 2))
        silent, cut, _ = made.nodes
        ended = asyncio.Event()
        kept_up = asyncio.create_task(made.keep_up(ended, None))
        while cut.reported < 10:
            await asyncio.sleep(0)
        cut.cut()
        while not cut.ended:
            await asyncio.sleep(0)
        so_far = cut.reported
        while cut.reported < so_far + 10:
            await asyncio.sleep(0)
        ended.set()
        await kept_up
        assert silent.reported == 0
        await made.end()

    asyncio.run(life())
    client = RestClient(cloud.config.control_socket)
    pods: list[dict[str, Any]] = client.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    ready = {each["metadata"]["name"] for each in pods if each.get("status", {}).get("phase") == "Running"}
    assert ready == {f"{node}-{number}" for node in NAMES[1:] for number in range(2)}
    assert [line.partition(" after ")[0] for line in said[:2]] == [
        "3 nodes have registered",
        "6 pods are on their nodes",
    ]
    assert "1 links ended" in said[-1]
    with pytest.raises(LoadError, match="there is one already"):
        objects.begin()
    assert objects.remove() == 3
    assert objects_of(cloud) == before
    assert objects.remove() == 0


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At a cloud without certificates; wrong options are refused."""
    with Stub(tmp_path) as stub:
        before = objects_of(stub)
        host, port = stub.core.address
        where = ["--socket", str(stub.config.control_socket), "--cloud", f"{host}:{port}"]
        assert main(["load", "--nodes", "2", "--pods", "1", "--every", "0.01s", "--for", "0.1s", *where]) == 0
        said, warned = capsys.readouterr()
        assert not warned
        assert said.startswith("this cloud demands no certificates")
        assert said.endswith("2 stand-ins are removed, with their pods and records\n")
        assert objects_of(stub) == before
        assert main(["load", "--remove", *where]) == 0
        assert capsys.readouterr().out == "0 stand-ins are removed, with their pods and records\n"
        for wrong in (["--nodes", "0"], ["--pods", "111"], ["--silent", "101"], ["--cloud", "here"], ["--every", "0s"]):
            assert main(["load", *where, *wrong]) == ExitCode.USAGE
    assert main(["load", *where]) == ExitCode.INTERNAL_ERROR
