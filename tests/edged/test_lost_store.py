"""edged with a store that may not know all pods of the node: nothing that is healthy ends because of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beehive.names import CLOUD_CONNECTED, CLOUD_DISCONNECTED, ModuleName
from edged.pods.decode import read_cloud_pod
from edged.sync.store import FILES_WAIT
from protos.cri.v1 import api_pb2 as cri
from tests.edged.conftest import Bench, OpenEdged, pod
from tests.edged.meta_double import CONFLICT, UNCHANGED_UID

WEB = "default/pod/web"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """edged has run one pod; then its process has ended, and the store is lost."""
    bench = Bench(tmp_path)
    bench.start(pod())
    bench.meta.complete = False
    yield bench
    bench.stop()


def restart(bench: Bench, *, connected: bool, wait: float = 0.0) -> None:
    """edged's process begins again, and `wait` seconds pass; nothing is in the store."""
    bench.meta.objects.clear()
    bench.connection(CLOUD_CONNECTED if connected else CLOUD_DISCONNECTED)
    bench.fail(wait=5)
    assert bench.bee.hive.restarts()["edged"] >= 1
    bench.run(wait)


def one_container(bench: Bench) -> str:
    (container,) = bench.runtime.containers
    return container


def test_without_a_cloud_what_runs_is_left_alone(bench: Bench) -> None:
    """However long it takes: nobody has said that the pod is not wanted."""
    before = one_container(bench)
    restart(bench, connected=False)
    assert bench.running(after=2 * FILES_WAIT) == ["main"]
    assert one_container(bench) == before
    assert not bench.meta.complete


def test_a_running_pod_that_the_cloud_wants_is_taken_over(bench: Bench) -> None:
    """The pod is requested once, by its uid; its status is reported again, and its container keeps running."""
    before = one_container(bench)
    bench.meta.cloud[WEB] = pod()
    restart(bench, connected=True)
    assert bench.meta.questions == ["uid-web"]
    assert bench.meta.phases("web")[-1] == "Running"
    assert one_container(bench) == before
    assert bench.meta.complete
    bench.run(2 * FILES_WAIT)
    assert one_container(bench) == before
    assert bench.bee.hive.restarts()["edged"] == 1
    sent = [each.route for each in bench.bee.sent_to(ModuleName.METAMANAGER)]
    assert sum(each.operation == "update" and "/store" in each.resource for each in sent) == 1, "it is noted once"


def test_it_is_asked_for_when_the_cloud_comes(bench: Bench) -> None:
    before = one_container(bench)
    bench.meta.cloud[WEB] = pod()
    restart(bench, connected=False, wait=500)
    assert bench.meta.questions == []
    bench.connection(CLOUD_CONNECTED, wait=2)
    assert (bench.meta.questions, one_container(bench)) == (["uid-web"], before)
    bench.exit("main", 1, wait=2)
    assert bench.running() == ["main"]


def test_without_an_answer_the_cloud_is_asked_less_and_less(bench: Bench) -> None:
    """After 10 s, then after twice as long each time."""
    restart(bench, connected=False, wait=290)
    assert len(bench.asked("query", WEB)) == 5


def test_a_question_without_an_answer_is_not_repeated_at_each_relist(bench: Bench) -> None:
    bench.silent.add(WEB)
    restart(bench, connected=True, wait=30)
    assert len(bench.asked("query", WEB)) == 1


@pytest.mark.parametrize(("there", "conflict"), [(None, CONFLICT), ("another", CONFLICT), ("another", UNCHANGED_UID)])
def test_a_running_pod_that_the_cloud_does_not_want_is_removed(
    bench: Bench, there: str | None, conflict: dict[str, Any]
) -> None:
    """The cloud has no such pod, or another one of that name; after that the store counts as complete."""
    bench.meta.conflict = conflict
    if there:
        bench.meta.cloud[WEB] = pod(metadata={"uid": there})
    restart(bench, connected=True, wait=35)
    assert (bench.runtime.sandboxes, bench.meta.complete) == ({}, True)


@pytest.mark.parametrize("other", [pod(metadata={"uid": "another"}), pod(nodeName="n2")])
def test_a_pod_is_not_taken_over_as_another_or_from_another_node(bench: Bench, other: dict[str, Any]) -> None:
    """A cloud that does not look at the uid, or has moved the pod."""
    bench.meta.refuse[WEB] = {"Object": other, "Err": None}
    restart(bench, connected=True, wait=35)
    assert (bench.runtime.sandboxes, bench.snapshots.pods) == ({}, ())


def test_a_pod_that_comes_by_itself_is_not_removed(bench: Bench) -> None:
    """The cloud sends it again (this project's own does): what runs is its container."""
    before = one_container(bench)
    restart(bench, connected=False)
    bench.tell("insert", pod(), wait=60)
    assert one_container(bench) == before
    assert bench.meta.complete


def test_an_orphan_is_removed_without_a_question_once_the_store_is_complete(bench: Bench) -> None:
    bench.meta.cloud[WEB] = pod()
    restart(bench, connected=True)
    assert bench.meta.complete
    bench.connection(CLOUD_DISCONNECTED)
    labels = {"io.kubernetes.pod.name": "x", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "u1"}
    orphan = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="x", uid="u1"), labels=labels)
    orphan.annotations["edgecore.io/owner"] = str(bench.settings.root.resolve())
    bench.runtime.run_pod_sandbox(orphan)
    bench.run(30)
    assert [sandbox.metadata.name for sandbox in bench.runtime.sandboxes.values()] == ["web"]


def test_files_alone_have_time_until_their_pod_comes(bench: Bench) -> None:
    """A machine that was rebooted: no container, the cloud has not sent the pod yet."""
    bench.runtime.sandboxes.clear()
    bench.runtime.containers.clear()
    directory = bench.settings.root / "pods" / "uid-web"
    assert directory.is_dir()
    restart(bench, connected=True, wait=FILES_WAIT - 100)
    assert directory.is_dir()
    bench.run(200)
    assert not directory.exists()


def test_a_store_that_is_complete_is_believed(bench: Bench) -> None:
    """The pod was deleted, and the agent killed before it could act on that: nobody need be asked."""
    bench.meta.complete = True
    restart(bench, connected=False, wait=35)
    assert bench.runtime.sandboxes == {}


@pytest.mark.parametrize(("version", "labels"), [("3", {"revision": "new"}), ("9", {"revision": "old"})])
def test_an_answer_that_is_older_than_a_meanwhile_pushed_state_changes_nothing(
    bench: Bench, version: str, labels: dict[str, str]
) -> None:
    """The cloud answered late, and had sent the pod with another label in between."""
    bench.tell("update", pod(metadata={"resourceVersion": "7", "labels": {"revision": "new"}}), wait=5)
    answered = pod(metadata={"resourceVersion": version, "labels": {"revision": "old"}})
    released = read_cloud_pod(msgspec.json.encode(answered), "from the cloud")
    assert released is not None
    OpenEdged.started[-1].assembly.sync_loop.handle_released_pod(released)
    (served,) = bench.snapshots.pods
    assert served.metadata.labels == labels
