"""`cloudcore changes`: who changed what, and how far it got, as a person sees it."""

import json
from pathlib import Path
from typing import Any

import pytest

from modules.cloud.object_writes import NO_JOURNAL, KnownWrite, WriteList
from modules.insight.fleet.changes import ChangeRow
from modules.processes.cloudcore import control_client
from modules.processes.cloudcore.changes_command import table
from modules.processes.cloudcore.cli import main
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.tables import lines_of
from tests.end_to_end.processes import wait_until
from tests.modules.processes.cloudcore.stubs import Stub, cells
from tests.support.control_client import Apply


def test_the_table_has_a_line_for_each_change() -> None:
    fields = ("spec.replicas: 1 → 2", "x" * 200, "c", "d")
    web = ChangeRow(
        40.0, "jan\x1b[2J", "changed", "Deployment", "shop", "web", 7, "kubectl", "", fields, 1, "2 of 2", "good"
    )
    node = ChangeRow(10.0, "cloudcore", "created", "Node", "", "n1", 3)
    head, first, second, further, left_out = lines_of(table([web, node], 412, 100.0, people_only=True))
    assert cells(head) == ["AGE", "USER", "VIA", "CHANGE", "OBJECT", "FIELDS", "REACHED"]
    assert cells(first)[:5] == ["60s", "jan\\x1b[2J", "kubectl", "changed", "deployment/shop/web"]
    assert cells(first)[5] == f"spec.replicas: 1 → 2, …{'x' * 79} and 2 or more more"
    assert cells(second) == ["90s", "cloudcore", "<none>", "created", "node/n1", "<none>", "<none>"]
    assert further == "412 more: --limit, --since or a KIND/NAME selects others."
    assert left_out.endswith("--all shows it.")
    assert lines_of(table([], 0, 0.0)) == ["No changes: the journal keeps seven days."]


def test_a_change_is_followed_to_the_node_that_has_stored_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def changes(*arguments: str) -> list[dict[str, Any]]:
        assert main(["changes", *arguments, "-o", "json", "--socket", str(tmp_path / "control")]) == ExitCode.OK
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        return found

    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    volume = {"name": "v", "configMap": {"name": "conf"}}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "web:1"}], "volumes": [volume]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    conf: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"a": "1"}}
    with Stub(tmp_path, database=str(tmp_path / "cloud.db")) as stub, stub.edge("n1") as edge:
        stub.client.run(Apply([node, conf, pod]))
        while (message := edge.next()).route.resource != "default/pod/web":
            edge.acknowledge(message)
        (made,) = changes("pods/web")
        assert (made["user"], made["manager"], made["verb"]) == ("administrator", "cloudcore", "created")
        assert (made["mark"], made["reached"]) == ("warn", "n1 has not confirmed it")
        edge.acknowledge(message)
        wait_until(lambda: changes("po/web")[0]["reached"] == "n1 has it: Pending", "the acknowledgement is stored")
        stub.client.run(Apply([{**conf, "data": {"a": "2", "password": "s3cret"}}]))
        found = changes("--node", "n1", "--since", "24h")
        assert (found[0]["kind"], found[0]["fields"]) == ("ConfigMap", ["data.a", "data.password"])
        assert found[0]["reached"] == "0 of 1 node has it; not confirmed by n1"
        assert "s3cret" not in str(found)
        assert [each["kind"] for each in changes("-n", "default")] == ["ConfigMap", "Pod", "ConfigMap"]
        assert stub.client.request("GET", "/cloudcore/changes?limit=x")[0] == 400
        assert stub.client.request("POST", "/cloudcore/changes")[0] == 405
        assert main(["changes", "--since", "soon", "--socket", str(tmp_path / "control")]) == ExitCode.USAGE


def test_in_front_of_a_cluster_the_command_refers_to_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = WriteList(list[KnownWrite](), is_kept=False)
    monkeypatch.setattr(control_client.ControlClient, "changes", lambda *_: found)
    assert main(["changes", "--socket", "none"]) == ExitCode.INTERNAL_ERROR
    assert NO_JOURNAL in capsys.readouterr().err
