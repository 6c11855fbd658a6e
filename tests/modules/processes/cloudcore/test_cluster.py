"""cloudcore between the API server of a cluster and its nodes. The cluster is another cloudcore's embedded one, over
HTTPS, as kubectl sees it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beehive.message import Message
from modules.processes.cloudcore.cli import main
from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.objects import configmap, node, pod, secret
from tests.modules.processes.cloudcore.clusters import Cluster
from tests.modules.processes.cloudcore.stubs import CLOCK, Edge
from tests.support.control_client import Apply, Delete, Get

USES: dict[str, Any] = {"volumes": [{"name": "v", "configMap": {"name": "settings"}}]}


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.close()


def next_of(edge: Edge, resource: str) -> Message:
    """The next message about a resource, acknowledged as all before it."""
    return until(edge, resource)[resource]


def until(edge: Edge, *resources: str) -> dict[str, Message]:
    """The last message about each resource, once all these resources have come, each kind by a watch of its own."""
    came: dict[str, Message] = {}
    while not came.keys() >= set(resources):
        message = edge.next()
        edge.acknowledge(message)
        came[message.route.resource] = message
    return came


def test_the_life_of_a_pod(both: Cluster) -> None:
    """Bound before its node exists, delivered with what it refers to, running, deleted, ended, gone."""
    both.apply(configmap(a="1"), pod(**USES))
    with both.core.edge() as edge:
        assert edge.ask("null/node/n1", "insert", node()).content_as(dict)["Err"] is None
        assert [one["metadata"]["name"] for one in both.objects("nodes")] == ["n1"]
        came = until(edge, "default/configmap/settings", "default/pod/web")
        assert came["default/configmap/settings"].content_as(dict)["data"] == {"a": "1"}
        insert = came["default/pod/web"].content_as(dict)
        assert "managedFields" not in insert["metadata"]
        uid = insert["metadata"]["uid"]
        running = {"metadata": {"uid": uid}, "status": {"phase": "Running"}}
        answer = edge.ask("default/podpatch/web", "patch", json.dumps(running)).content_as(dict)
        assert answer["Object"]["status"]["phase"] == "Running"
        assert both.objects("pods")[0]["status"]["phase"] == "Running"
        assert next_of(edge, "default/pod/web").content_as(dict)["status"]["phase"] == "Running"
        both.cluster.client.run(Delete("pod", "web"))
        assert next_of(edge, "default/pod/web").content_as(dict)["metadata"]["deletionGracePeriodSeconds"] == 30
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        assert edge.ask("default/pod/web", "delete", options).content_as(str) == "OK"
        while next_of(edge, "default/pod/web").route.operation != "delete":
            pass
    assert both.objects("pods") == []


def test_a_node_gets_and_writes_nothing_of_others(both: Cluster) -> None:
    """The cluster lets cloudcore do everything, so cloudcore checks each node itself."""
    both.apply(secret(), pod(nodeName="n2", imagePullSecrets=[{"name": "key"}]))
    with both.core.edge() as edge:
        edge.ask("null/node/n1", "insert", node())
        assert edge.ask("default/secret/key", "query").content_as(dict)["Err"]["ErrStatus"]["code"] == 403
        patch = json.dumps({"status": {"phase": "Failed"}})
        assert edge.ask("default/podpatch/web", "patch", patch).content_as(dict)["Err"]["ErrStatus"]["code"] == 403
        options = {"gracePeriodSeconds": 0}
        assert edge.ask("default/pod/web", "delete", options).content_as(dict)["ErrStatus"]["code"] == 403
        labels = json.dumps({"metadata": {"labels": {"node-restriction.kubernetes.io/x": "1"}}})
        refused = edge.ask("default/nodepatch/n1", "patch", labels).content_as(dict)
        assert refused["Err"]["ErrStatus"]["code"] == 403
        other = edge.ask("null/node/n2", "insert", node("n2")).content_as(dict)
        assert other["Err"]["ErrStatus"]["code"] == 403
    assert both.objects("pods")[0].get("status", {}).get("phase") != "Failed"


def test_until_the_cluster_has_answered_cloudcore_is_not_ready(both: Cluster) -> None:
    """And says so; what nodes send meanwhile is answered then."""
    both.core.__exit__()
    both.cluster.__exit__()
    both.start_core()
    status, body = both.core.client.request("GET", "/readyz")
    assert (status, b"not listed yet" in body) == (503, True)
    with both.core.edge() as edge:
        edge.send(Message.new(CLOCK, source="edged", group="meta", resource="null/node/n1", operation="query"))
        both.start_cluster()
        assert edge.receive().content_as(dict)["Err"]["ErrStatus"]["code"] == 404
    wait_until(lambda: both.core.client.request("GET", "/readyz")[0] == 200, "all kinds are listed")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--kubeconfig", "k", "--in-cluster"], "exclude each other"),
        (["--context", "c"], "add --kubeconfig"),
        (["--kubeconfig", "k", "--node", "n1"], "use kubectl"),
    ],
)
def test_options_that_exclude_each_other(
    options: list[str], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", "--root", str(tmp_path), "--listen", "127.0.0.1:0", *options]
    assert main(arguments) == ExitCode.USAGE
    assert word in capsys.readouterr().err


def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "no-such-file"
    arguments = ["run", "--root", str(tmp_path), "--listen", "127.0.0.1:0", "--kubeconfig", str(missing)]
    assert main(arguments) == ExitCode.START_FAILED
    assert str(missing) in capsys.readouterr().err


def test_the_commands_of_cloudcore_are_requests_to_the_cluster(both: Cluster) -> None:
    """`cloudcore apply`, `get` and `delete`; a watch is refused with the reason."""
    client = both.core.client
    (created,) = client.run(Apply([pod(nodeName="n1")]))
    assert created.outcome == "created"
    (stored,) = both.objects("pods")
    (shown,) = client.run(Get("pods"))
    assert shown.object == {name: value for name, value in stored.items() if name != "managedFields"}
    client.run(Delete("pod", "web", grace=0))
    assert both.objects("pods") == []
    status, body = client.request("GET", "/api/v1/pods?watch=true")
    assert (status, b"ask the cluster's API server" in body) == (405, True)
