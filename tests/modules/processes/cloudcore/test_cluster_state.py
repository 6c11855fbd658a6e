"""cloudcores that keep what nodes have acknowledged in the cluster, with the definition and the role of deploy/."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.cloud.client.transport import ApiRequest
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.edgecontroller.state.node_states import read
from modules.processes.cloudcore.cli import main
from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.objects import node, pod
from tests.modules.processes.cloudcore import test_rights
from tests.modules.processes.cloudcore.clusters import Cluster
from tests.modules.processes.cloudcore.deployment import of_kind
from tests.modules.processes.cloudcore.stubs import Edge, Stub

pytestmark = pytest.mark.timeout(600)
requests = test_rights.requests


@pytest.fixture
def cluster(tmp_path: Path, requests: list[ApiRequest]) -> Iterator[Cluster]:
    """With the definition of NodeStates, and a pod."""
    made = Cluster(tmp_path)
    made.core.__exit__()
    made.apply(*of_kind("CustomResourceDefinition"), pod())
    requests.clear()
    yield made
    made.cluster.__exit__()


def core_of(cluster: Cluster, directory: Path) -> Stub:
    """A cloudcore; it has no files but its socket."""
    directory.mkdir()
    return Stub(directory, kubeconfig=cluster.kubeconfig(), state="cluster", lease=LeaseSettings(period=1.0))


def receive_all(edge: Edge) -> None:
    """Registers, and acknowledges what comes."""
    edge.ask("null/node/n1", "insert", node())
    waiting = {"default/pod/web", "null/node/n1"}
    while waiting:
        message = edge.next()
        edge.acknowledge(message)
        waiting.discard(message.route.resource)


def test_the_state_outlives_cloudcore_and_goes_to_others(
    cluster: Cluster, tmp_path: Path, requests: list[ApiRequest]
) -> None:
    """A fresh one takes a node over from another, with exactly the rights of the role."""
    with core_of(cluster, tmp_path / "b") as other:
        with core_of(cluster, tmp_path / "a") as one, one.edge() as edge:
            receive_all(edge)
            wait_until(lambda: "web" in acknowledged_in(cluster), "the state is written", 60.0)
        with other.edge() as edge:
            cluster.apply(pod("new"))
            message = edge.next()
            edge.acknowledge(message)
            assert message.route.resource != "default/pod/web"
    used = {right for right in test_rights.used_in(requests) if right.group == "edgecore.io"}
    (role,) = (each for each in of_kind("Role") if each["metadata"]["name"] == "cloudcore-state")
    (rule,) = role["rules"]
    assert used == {
        test_rights.Right(verb, "edgecore.io", "nodestates", namespace="kubeedge") for verb in rule["verbs"]
    }
    assert [path.name for path in (tmp_path / "a").iterdir()] == []


def test_the_replica_of_a_node_is_named(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`cloudcore nodes` of one replica names the other, when it knows its Lease."""
    with core_of(cluster, tmp_path / "a") as one, core_of(cluster, tmp_path / "b") as other, one.edge() as edge:
        receive_all(edge)
        holder = one.client.cloudcores().own
        wait_until(lambda: holder in other.client.cloudcores().alive, "the other's Lease is known", 60.0)
        wait_until(lambda: other.client.cloudcores().elsewhere() == {"n1": holder}, "the claim is written", 60.0)
        assert main(["nodes", "--socket", str(tmp_path / "b" / "control")]) == ExitCode.OK
    (line,) = (each for each in capsys.readouterr().out.splitlines() if each.startswith("n1 "))
    assert f"at {holder}" in line


def acknowledged_in(cluster: Cluster) -> set[str]:
    """The names of the objects that n1 has acknowledged, by its NodeState."""
    status, body = cluster.cluster.client.request("GET", "/apis/edgecore.io/v1alpha1/namespaces/kubeedge/nodestates")
    assert status == 200
    states = [read(each) for each in json.loads(body)["items"]]
    return {sync.key.name for state in states if state for sync in state.syncs.values() if sync.version}


@pytest.mark.parametrize(
    ("options", "word"),
    [([], "needs a cluster"), (["--kubeconfig", "k", "--database", "d"], "the state is in one place")],
)
def test_options_that_exclude_each_other(
    options: list[str], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", "--root", str(tmp_path), "--listen", "127.0.0.1:0", "--state", "cluster", *options]
    assert main(arguments) == ExitCode.USAGE
    assert word in capsys.readouterr().err
