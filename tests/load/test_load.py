"""`cloudcore load`: stand-ins over real links, with faults, that leave no object behind."""

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from websockets.exceptions import ConnectionClosed

from modules.cli.errors import StatusError
from modules.cli.rest import RestClient
from modules.lab.load import stand_in
from modules.lab.load.documents import lease_of
from modules.lab.load.joining import contexts_of
from modules.lab.load.objects import NAMESPACE, LoadError, LoadObjects, name_of
from modules.lab.load.run import Crowd, LoadPlan
from modules.lab.load.stand_in import Address, LoadRefusedError
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
        made = Crowd(LoadPlan(2, 0.01, silent=1), NAMES, address, contexts, objects.ready, said.append)
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
    nodes: list[dict[str, Any]] = client.get("/api/v1/nodes")["items"]
    taints = [each["key"] for node in nodes for each in node["spec"].get("taints") or ()]
    assert taints.count("edgecore.io/load") == 3, "the scheduler and DaemonSets put no pods there"
    pods: list[dict[str, Any]] = client.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    ready = {each["metadata"]["name"] for each in pods if each.get("status", {}).get("phase") == "Running"}
    assert ready == {f"{node}-{number}" for node in NAMES[1:] for number in range(2)}
    assert [line.partition(" after ")[0] for line in said[:2]] == [
        "3 nodes have registered",
        "6 pods are on their nodes",
    ]
    assert "1 links ended" in said[-2]
    assert said[-2].endswith("0 were refused; 0 requests refused")
    with pytest.raises(LoadError, match="there is one already"):
        objects.begin()
    assert objects.remove() == 3
    assert objects_of(cloud) == before
    assert objects.remove() == 0


def test_nodes_stay_ready_while_their_leases_are_renewed(cloud: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each renewal is one that the API server takes, and its Nodes are Ready after the Leases' time."""
    begin, seconds = lease_of("n"), 1
    short = {**begin, "spec": {**begin["spec"], "leaseDurationSeconds": seconds}}

    def short_lease(name: str, renewed: str) -> dict[str, Any]:
        spec = {**short["spec"], "holderIdentity": name, "renewTime": renewed}
        return {"metadata": {**short["metadata"], "name": name}, "spec": spec}

    monkeypatch.setattr(stand_in, "lease_of", short_lease)
    objects, said, client = load_of(cloud), list[str](), RestClient(cloud.config.control_socket)
    address, https = urls(cloud)
    objects.begin()
    contexts = contexts_of(NAMES, https, cloud.client.token(60.0, reason="cloudcore load"))

    def versions() -> set[int]:
        found = client.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")["items"]
        return {int(each["metadata"]["resourceVersion"]) for each in found if each["metadata"]["name"] in NAMES}

    async def life() -> None:
        made = Crowd(LoadPlan(0, 1.0, renewal=0.1, look=0.1), NAMES, address, contexts, objects.ready, said.append)
        await made.begin(lambda: None)
        ended = asyncio.Event()
        kept_up = asyncio.create_task(made.keep_up(ended, None))
        before = await asyncio.to_thread(versions)
        until = time.monotonic() + 3 * seconds
        while time.monotonic() < until or min(await asyncio.to_thread(versions)) <= max(before):
            assert not kept_up.done()
            await asyncio.sleep(0)
        ended.set()
        await kept_up
        await made.end()

    asyncio.run(life())
    assert said[-1] == "3 of 3 nodes are Ready"
    assert objects.remove() == 3


def test_a_load_whose_nodes_are_not_ready_fails(cloud: Stub) -> None:
    """At the fifth look in a row; before that it only says so."""
    objects, said = load_of(cloud), list[str]()
    address, https = urls(cloud)
    objects.begin()
    contexts = contexts_of(NAMES, https, cloud.client.token(60.0, reason="cloudcore load"))

    async def life() -> None:
        made = Crowd(LoadPlan(0, 1.0, look=0.0), NAMES, address, contexts, lambda: {NAMES[1]}, said.append)
        try:
            await made.begin(lambda: None)
            await made.keep_up(asyncio.Event(), None)
        finally:
            await made.end()

    with pytest.raises(LoadError, match="nodes are not Ready: load-0000 and 1 others"):
        asyncio.run(life())
    assert said[-5:] == ["1 of 3 nodes are Ready"] * 5
    assert objects.remove() == 3


def test_a_refused_request_ends_the_load(cloud: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one would be refused, too; the reason is the cloud's."""
    objects, said = load_of(cloud), list[str]()
    address, https = urls(cloud)
    objects.begin()
    contexts = contexts_of(NAMES, https, cloud.client.token(60.0, reason="cloudcore load"))

    async def life() -> None:
        made = Crowd(LoadPlan(0, 1.0, renewal=0.01), NAMES, address, contexts, objects.ready, said.append)
        try:
            await made.begin(lambda: None)
            monkeypatch.setattr(stand_in, "_now", lambda: "yesterday")
            await made.keep_up(asyncio.Event(), None)
        finally:
            await made.end()

    with pytest.raises(LoadRefusedError, match="the cloud refuses: kube-node-lease/lease/load-000"):
        asyncio.run(life())
    assert objects.remove() == 3


def test_nobody_waits_for_the_answer_to_a_message_that_was_not_sent(cloud: Stub) -> None:
    """The end of the link is told to the caller only, and not to a future that nobody awaits."""
    objects, unhandled = load_of(cloud), list[str]()
    address, https = urls(cloud)
    objects.begin()
    contexts = contexts_of(NAMES, https, cloud.client.token(60.0, reason="cloudcore load"))

    async def life() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unhandled.append(context["message"]))
        made = Crowd(LoadPlan(0, 1.0), NAMES, address, contexts, objects.ready, lambda _line: None)
        await made.begin(lambda: None)
        node = made.nodes[0]
        node.cut()
        with pytest.raises((OSError, ConnectionClosed)):
            await node.renew_lease()
        renewed = False
        while not renewed:
            await asyncio.sleep(0)
            with suppress(OSError, ConnectionClosed):
                await node.renew_lease()
                renewed = True
        await made.end()
        gc.collect()

    asyncio.run(life())
    assert not unhandled
    assert objects.remove() == 3


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


def test_the_pods_of_a_load_are_deleted_one_by_one() -> None:
    """cloudcore sends a cluster no deletion of a whole collection."""
    deleted, pods = list[str](), f"/api/v1/namespaces/{NAMESPACE}/pods"
    answers = {pods: {"items": [{"metadata": {"name": name}} for name in ("a", "b")]}}

    def get(path: str, _query: object = ()) -> dict[str, Any]:
        if path.startswith("/api/v1/namespaces/") and deleted[-1:] == [path]:
            raise StatusError(404, "NotFound", "gone")
        return answers.get(path, {"items": []})

    client = Mock(get=get, request=lambda _verb, path, **_body: deleted.append(path))
    assert LoadObjects(client, Mock(identities=list)).remove() == 0
    assert sorted(deleted[:-1]) == [f"{pods}/a", f"{pods}/b"]
    assert deleted[-1] == f"/api/v1/namespaces/{NAMESPACE}"
