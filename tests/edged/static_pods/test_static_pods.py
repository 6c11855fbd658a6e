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


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The directory of static pods."""
    directory = tmp_path / "manifests"
    directory.mkdir()
    return directory


@pytest.fixture
def bench(tmp_path: Path, files: Path) -> Iterator[Bench]:
    """edged that looks into it, not started yet."""
    bench = Bench(tmp_path, static_pods=files)
    yield bench
    bench.stop()


def put(files: Path, text: str, name: str = "web.yaml") -> None:
    """Write a file as one should: beside, then moved."""
    beside = files.parent / name
    beside.write_text(text)
    beside.rename(files / name)


def mirror(bench: Bench) -> dict[str, Any]:
    """What the cloud has of it."""
    return bench.meta.cloud[MIRROR]


def test_a_static_pod_runs_without_any_cloud(bench: Bench, files: Path) -> None:
    bench.meta.connected = False
    put(files, manifest())
    bench.start(wait=1)
    assert bench.runtime.running() == ["main"]


def test_pods_that_the_store_has_no_more_are_not_served_while_static_pods_are_awaited(
    bench: Bench, files: Path
) -> None:
    """After a restart of edged: the directory cannot be read."""
    bench.start(pod())
    assert len(bench.snapshots.pods) == 1
    files.rmdir()
    files.touch()
    bench.fail(wait=5)
    assert (len(bench.snapshots.pods), bench.snapshots.pods_are_complete) == (0, False)


def test_a_pod_that_a_lost_store_lacks_runs_on_while_static_pods_are_awaited(bench: Bench, files: Path) -> None:
    """The store is not complete before every source has sent its pods, and the cloud cannot be asked."""
    bench.start(pod())
    bench.meta.complete = False
    files.rmdir()
    files.touch()
    bench.connection("cloud_disconnected")
    bench.fail(wait=60)
    assert bench.bee.hive.restarts()["edged"] >= 1
    assert (bench.runtime.running(), bench.meta.complete) == (["main"], False)


@pytest.mark.parametrize("names", [[NAME], []])
def test_orphans_are_removed_once_the_static_pods_have_come(bench: Bench, files: Path, names: list[str]) -> None:
    """They come as messages; or the directory is empty. It could not be read at first, and the store was listed."""
    files.rmdir()
    files.touch()
    labels = {"io.kubernetes.pod.name": "x", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "u1"}
    orphan = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="x", uid="u1"), labels=labels)
    orphan.annotations["edgecore.io/owner"] = str(bench.settings.root.resolve())
    bench.runtime.run_pod_sandbox(orphan)
    bench.start(wait=3)
    assert len(bench.runtime.sandboxes) == 1
    files.unlink()
    files.mkdir()
    if names:
        put(files, manifest())
    bench.run(5)
    assert [sandbox.metadata.name for sandbox in bench.runtime.sandboxes.values()] == names


def test_a_file_that_was_made_of_a_mirror_is_a_pod_like_any_other(bench: Bench, files: Path) -> None:
    """`kubectl get pod -o yaml` shows the mirror."""
    put(files, manifest().replace("{name: web}", f'{{name: web, annotations: {{{CONFIG_MIRROR}: "x"}}}}'))
    bench.start(wait=15)
    assert bench.runtime.running() == ["main"]
    assert mirror(bench)["metadata"]["annotations"][CONFIG_MIRROR] != "x"


def test_a_static_pod_has_a_mirror_that_the_node_owns_with_its_status(bench: Bench, files: Path) -> None:
    bench.start()
    put(files, manifest())
    bench.run(15)
    made = mirror(bench)
    assert made["metadata"]["annotations"][CONFIG_MIRROR] == made["metadata"]["annotations"][CONFIG_HASH]
    assert [owner["kind"] for owner in made["metadata"]["ownerReferences"]] == ["Node"]
    patch = bench.meta.patches[f"default/podpatch/{NAME}"][-1]
    assert patch["metadata"]["uid"] == made["metadata"]["uid"]
    assert patch["status"]["phase"] == "Running"


def test_its_mirror_is_not_run_and_nothing_happens_to_it_when_the_mirror_goes(bench: Bench, files: Path) -> None:
    put(files, manifest())
    bench.start(wait=15)
    bench.tell("insert", mirror(bench))
    gone = bench.meta.cloud.pop(MIRROR)
    bench.tell("delete", gone, wait=15)
    assert bench.runtime.running() == ["main"]
    assert bench.runtime.calls["start_container"] == 1
    assert MIRROR in bench.meta.cloud


def test_the_cloud_cannot_end_it_by_its_name(bench: Bench, files: Path) -> None:
    """A deletion may come without a uid, and after that of the mirror; a pod may have its name."""
    put(files, manifest())
    bench.start(wait=15)
    bench.tell("insert", mirror(bench))
    for _ in range(2):
        bench.tell("delete", {"metadata": {"name": NAME, "namespace": "default"}})
    bench.tell("insert", pod(NAME), wait=35)
    bench.tell("delete", pod(NAME), wait=35)
    assert [each.metadata.uid for each in bench.snapshots.pods] == [
        mirror(bench)["metadata"]["annotations"][CONFIG_HASH]
    ]
    assert bench.runtime.calls["start_container"] == 2, "the other pod's, too"
    assert bench.runtime.running() == ["main"]


def test_a_pod_of_the_cloud_with_its_name_does_not_take_the_place_of_one_that_waits(bench: Bench, files: Path) -> None:
    """For the end of its predecessor."""
    bench.start()
    put(files, manifest())
    bench.run(3)
    bench.runtime.obeys = 5
    put(files, manifest("busybox:1.37"))
    bench.run(2)
    bench.tell("insert", pod(NAME))
    bench.tell("delete", {"metadata": {"name": NAME, "namespace": "default"}}, wait=60)
    assert [each.spec.containers[0].image for each in bench.snapshots.pods] == ["busybox:1.37"]


def test_a_static_pod_spares_a_pod_of_the_cloud_that_has_its_name(bench: Bench, files: Path) -> None:
    bench.start(pod(NAME), wait=5)
    put(files, manifest())
    bench.run(35)
    assert len(bench.runtime.running()) == 2


def test_a_deleted_mirror_goes_immediately_and_another_comes(bench: Bench, files: Path) -> None:
    """The cloud waits for its node to end it: `kubectl delete pod` would wait for ever."""
    put(files, manifest())
    bench.start(wait=15)
    going = {"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 10}
    bench.tell("update", {**mirror(bench), "metadata": {**mirror(bench)["metadata"], **going}})
    assert bench.meta.deletions == [MIRROR]
    bench.tell("delete", bench.meta.cloud.pop(MIRROR), wait=15)
    assert MIRROR in bench.meta.cloud
    assert bench.runtime.calls["start_container"] == 1


@pytest.mark.parametrize("answer", [NOT_FOUND, CONFLICT], ids=["none", "another"])
def test_a_mirror_that_the_cloud_has_lost_is_made_again(bench: Bench, files: Path, answer: dict[str, Any]) -> None:
    """An older mirror whose removal was never reported."""
    bench.meta.objects[MIRROR] = pod(NAME, metadata={"annotations": {CONFIG_MIRROR: "x", CONFIG_HASH: "x"}})
    bench.meta.refuse[MIRROR] = {"Object": None, "Err": answer}
    put(files, manifest())
    bench.start(wait=3)
    bench.meta.refuse.clear()
    bench.run(15)
    assert MIRROR in bench.meta.cloud


@pytest.mark.parametrize("how", ["message", "store"])
def test_a_pod_of_the_cloud_that_calls_itself_static_is_one_like_any_other(bench: Bench, how: str) -> None:
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


def test_a_file_that_goes_ends_the_pod_and_its_mirror(bench: Bench, files: Path) -> None:
    put(files, manifest())
    bench.start(wait=15)
    (files / "web.yaml").unlink()
    bench.run(15)
    assert bench.runtime.sandboxes == {}
    assert bench.meta.deletions == [MIRROR]


def test_a_file_that_changes_is_another_pod_which_begins_when_the_first_is_gone(bench: Bench, files: Path) -> None:
    bench.start()
    put(files, manifest())
    bench.run(3)
    bench.runtime.obeys = 5
    put(files, manifest() + "  hostname: other\n")
    bench.run(3)
    assert len(bench.runtime.sandboxes) == 1
    bench.run(10)
    assert len(bench.runtime.sandboxes) == 1
    assert bench.runtime.calls["run_pod_sandbox"] == 2
    assert bench.runtime.running() == ["main"]


def test_a_file_that_is_written_again_within_one_tick_of_the_clock_is_read_again(bench: Bench, files: Path) -> None:
    """In its place, with as many bytes: nothing but its content tells that it has changed."""
    file, now = files / "web.yaml", bench.bee.clock.now()

    def write(command: str) -> None:
        file.write_text(manifest().replace("inf", command))
        os.utime(file, (now, now))

    write("one")
    bench.start()
    write("two")
    bench.run(30)
    assert [list(config.command) for config in bench.runtime.configs.values()] == [["sleep", "two"]]


def test_the_second_look_at_a_broken_file_logs_nothing(
    bench: Bench, files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (files / "web.yaml").write_text("kind: Po")
    os.utime(files / "web.yaml", (bench.bee.clock.now(),) * 2)
    bench.start(wait=10)
    assert len([line for line in caplog.messages if "web.yaml" in line]) == 1


def test_a_manifest_that_cannot_be_read_changes_nothing(bench: Bench, files: Path) -> None:
    put(files, manifest())
    bench.start(wait=3)
    put(files, "kind: Po")
    put(files, "nonsense", "other.yaml")
    bench.run(3)
    assert bench.runtime.running() == ["main"]
    assert bench.runtime.calls["start_container"] == 1
    put(files, manifest() + "  hostname: other\n")
    bench.run(15)
    assert bench.runtime.calls["start_container"] == 2


def test_neither_a_directory_nor_the_beginning_of_a_file_that_is_too_large_is_a_pod(
    bench: Bench, files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (files / "directory.yaml").mkdir()
    put(files, manifest() + "#" * LARGEST)
    bench.start(wait=3)
    assert bench.runtime.running() == []
    assert "a pod has at most" in caplog.text
    assert "directory.yaml" not in caplog.text


def test_a_file_whose_name_is_not_unicode_is_a_file_like_any_other(bench: Bench, files: Path) -> None:
    """The uid is made of its path."""
    Path(os.fsdecode(bytes(files) + b"/caf\xe9.yaml")).write_text(manifest())
    bench.start(wait=3)
    assert bench.runtime.running() == ["main"]


def test_a_file_that_cannot_be_read_is_tried_again_and_keeps_no_other_from_its_pod(
    bench: Bench, files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A worn disk, a limit of open files."""
    put(files, manifest(), "broken.yaml")
    put(files, manifest(metadata="name: other"), "other.yaml")

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
    assert bench.runtime.running() == ["main", "main"]
    assert bench.runtime.calls["start_container"] == 2
    assert caplog.text.count("broken.yaml") == 1, "it is reported once"
    put(files, manifest("busybox:1.37"), "broken.yaml")
    with failing("open"):
        bench.run(5)
        assert bench.runtime.running() == ["main", "main"]
    bench.run(15)
    assert "busybox:1.37" in {each.spec.containers[0].image for each in bench.snapshots.pods}


def test_a_file_that_states_its_uid_updates_its_pod(bench: Bench, files: Path) -> None:
    """As in a kubelet: only the container that changed is replaced."""
    put(files, manifest(metadata="name: web, uid: mine"))
    bench.start(wait=5)
    put(files, manifest("busybox:1.37", metadata="name: web, uid: mine"))
    bench.run(15)
    assert [each.spec.containers[0].image for each in bench.snapshots.pods] == ["busybox:1.37"]
    assert bench.runtime.running() == ["main"]
    assert bench.runtime.calls["run_pod_sandbox"] == 1


def test_a_file_that_states_its_uid_can_be_moved_and_renamed(bench: Bench, files: Path) -> None:
    put(files, manifest(metadata="name: web, uid: mine"))
    bench.start(wait=5)
    (files / "web.yaml").rename(files / "moved.yaml")
    bench.run(15)
    assert [each.metadata.name for each in bench.snapshots.pods] == [NAME]
    put(files, manifest(metadata="name: other, uid: mine"), "moved.yaml")
    bench.run(15)
    assert [each.metadata.name for each in bench.snapshots.pods] == ["other-n1"]
    assert bench.runtime.running() == ["main"]


def test_of_two_files_with_one_uid_the_second_waits_for_the_first(
    bench: Bench, files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A copy of a file ends nothing when it goes."""
    put(files, manifest(metadata="name: web, uid: mine"))
    bench.start(wait=5)
    put(files, manifest(metadata="name: web, uid: mine"), "copy.yaml")
    put(files, manifest("busybox:1.37", metadata="name: web, uid: mine"), "second.yaml")
    bench.run(5)
    (files / "copy.yaml").unlink()
    bench.run(15)
    assert bench.runtime.running() == ["main"]
    assert bench.runtime.calls["start_container"] == 1
    assert caplog.text.count("the same `metadata.uid`") == 2
    (files / "web.yaml").unlink()
    bench.run(15)
    assert [each.spec.containers[0].image for each in bench.snapshots.pods] == ["busybox:1.37"]


def test_a_directory_that_cannot_be_read_changes_nothing_and_is_reported_once(
    bench: Bench, files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(files, manifest())
    bench.start(wait=3)
    files.rename(files.with_name("away"))
    files.touch()
    bench.run(5)
    assert bench.runtime.running() == ["main"]
    assert caplog.text.count("the directory of static pods cannot be read") == 1


def test_after_a_restart_of_the_agent_it_is_the_same_pod(bench: Bench, files: Path) -> None:
    """And what ran of it is no orphan."""
    put(files, manifest())
    bench.start(wait=15)
    bench.meta.objects[MIRROR] = mirror(bench)
    bench.poison(wait=15)
    assert bench.bee.hive.restarts()["edged"] == 1
    assert "main" in bench.runtime.running()
    assert bench.runtime.calls["run_pod_sandbox"] <= 2
    assert bench.meta.deletions == []


def test_a_mirror_that_nobody_stands_behind_is_deleted(bench: Bench) -> None:
    stale = pod(NAME, metadata={"annotations": {CONFIG_MIRROR: "x", CONFIG_HASH: "x"}})
    bench.meta.objects[MIRROR] = stale
    bench.start(wait=3)
    assert bench.meta.deletions[:1] == [MIRROR]
    assert bench.runtime.calls["run_pod_sandbox"] == 0
