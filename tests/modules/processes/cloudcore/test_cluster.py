"""cloudcore between the API server of a cluster and its nodes. The cluster is another cloudcore's embedded one, over
HTTPS, as kubectl sees it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beehive.message import Message
from modules.apimachinery.application import Target, Verb, application, message_of
from modules.processes.cloudcore.cli import main
from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.objects import configmap, node, pod, secret, service
from tests.modules.processes.cloudcore.clusters import Cluster
from tests.modules.processes.cloudcore.stubs import CLOCK, Edge, acknowledged
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


def test_queries_of_a_node(both: Cluster) -> None:
    """Queries, leases, tokens, events: by the cluster's answers."""
    both.apply(secret(), pod(imagePullSecrets=[{"name": "key"}]))
    with both.core.edge() as edge:
        edge.ask("null/node/n1", "insert", node())
        next_of(edge, "default/pod/web")
        assert edge.ask("default/secret/key", "query").content_as(dict)["kind"] == "Secret"
        missing = edge.ask("kube-node-lease/lease/n1", "query").content_as(dict)
        assert missing["Err"]["ErrStatus"]["code"] == 404
        lease = {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {"holderIdentity": "n1"}}
        made = edge.ask("kube-node-lease/lease/n1", "insert", lease).content_as(dict)["Object"]
        renewed = edge.ask("kube-node-lease/lease/n1", "update", made).content_as(dict)["Object"]
        assert renewed["metadata"]["uid"] == made["metadata"]["uid"]
        (stored,) = both.objects("pods")
        bound = {"kind": "Pod", "name": "web", "uid": stored["metadata"]["uid"]}
        token = {"spec": {"expirationSeconds": 3607, "boundObjectRef": bound}}
        assert edge.ask("default/serviceaccounttoken/default", "query", token).content_as(dict)["status"]["token"]
    (item,) = both.cluster.client.run(Get("leases", namespace="kube-node-lease"))
    assert item.object is not None
    assert item.object["metadata"]["name"] == "n1"


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


def test_after_a_restart_a_node_gets_missing_objects(both: Cluster) -> None:
    """The acknowledgements are cloudcore's own; what changed meanwhile is found by the list."""
    both.apply(pod(), pod("db"))
    with both.core.edge() as edge:
        edge.ask("null/node/n1", "insert", node())
        until(edge, "default/pod/db", "default/pod/web", "null/node/n1")
        wait_until(lambda: acknowledged(both.core_database, "n1") == 3, "all are acknowledged")
    both.core.__exit__()
    both.cluster.client.run(Delete("pod", "db", grace=0))
    both.apply(pod("new"))
    both.start_core()
    with both.core.edge() as edge:
        came = until(edge, "default/pod/db", "default/pod/new")
    assert (came["default/pod/db"].route.operation, came["default/pod/new"].route.operation) == ("delete", "insert")
    assert "default/pod/web" not in came


def test_a_metaserver_watches_services_of_the_cluster(both: Cluster) -> None:
    """Present ones, then each change, acknowledged; after a restart of cloudcore, what was deleted meanwhile."""
    both.apply(service("web"), service("old"))
    watch = application(Target("", "v1", "services", "", ""), Verb.WATCH, "n1", b'{"watch":true}', None)
    with both.core.edge() as edge:
        edge.ask("null/node/n1", "insert", node())
        assert edge.answer_to(message_of(watch, CLOCK)).content_as(dict)["Status"] == "Approved"
        came = until(edge, "default/service/web", "default/service/old")
        route = came["default/service/web"].route
        assert (route.source, route.operation) == ("dynamiccontroller", "insert")
        both.apply(service("new"))
        assert next_of(edge, "default/service/new").content_as(dict)["spec"]["ports"] == [
            {"protocol": "TCP", "port": 80, "targetPort": 80}
        ]
        wait_until(lambda: acknowledged(both.core_database, "n1") == 4, "the node and all services are acknowledged")
    both.core.__exit__()
    both.cluster.client.run(Delete("service", "old"))
    both.start_core()
    with both.core.edge() as edge:
        assert until(edge, "default/service/old")["default/service/old"].route.operation == "delete"


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


def test_while_the_cluster_is_away_nodes_stay_and_then_get_the_changes(both: Cluster) -> None:
    with both.core.edge() as edge:
        edge.ask("null/node/n1", "insert", node())
        both.cluster.__exit__()
        both.start_cluster()
        both.apply(pod())
        assert next_of(edge, "default/pod/web").route.operation == "insert"


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
