"""Devices end to end: people at cloudcore's Kubernetes API, and a scripted node on its websocket."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beehive import Message
from modules.cloud.device_values import ValueQuery
from modules.processes.cloudcore.cli import main
from tests.end_to_end.processes import wait_until
from tests.modules.processes.cloudcore.devices import People, device, model, reports, twins
from tests.modules.processes.cloudcore.stubs import Edge, Stub
from tests.support.patience import PATIENCE


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    with Stub(tmp_path) as made:
        yield made


@pytest.fixture
def people(stub: Stub) -> People:
    made = People(stub.client)
    made.wait()
    return made


def unasked(edge: Edge, count: int) -> list[Message]:
    """The next messages of the cloud, without repetitions; the node acknowledges as needed."""
    came: dict[tuple[str, str], Message] = {}
    while len(came) < count:
        message = edge.next()
        came.setdefault((message.route.operation, message.route.resource), message)
        if message.route.group == "resource":
            edge.acknowledge(message)
    return list(came.values())


def steps(messages: list[Message]) -> set[tuple[str, str]]:
    return {(each.route.operation, each.route.resource) for each in messages}


def test_a_node_writes_nothing_of_another_nodes_device(stub: Stub, people: People) -> None:
    """It gets an error that ends the report, as for an unreadable one; both are counted."""
    people.apply(model())
    people.apply(device())
    with stub.edge("n2") as other:
        assert reports(other, "twin/edge_updated", twins({"temperature": "99"}))["code"] == 404
        assert reports(other, "twin/edge_updated", twins({"temperature": "99"}), name="nobody")["code"] == 404
    with stub.edge("n1") as edge:
        wrong: tuple[Any, ...] = (
            "no json",
            {"twin": []},
            {"twin": {"temperature": {"actual": {"value": "x" * 70_000}}}},
            None,
        )
        for content in wrong:
            assert reports(edge, "twin/edge_updated", content)["code"] in (400, 413)
        assert reports(edge, "twin/other", {})["code"] == 400
        assert reports(edge, "twin/edge_updated", twins({"temperature": "1"})) == "OK"
    assert people.reported("thermo") == {"temperature": "1"}
    assert [each.value for each in stub.client.device_values(ValueQuery("default", "thermo")).values] == ["1"]
    assert 'reason="not a device of the node"' in stub.client.metrics()


def test_a_device_without_a_model_has_a_condition_and_is_sent(stub: Stub, people: People) -> None:
    """A KubeEdge cloudcore ends with it. The condition changes when the model comes; from then on a value that it
    forbids is refused.
    """

    def valid() -> tuple[str, str]:
        conditions = people.status("thermo").get("conditions") or [{}]
        return conditions[0].get("status", ""), conditions[0].get("reason", "")

    with stub.edge() as edge:
        people.apply(device(of=""))
        assert steps(unasked(edge, 2)) == {("update", "membership"), ("insert", "default/device/thermo")}
        wait_until(lambda: valid() == ("False", "NoModelReference"), "the condition")
        people.apply(device(desired="warm"))
        wait_until(lambda: valid() == ("False", "ModelNotFound"), "the condition")
        people.apply(model())
        wait_until(lambda: valid() == ("False", "InvalidProperties"), "the condition")
        assert "not float" in people.status("thermo")["conditions"][0]["message"]
        people.apply(device())
        wait_until(lambda: valid() == ("True", "FitsModel"), "the condition")
        with pytest.raises(AssertionError, match=r"spec.properties\[1\].desired.value: .*the value is not float"):
            people.apply(device(desired="warm"))


def test_a_person_sees_devices_and_their_reports(
    stub: Stub, people: People, capsys: pytest.CaptureFixture[str]
) -> None:
    """`cloudcore get` has all properties in a column, as kubectl shows them, and `describe` has more of each."""
    people.apply(model())
    people.apply(device())
    with stub.edge() as edge:
        reports(edge, "twin/edge_updated", twins({"temperature": "21"}))

    def shown(*arguments: str) -> list[list[str]]:
        assert main([*arguments, "--socket", str(stub.config.control_socket)]) == 0
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    assert shown("get", "devices")[0] == ["NAME", "NODE", "MODEL", "AGE", "DESIRED"]
    assert shown("get", "devices")[1][:3] == ["thermo", "n1", "thermo-model"]
    (status,) = shown("get", "devicestatuses", "--no-headers")
    assert (status[:2], status[-1]) == (["thermo", "True"], "temperature=21")
    assert shown("get", "devicemodels")[1][:2] == ["thermo-model", "demo"]
    described = shown("describe", "devicestatus", "thermo")
    assert ["Reason:", "FitsModel"] in described
    assert ["Value:", "21"] in described
    (head, (time, *row)) = shown("devices", "history", "default/thermo")
    assert (head, row) == (["TIME", "PROPERTY", "VALUE"], ["temperature", "21"])
    assert time.startswith("20")
    assert shown("devices", "history", "thermo", "threshold")[0][:2] == ["No", "values:"]
    assert main(["devices", "history", "thermo", "-o", "json", "--socket", str(stub.config.control_socket)]) == 0
    assert json.loads(capsys.readouterr().out) == [{"time": time, "property": "temperature", "value": "21"}]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.timeout(300)
def test_kubectl_shows_the_columns(tmp_path: Path) -> None:
    """Node, model and what is desired; validity, state and what is reported."""
    with Stub(tmp_path, insecure_port=0) as stub:
        people = People(stub.client)
        people.wait()
        people.apply(model())
        people.apply(device())
        with stub.edge() as edge:
            reports(edge, "twin/edge_updated", twins({"temperature": "21"}))
            state = {"device": {"state": "online", "lastOnlineTime": "2026-11-20T16:43:05Z"}}
            assert reports(edge, "state/update", state) == "OK"
        home = {**os.environ, "HOME": str(tmp_path)}

        def shown(kind: str) -> list[list[str]]:
            command = ["kubectl", "--server", f"http://127.0.0.1:{stub.core.api_port}", "get", kind]
            done = subprocess.run(command, env=home, capture_output=True, text=True, timeout=PATIENCE, check=True)
            return [line.split() for line in done.stdout.splitlines()]

        head, row = shown("devices")
        assert head == ["NAME", "NODE", "MODEL", "AGE", "DESIRED"]
        assert row[:3] == ["thermo", "n1", "thermo-model"]
        head, row = shown("devicestatuses")
        assert head == ["NAME", "VALID", "STATE", "LAST-ONLINE", "AGE", "VALUES"]
        assert row[:4] == ["thermo", "True", "online", "2026-11-20T16:43:05Z"]
        assert row[-1] == "temperature=21"
