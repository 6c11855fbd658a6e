"""cloudcore in the place of KubeEdge's: what nodes have acknowledged to that one is not sent again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beehive.testing import Harness
from modules.apimachinery.kinds import ObjectKey, uid_of, version_of
from modules.cloud.devicecontroller.definitions import definitions
from modules.cloud.devices import API_VERSION, DEVICE
from modules.cloud.edgecontroller.state import object_sync_import
from modules.cloud.edgecontroller.state.object_sync_import import entry_of
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.object_sync import ObjectSync
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, ClusterServer, FakeExchange
from tests.modules.cloud.edgecontroller.controller import USES, WEB
from tests.modules.cloud.objects import configmap, node, pod
from tests.modules.processes.cloudcore.devices import device, model

LATER = "2999-01-01T00:00:00Z"
SETTINGS = ObjectKey("ConfigMap", "default", "settings")


def object_sync(name: str, kind: str = "Pod", of: str = "web", version: str = "7", made: str = LATER) -> dict[str, Any]:
    """An ObjectSync as KubeEdge's cloudcore makes it."""
    return {
        "apiVersion": "reliablesyncs.kubeedge.io/v1alpha1",
        "kind": "ObjectSync",
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": made},
        "spec": {"objectAPIVersion": "v1", "objectKind": kind, "objectName": of},
        "status": {"objectResourceVersion": version},
    }


class KubeEdge:
    """Answers for its custom resources, in pages of one."""

    def __init__(self, server: ClusterServer, *items: Any) -> None:
        self._items = items
        self.asked: list[dict[str, str]] = []
        server.answers["objectsyncs"] = self.answer
        server.answers["clusterobjectsyncs"] = lambda exchange: exchange.answer(403, {"kind": "Status", "code": 403})

    def answer(self, exchange: FakeExchange) -> None:
        """Answers with one object."""
        self.asked.append(exchange.query)
        at = int(exchange.query.get("continue", "0"))
        metadata = {"continue": str(at + 1)} if at + 1 < len(self._items) else {}
        exchange.answer(200, {"kind": "ObjectSyncList", "metadata": metadata, "items": list(self._items[at : at + 1])})


@pytest.fixture
def server() -> Iterator[tuple[Harness, ClusterServer]]:
    """A cluster with a node, a pod and a configmap."""
    with Harness() as bee:
        made = ClusterServer(bee.clock)
        made.apply({"kind": "Node", "apiVersion": "v1", **node()}, configmap(a="1"), pod(**USES))
        yield bee, made


def live(server: ClusterServer, key: ObjectKey = WEB) -> Any:
    """An object of the cluster."""
    return server.cluster.storage.get(key)


def test_at_the_move_only_deletions_are_sent_again(server: tuple[Harness, ClusterServer]) -> None:
    """The node goes on with its connection to another cloud; a configmap has changed since its acknowledgement."""
    bee, cluster = server
    web, settings = live(cluster), live(cluster, SETTINGS)
    edge = KubeEdge(
        cluster,
        object_sync(f"n1.{uid_of(web)}", version=version_of(web)),
        object_sync(f"n1.{uid_of(settings)}", "ConfigMap", "settings", version="1"),
        object_sync("n1.gone-uid", of="gone", version="1"),
    )
    core = ClusterController(bee, cluster)
    bee.run_for(1.0)
    sent = core.down()
    assert "delete node/n1/default/pod/gone" in sent
    assert "update node/n1/default/configmap/settings" in sent
    assert "default/pod/web" not in str(sent)
    assert [each.get("continue") for each in edge.asked] == [None, "1", "2"]


def test_devices_are_sent_as_updates_and_gone_ones_as_deletions(server: tuple[Harness, ClusterServer]) -> None:
    """KubeEdge's edge may have acknowledged a device without a word to a mapper; mappers ignore an insert."""
    bee, cluster = server
    made = {**device(), "apiVersion": API_VERSION}
    cluster.apply(*definitions(), {**model(), "apiVersion": API_VERSION}, made)
    uid = uid_of(live(cluster, ObjectKey(DEVICE.key_name, "default", "thermo")))
    syncs = [object_sync(f"n1.{each}", "Device", of) for each, of in ((uid, "thermo"), ("gone-uid", "gone"))]
    for each in syncs:
        each["spec"]["objectAPIVersion"] = API_VERSION
    KubeEdge(cluster, *syncs)
    core = ClusterController(bee, cluster)
    bee.run_for(1.0)
    sent = [each for each in core.down() if "/device" in each]
    assert sorted(set(sent)) == [
        "delete node/n1/default/device/gone", "insert node/n1/default/devicemodel/thermo-model",
        "update node/n1/default/device/thermo",
    ]  # fmt: skip


def test_it_is_read_once_only(server: tuple[Harness, ClusterServer]) -> None:
    """A module that starts again has state."""
    bee, cluster = server
    bee.expect_failures()
    edge = KubeEdge(cluster, object_sync(f"n1.{uid_of(live(cluster))}"))
    core = ClusterController(bee, cluster)
    core.database_fails()
    core.asks("null/node/n1", "query")
    bee.run_for(9.0)
    assert bee.hive.restarts()["edgecontroller"] == 1
    assert len(edge.asked) == 1


def test_what_another_cloudcore_has_noted_meanwhile_is_not_overwritten(
    server: tuple[Harness, ClusterServer], tmp_path: Path
) -> None:
    """Both have found nothing when they started; the other one was faster, and a node has acknowledged more to it."""
    bee, cluster = server
    web, path = live(cluster), str(tmp_path / "shared.db")
    edge = KubeEdge(cluster, object_sync(f"n1.{uid_of(web)}", version="1"))
    cluster.hold("objectsyncs")
    one, other = (Database(path, name, stores_objects=False) for name in "ab")
    ClusterController(bee, cluster, one, nodes=())
    bee.run_for(1.0)
    other.begin()
    newer = ObjectSync(WEB, int(version_of(web)))
    other.put_object_sync("n1", uid_of(web), newer)
    other.commit(1)
    for exchange in cluster.held:
        edge.answer(exchange)
    bee.run_for(1.0)
    other.begin()
    assert other.object_syncs_of("n1") == {uid_of(web): newer}
    for database in (one, other):
        database.close()


BAD: list[Any] = [7, None, {}, {"metadata": 7}, {"metadata": {"name": 7}, "spec": 7}, object_sync("no-dot")]
BAD += [object_sync("n1.u", kind) for kind in ("Device", "", "Lease")] + [object_sync("n9.u"), object_sync("n1.")]
BAD += [object_sync("n1.u", made="1999-01-01T00:00:00Z"), object_sync("n1." + "u" * 300), object_sync("n1.\x00")]
BAD += [{**object_sync("n1.u"), "spec": {"objectKind": ["Pod"]}}, {**object_sync("n1.u"), "status": 7}]


def test_bad_entries_do_no_harm_to_the_others(server: tuple[Harness, ClusterServer]) -> None:
    """Of another kind, of another node, older than the Node, of other types than KubeEdge's."""
    bee, cluster = server
    web = live(cluster)
    KubeEdge(cluster, *BAD, object_sync(f"n1.{uid_of(web)}", version=version_of(web)))
    core = ClusterController(bee, cluster)
    bee.run_for(1.0)
    assert {each for each in core.down() if "/pod/" in each} == set()


@pytest.mark.parametrize(("version", "expected"), [("12", 12), ("", 0), ("x", 0), ("9" * 40, 0)])
def test_a_version_that_is_no_number_counts_as_none(version: str, expected: int) -> None:
    entry = entry_of(object_sync("a.b.u1", version=version), lambda _: {"metadata": {"creationTimestamp": "1999"}})
    assert entry == ("a.b", "u1", ObjectSync(WEB, expected))


@pytest.mark.parametrize("status", [403, 404, 500])
def test_without_a_right_or_the_definition_nodes_are_served_all_the_same(
    server: tuple[Harness, ClusterServer], status: int
) -> None:
    bee, cluster = server
    for name in ("objectsyncs", "clusterobjectsyncs"):
        cluster.answers[name] = lambda exchange: exchange.answer(status, {"kind": "Status", "code": status})
    core = ClusterController(bee, cluster)
    bee.run_for(120.0)
    assert "insert node/n1/default/pod/web" in core.down()


def test_a_list_without_end_ends(server: tuple[Harness, ClusterServer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_sync_import, "_MAX_PAGES", 3)
    bee, cluster = server
    edge = KubeEdge(cluster, *[object_sync(f"n1.u{number}", version="1") for number in range(9)])
    core = ClusterController(bee, cluster)
    bee.run_for(1.0)
    assert "insert node/n1/default/pod/web" in core.down()
    assert len(edge.asked) == 3
