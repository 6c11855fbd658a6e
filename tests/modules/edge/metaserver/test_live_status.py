"""What edged publishes comes into the cache, once for each change."""

import json

import pytest

from edged.server.snapshots import Snapshots
from modules.apimachinery.pods.static import is_static
from modules.apimachinery.types import Nanoseconds, ObjectMeta, Pod, PodStatus
from modules.apimachinery.types.pods import PodSpec
from modules.edge.metaserver.live_status import LiveStatusUpdater
from modules.edge.metaserver.watch_cache import CacheKey, WatchCache
from tests.edged.node.test_status import REPORT
from tests.modules.edge.metaserver.objects import FIRST, key, obj, put


def pod(name: str, uid: str, phase: str, **annotations: str) -> Pod:
    meta = ObjectMeta(name=name, namespace="default", uid=uid, annotations=annotations)
    return Pod(metadata=meta, spec=PodSpec(), status=PodStatus(phase=phase))


def phase(cache: WatchCache, name: str) -> str:
    text = cache.get(key(name))
    assert text is not None
    return str(json.loads(text)["status"]["phase"])


def test_statuses_of_pods_and_node() -> None:
    cache, snapshots = WatchCache(FIRST), Snapshots()
    cache.load({})
    put(cache, obj("a", uid="1"), {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1", "namespace": ""}})
    LiveStatusUpdater(snapshots, cache, "n1").start()
    static = pod("s", "2", "Running", **{"kubernetes.io/config.source": "file"})
    assert is_static(static)
    first = pod("a", "1", "Pending")
    snapshots.pods = (first, static)
    assert (phase(cache, "a"), phase(cache, "s")) == ("Pending", "Running")
    begin = cache.revision
    snapshots.pods = (first, static)
    assert cache.revision == begin, "nothing has changed"
    snapshots.pods = (pod("a", "1", "Running"),)
    assert phase(cache, "a") == "Running"
    assert cache.get(key("s")) is None
    snapshots.node_reported(REPORT, Nanoseconds(0))
    node = cache.get(CacheKey("node", "", "n1"))
    assert node is not None
    assert "Ready" in {each["type"] for each in json.loads(node)["status"]["conditions"]}
    begin = cache.revision
    snapshots.node_reported(REPORT, Nanoseconds(10**10))
    assert cache.revision == begin, "a heartbeat alone is no other status"


def test_of_two_pods_of_a_name_the_stored_one_counts() -> None:
    """The older still goes."""
    cache, snapshots = WatchCache(FIRST), Snapshots()
    cache.load({})
    put(cache, obj("a", uid="new"))
    LiveStatusUpdater(snapshots, cache, "n1").start()
    snapshots.pods = (pod("a", "old", "Running"), pod("a", "new", "Pending"))
    assert phase(cache, "a") == "Pending"


def test_what_has_not_changed_is_neither_encoded_nor_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """edged publishes often: each pod that changes would cost the encoding of all others and of the node."""
    cache, snapshots, kinds = WatchCache(FIRST), Snapshots(), list[str]()
    LiveStatusUpdater(snapshots, cache, "n1").start()
    monkeypatch.setattr(cache, "set_live_statuses", lambda kind, _statuses: kinds.append(kind))
    first, second = pod("a", "1", "Pending"), pod("b", "2", "Pending")
    snapshots.node_reported(REPORT, Nanoseconds(0))
    for pods in ((first,), (first,), (first, second), (second,), (second,)):
        snapshots.pods = pods
    assert kinds == ["node", "pod", "pod", "pod"]


def test_of_two_pods_of_one_name_each_has_its_status() -> None:
    """The one before still terminates; the object says which of them it is."""
    snapshots = Snapshots()
    for uid, wanted in (("1", "Failed"), ("2", "Running")):
        cache = WatchCache(FIRST)
        cache.load({})
        put(cache, obj("a", uid=uid))
        LiveStatusUpdater(snapshots, cache, "n1").start()
        snapshots.pods = (pod("a", "1", "Failed"), pod("a", "2", "Running"))
        assert phase(cache, "a") == wanted
