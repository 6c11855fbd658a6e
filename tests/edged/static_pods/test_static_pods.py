"""Static pods as edged runs and reports them, alone on the bus, with real files."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from edged.static_pods.manifest import CONFIG_HASH, LARGEST
from modules.apimachinery.pods.static import CONFIG_MIRROR, CONFIG_SOURCE
from protos.cri.v1 import api_pb2 as cri
from tests.edged.conftest import Bench, pod
from tests.edged.meta_double import CONFLICT, NOT_FOUND

NAME = "web-n1"
MIRROR = f"default/pod/{NAME}"


def manifest(image: str = "busybox:1.36", metadata: str = "name: web") -> str:
    """A file that asks for a pod."""
    return f"""
kind: Pod
metadata: {{{metadata}}}
spec:
  terminationGracePeriodSeconds: 10
  containers: [{{name: main, image: "{image}", command: [sleep, inf]}}]
"""


class StaticBench(Bench):
    """A bench with a directory of static pods."""

    def __init__(self, root: Path) -> None:
        self.files = root / "manifests"
        self.files.mkdir()
        super().__init__(root, static_pods=self.files)

    def put(self, text: str, name: str = "web.yaml", wait: float = 0.0) -> None:
        """Write a file as one should, beside, then moved; and let `wait` seconds pass."""
        beside = self.files.parent / name
        beside.write_text(text)
        beside.rename(self.files / name)
        self.run(wait)

    @property
    def mirror(self) -> dict[str, Any]:
        """What the cloud has of the pod."""
        return self.meta.cloud[MIRROR]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[StaticBench]:
    """edged that is not started yet."""
    bench = StaticBench(tmp_path)
    yield bench
    bench.stop()


def test_a_static_pod_runs_without_any_cloud(bench: StaticBench) -> None:
    bench.meta.connected = False
    bench.put(manifest())
    bench.start(wait=1)
    assert bench.running() == ["main"]


def test_pods_that_the_store_has_no_more_are_not_served_while_static_pods_are_awaited(bench: StaticBench) -> None:
    """After a restart of edged: the directory cannot be read."""
    bench.start(pod())
    assert len(bench.snapshots.pods) == 1
    bench.files.rmdir()
    bench.files.touch()
    bench.fail(wait=5)
    assert (len(bench.snapshots.pods), bench.snapshots.pods_are_complete) == (0, False)


def test_a_pod_that_a_lost_store_lacks_runs_on_while_static_pods_are_awaited(bench: StaticBench) -> None:
    """The store is not complete before every source has sent its pods, and the cloud cannot be asked."""
    bench.start(pod())
    bench.meta.complete = False
    bench.files.rmdir()
    bench.files.touch()
    bench.connection("cloud_disconnected")
    bench.fail(wait=60)
    assert bench.bee.hive.restarts()["edged"] >= 1
    assert (bench.running(), bench.meta.complete) == (["main"], False)


@pytest.mark.parametrize("names", [[NAME], []])
def test_orphans_are_removed_once_the_static_pods_have_come(bench: StaticBench, names: list[str]) -> None:
    """They come as messages; or the directory is empty. It could not be read at first, and the store was listed."""
    bench.files.rmdir()
    bench.files.touch()
    labels = {"io.kubernetes.pod.name": "x", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "u1"}
    orphan = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="x", uid="u1"), labels=labels)
    orphan.annotations["edgecore.io/owner"] = str(bench.settings.root.resolve())
    bench.runtime.run_pod_sandbox(orphan)
    bench.start(wait=3)
    assert len(bench.runtime.sandboxes) == 1
    bench.files.unlink()
    bench.files.mkdir()
    if names:
        bench.put(manifest())
    bench.run(5)
    assert [sandbox.metadata.name for sandbox in bench.runtime.sandboxes.values()] == names


def test_a_file_that_was_made_of_a_mirror_is_a_pod_like_any_other(bench: StaticBench) -> None:
    """`kubectl get pod -o yaml` shows the mirror."""
    bench.put(manifest().replace("{name: web}", f'{{name: web, annotations: {{{CONFIG_MIRROR}: "x"}}}}'))
    bench.start(wait=15)
    assert bench.running() == ["main"]
    assert bench.mirror["metadata"]["annotations"][CONFIG_MIRROR] != "x"


def test_a_static_pod_has_a_mirror_that_the_node_owns_with_its_status(bench: StaticBench) -> None:
    bench.start()
    bench.put(manifest(), wait=15)
    made = bench.mirror
    assert made["metadata"]["annotations"][CONFIG_MIRROR] == made["metadata"]["annotations"][CONFIG_HASH]
    assert [owner["kind"] for owner in made["metadata"]["ownerReferences"]] == ["Node"]
    patch = bench.meta.patches[f"default/podpatch/{NAME}"][-1]
    assert patch["metadata"]["uid"] == made["metadata"]["uid"]
    assert patch["status"]["phase"] == "Running"


def test_its_mirror_is_not_run_and_nothing_happens_to_it_when_the_mirror_goes(bench: StaticBench) -> None:
    bench.put(manifest())
    bench.start(wait=15)
    bench.tell("insert", bench.mirror)
    gone = bench.meta.cloud.pop(MIRROR)
    bench.tell("delete", gone, wait=15)
    assert bench.running() == ["main"]
    assert bench.runtime.calls["start_container"] == 1
    assert MIRROR in bench.meta.cloud


def test_the_cloud_cannot_end_it_by_its_name(bench: StaticBench) -> None:
    """A deletion may come without a uid, and after that of the mirror; a pod may have its name."""
    bench.put(manifest())
    bench.start(wait=15)
    bench.tell("insert", bench.mirror)
    for _ in range(2):
        bench.tell("delete", {"metadata": {"name": NAME, "namespace": "default"}})
    bench.tell("insert", pod(NAME), wait=35)
    bench.tell("delete", pod(NAME), wait=35)
    assert [each.metadata.uid for each in bench.snapshots.pods] == [
        bench.mirror["metadata"]["annotations"][CONFIG_HASH]
    ]
    assert bench.runtime.calls["start_container"] == 2, "the other pod's, too"
    assert bench.running() == ["main"]


def test_a_pod_of_the_cloud_with_its_name_does_not_take_the_place_of_one_that_waits(bench: StaticBench) -> None:
    """For the end of its predecessor."""
    bench.start()
    bench.put(manifest(), wait=3)
    bench.runtime.obeys = 5
    bench.put(manifest("busybox:1.37"), wait=2)
    bench.tell("delete", bench.meta.cloud.pop(MIRROR))
    bench.tell("insert", pod(NAME))
    bench.tell("delete", {"metadata": {"name": NAME, "namespace": "default"}}, wait=60)
    assert [each.spec.containers[0].image for each in bench.snapshots.pods] == ["busybox:1.37"]


def test_a_static_pod_spares_a_pod_of_the_cloud_that_has_its_name(bench: StaticBench) -> None:
    bench.start(pod(NAME), wait=5)
    bench.put(manifest(), wait=35)
    assert len(bench.running()) == 2


def test_a_deleted_mirror_goes_immediately_and_another_comes(bench: StaticBench) -> None:
    """The cloud waits for its node to end it: `kubectl delete pod` would wait for ever."""
    bench.put(manifest())
    bench.start(wait=15)
    going = {"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 10}
    bench.tell("update", {**bench.mirror, "metadata": {**bench.mirror["metadata"], **going}})
    assert bench.meta.deletions == [MIRROR]
    bench.tell("delete", bench.meta.cloud.pop(MIRROR), wait=15)
    assert MIRROR in bench.meta.cloud
    assert bench.runtime.calls["start_container"] == 1


@pytest.mark.parametrize("answer", [NOT_FOUND, CONFLICT], ids=["none", "another"])
def test_a_mirror_that_the_cloud_has_lost_is_made_again(bench: StaticBench, answer: dict[str, Any]) -> None:
    """An older mirror whose removal was never reported."""
    bench.meta.objects[MIRROR] = pod(NAME, metadata={"annotations": {CONFIG_MIRROR: "x", CONFIG_HASH: "x"}})
    bench.meta.refuse[MIRROR] = {"Object": None, "Err": answer}
    bench.put(manifest())
    bench.start(wait=3)
    bench.meta.refuse.clear()
    bench.run(15)
    assert MIRROR in bench.meta.cloud


@pytest.mark.parametrize("how", ["message", "store"])
def test_a_pod_of_the_cloud_that_calls_itself_static_is_one_like_any_other(bench: StaticBench, how: str) -> None:
    """Its status is reported as its own, and nothing is spared it."""
    given = pod("web", metadata={"annotations": {CONFIG_SOURCE: "file", "a": "b"}})
    if how == "store":
        bench.meta.objects["default/pod/web"] = given
    bench.start()
    if how == "message":
        bench.tell("insert", given)
    bench.run(15)
    assert bench.meta.phases("web")[-1] == "Running"
    assert [served.metadata.annotations for served in bench.snapshots.pods] == [{"a": "b"}]
    assert bench.meta.deletions == []


def test_a_file_that_goes_ends_the_pod_and_its_mirror(bench: StaticBench) -> None:
    bench.put(manifest())
    bench.start(wait=15)
    (bench.files / "web.yaml").unlink()
    bench.run(15)
    assert bench.runtime.sandboxes == {}
    assert bench.meta.deletions == [MIRROR]


@pytest.mark.parametrize("successor", [None, "busybox:1.37"])
def test_a_mirror_stays_until_its_pod_has_ended(bench: StaticBench, successor: str | None) -> None:
    """The cloud shows what still runs. Then the mirror of the successor comes, if there is one."""
    bench.put(manifest())
    bench.start(wait=15)
    bench.runtime.obeys = 5
    if successor:
        bench.put(manifest(successor), wait=4)
    else:
        (bench.files / "web.yaml").unlink()
        bench.run(4)
    assert (bench.running(), bench.meta.deletions) == (["main"], [])
    bench.run(5)
    assert bench.meta.deletions == [MIRROR]
    bench.tell("delete", bench.meta.cloud.pop(MIRROR))
    assert (MIRROR in bench.meta.cloud) is (successor is not None)


def test_a_file_that_changes_is_another_pod_which_begins_when_the_first_is_gone(bench: StaticBench) -> None:
    bench.start()
    bench.put(manifest(), wait=3)
    bench.runtime.obeys = 5
    bench.put(manifest() + "  hostname: other\n", wait=3)
    assert len(bench.runtime.sandboxes) == 1
    bench.run(10)
    assert len(bench.runtime.sandboxes) == 1
    assert bench.runtime.calls["run_pod_sandbox"] == 2
    assert bench.running() == ["main"]


def test_a_file_that_is_written_again_within_one_tick_of_the_clock_is_read_again(bench: StaticBench) -> None:
    """In its place, with as many bytes: nothing but its content tells that it has changed."""
    file, now = bench.files / "web.yaml", bench.bee.clock.now()

    def write(command: str) -> None:
        file.write_text(manifest().replace("inf", command))
        os.utime(file, (now, now))

    write("one")
    bench.start()
    write("two")
    bench.run(30)
    assert [list(config.command) for config in bench.runtime.configs.values()] == [["sleep", "two"]]


def test_the_second_look_at_a_broken_file_logs_nothing(bench: StaticBench, caplog: pytest.LogCaptureFixture) -> None:
    (bench.files / "web.yaml").write_text("kind: Po")
    os.utime(bench.files / "web.yaml", (bench.bee.clock.now(),) * 2)
    bench.start(wait=10)
    assert len([line for line in caplog.messages if "web.yaml" in line]) == 1


def test_a_manifest_that_cannot_be_read_changes_nothing(bench: StaticBench) -> None:
    bench.put(manifest())
    bench.start(wait=3)
    bench.put("kind: Po")
    bench.put("nonsense", "other.yaml")
    assert bench.running(after=3) == ["main"]
    assert bench.runtime.calls["start_container"] == 1
    bench.put(manifest() + "  hostname: other\n", wait=15)
    assert bench.runtime.calls["start_container"] == 2


def test_neither_a_directory_nor_the_beginning_of_a_file_that_is_too_large_is_a_pod(
    bench: StaticBench, caplog: pytest.LogCaptureFixture
) -> None:
    (bench.files / "directory.yaml").mkdir()
    bench.put(manifest() + "#" * LARGEST)
    bench.start(wait=3)
    assert bench.running() == []
    assert "a pod has at most" in caplog.text
    assert "directory.yaml" not in caplog.text


def test_a_file_whose_name_is_not_unicode_is_a_file_like_any_other(bench: StaticBench) -> None:
    """The uid is made of its path."""
    Path(os.fsdecode(bytes(bench.files) + b"/caf\xe9.yaml")).write_text(manifest())
    bench.start(wait=3)
    assert bench.running() == ["main"]


def test_a_file_that_cannot_be_read_is_tried_again_and_keeps_no_other_from_its_pod(
    bench: StaticBench, caplog: pytest.LogCaptureFixture
) -> None:
    """A worn disk, a limit of open files."""
    bench.put(manifest(), "broken.yaml")
    bench.put(manifest(metadata="name: other"), "other.yaml")

    def failing(call: str) -> Any:
        real = getattr(Path, call)

        def fail(path: Path, *args: Any, **options: Any) -> Any:
            if path.name == "broken.yaml":
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            return real(path, *args, **options)

        return patch.object(Path, call, fail)

    with failing("stat"), failing("open"):
        bench.start(wait=5)
        assert [each.metadata.name for each in bench.snapshots.pods] == ["other-n1"]
    bench.run(3)
    with failing("stat"), failing("open"):
        bench.run(5)
    assert bench.running() == ["main", "main"]
    assert bench.runtime.calls["start_container"] == 2
    assert caplog.text.count("broken.yaml") == 1, "it is reported once"
    bench.put(manifest("busybox:1.37"), "broken.yaml")
    with failing("open"):
        assert bench.running(after=5) == ["main", "main"]
    bench.run(15)
    assert "busybox:1.37" in {each.spec.containers[0].image for each in bench.snapshots.pods}


def test_a_file_that_states_its_uid_updates_its_pod(bench: StaticBench) -> None:
    """As in a kubelet: only the container that changed is replaced."""
    bench.put(manifest(metadata="name: web, uid: mine"))
    bench.start(wait=5)
    bench.put(manifest("busybox:1.37", metadata="name: web, uid: mine"), wait=15)
    assert [each.spec.containers[0].image for each in bench.snapshots.pods] == ["busybox:1.37"]
    assert bench.running() == ["main"]
    assert bench.runtime.calls["run_pod_sandbox"] == 1


def test_a_file_that_states_its_uid_can_be_moved_and_renamed(bench: StaticBench) -> None:
    bench.put(manifest(metadata="name: web, uid: mine"))
    bench.start(wait=5)
    (bench.files / "web.yaml").rename(bench.files / "moved.yaml")
    bench.run(15)
    assert [each.metadata.name for each in bench.snapshots.pods] == [NAME]
    bench.put(manifest(metadata="name: other, uid: mine"), "moved.yaml", wait=15)
    assert [each.metadata.name for each in bench.snapshots.pods] == ["other-n1"]
    assert bench.running() == ["main"]


def test_of_two_files_with_one_uid_the_second_waits_for_the_first(
    bench: StaticBench, caplog: pytest.LogCaptureFixture
) -> None:
    """A copy of a file ends nothing when it goes."""
    bench.put(manifest(metadata="name: web, uid: mine"))
    bench.start(wait=5)
    bench.put(manifest(metadata="name: web, uid: mine"), "copy.yaml")
    bench.put(manifest("busybox:1.37", metadata="name: web, uid: mine"), "second.yaml", wait=5)
    (bench.files / "copy.yaml").unlink()
    assert bench.running(after=15) == ["main"]
    assert bench.runtime.calls["start_container"] == 1
    assert caplog.text.count("the same `metadata.uid`") == 2
    (bench.files / "web.yaml").unlink()
    bench.run(15)
    assert [each.spec.containers[0].image for each in bench.snapshots.pods] == ["busybox:1.37"]


def test_a_directory_that_cannot_be_read_changes_nothing_and_is_reported_once(
    bench: StaticBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put(manifest())
    bench.start(wait=3)
    bench.files.rename(bench.files.with_name("away"))
    bench.files.touch()
    assert bench.running(after=5) == ["main"]
    assert caplog.text.count("the directory of static pods cannot be read") == 1
    bench.files.unlink()
    bench.files.with_name("away").rename(bench.files)
    bench.run(5)
    bench.files.rename(bench.files.with_name("away"))
    bench.files.touch()
    assert bench.running(after=5) == ["main"]
    assert caplog.text.count("the directory of static pods cannot be read") == 2, "again after it could be read"


def test_after_a_restart_of_the_agent_it_is_the_same_pod(bench: StaticBench) -> None:
    """And what ran of it is no orphan."""
    bench.put(manifest())
    bench.start(wait=15)
    bench.meta.objects[MIRROR] = bench.mirror
    bench.poison(wait=15)
    assert bench.bee.hive.restarts()["edged"] == 1
    assert "main" in bench.running()
    assert bench.runtime.calls["run_pod_sandbox"] <= 2
    assert bench.meta.deletions == []


def test_a_mirror_that_nobody_stands_behind_is_deleted(bench: StaticBench) -> None:
    stale = pod(NAME, metadata={"annotations": {CONFIG_MIRROR: "x", CONFIG_HASH: "x"}})
    bench.meta.objects[MIRROR] = stale
    bench.start(wait=3)
    assert bench.meta.deletions[:1] == [MIRROR]
    assert bench.runtime.calls["run_pod_sandbox"] == 0
