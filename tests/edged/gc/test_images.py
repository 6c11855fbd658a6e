"""Which images go: the pure part, and the collector on a runtime in memory."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from threading import Event, Thread
from unittest.mock import Mock, patch

import grpc
import pytest
from msgspec.structs import replace

from beehive.simulation import Simulation
from edged.cri.errors import DeadlineExceededError, RefusedError
from edged.events import EventRecorder, Occurrence
from edged.gc.images import (
    ImageCollector,
    ImageRecord,
    bytes_to_free,
    collect_images,
    images_directory,
    names_in_use,
    sandbox_images,
    too_old,
    unused,
    updated_records,
)
from edged.node.machine import FileSystem
from edged.settings.gc import ImagePolicy
from modules.apimachinery.types import Pod, PodStatus
from modules.lab.doubles.container_runtime import FakeRuntime
from modules.lab.doubles.container_runtime.machine_info import PLENTY, FakeMachineInfo
from protos.cri.v1 import api_pb2 as cri
from tests.edged.pods.builders import a_container, a_pod

GIB = 1 << 30
PAUSE = "registry.k8s.io/pause:3.9"


def disk(free_percent: int) -> FileSystem:
    return FileSystem(free_percent * GIB, 100 * GIB, 1000, 2000)


@pytest.mark.parametrize(("free", "wanted"), [(50, 0), (16, 0), (15, 5 * GIB), (14, 6 * GIB), (0, 20 * GIB)])
def test_above_the_high_threshold_images_go_until_the_low_one(free: int, wanted: int) -> None:
    assert bytes_to_free(disk(free), ImagePolicy(high=85, low=80)) == wanted


def test_thresholds_of_a_hundred_and_disks_of_nothing_free_nothing() -> None:
    assert bytes_to_free(disk(0), ImagePolicy(high=100, low=80)) == 0
    assert bytes_to_free(FileSystem(0, 0, 0, 0), ImagePolicy()) == 0


def image(name: str, *, pinned: bool = False, size: int = 10) -> cri.Image:
    return cri.Image(id=f"sha256:{name}", repo_tags=[name], repo_digests=[f"{name}@d"], pinned=pinned, size=size)


def test_the_first_listing_and_the_last_use_of_an_image_are_remembered() -> None:
    first = updated_records({}, [image("a"), image("b")], {"a"}, (), 10.0)
    later = updated_records(first, [image("a"), image("c"), image("p", pinned=True)], {"c@d"}, ("a",), 20.0)
    assert {r.id: (r.first_seen, r.last_used, r.pinned) for r in later.values()} == {
        "sha256:a": (10.0, 10.0, True),
        "sha256:c": (20.0, 20.0, False),
        "sha256:p": (20.0, float("-inf"), True),
    }


def test_the_longest_unused_image_goes_first_and_used_pinned_or_young_ones_never() -> None:
    records = {
        each.id: each
        for each in (
            ImageRecord("in use", 1, pinned=False, first_seen=0.0, last_used=500.0),
            ImageRecord("pinned", 1, pinned=True, first_seen=0.0),
            ImageRecord("young", 1, pinned=False, first_seen=450.0),
            ImageRecord("later", 1, pinned=False, first_seen=0.0, last_used=90.0),
            ImageRecord("earlier", 1, pinned=False, first_seen=50.0, last_used=80.0),
            ImageRecord("never", 1, pinned=False, first_seen=60.0),
        )
    }
    assert [r.id for r in unused(records, 500.0, 120.0)] == ["never", "earlier", "later"]


def test_images_of_one_listing_go_in_one_order_and_not_while_the_clock_stands() -> None:
    """An image that was in use at the time of this listing is in use."""
    first = updated_records({}, [image("b"), image("c"), image("a")], {"c"}, (), 10.0)
    frozen = updated_records(first, [image("c"), image("a"), image("b")], (), (), 10.0)
    assert [each.id for each in unused(frozen, 10.0, 0.0)] == ["sha256:a", "sha256:b"]
    assert [each.id for each in unused(frozen, 11.0, 0.0)] == ["sha256:a", "sha256:b", "sha256:c"]


def test_an_image_is_too_old_only_when_it_was_watched_for_long_enough() -> None:
    """One that an ImagePrePullJob has pulled was never used."""
    policy = ImagePolicy(maximum_age=100.0, minimum_age=0.0)
    used = ImageRecord("a", 1, pinned=False, first_seen=0.0, last_used=10.0)
    records = {"a": used, "b": ImageRecord("b", 1, pinned=False, first_seen=50.0)}
    assert too_old(records, 90.0, policy) == []
    assert [r.id for r in too_old(records, 120.0, policy)] == ["a"]
    assert {r.id for r in too_old(records, 151.0, policy)} == {"a", "b"}
    assert too_old(records, 1000.0, ImagePolicy(maximum_age=0.0)) == []


def test_containers_dead_or_alive_and_pods_that_have_not_ended_use_images() -> None:
    dead = cri.Container(image=cri.ImageSpec(image="by-name"), image_ref="by-ref", image_id="by-id")
    lives, ended = a_pod(a_container(image="nginx")), a_pod(status=PodStatus(phase="Failed"))
    assert names_in_use([dead], [lives, ended]) == {"by-name", "by-ref", "by-id", "docker.io/library/nginx:latest"}


@pytest.mark.parametrize("tag", ["", ":1.27"])
def test_an_image_that_a_pod_names_by_its_digest_is_in_use(tag: str) -> None:
    """Runtimes list it without the tag; a pod that waits for something else has no container that says so."""
    digest = "sha256:" + 64 * "a"
    there = cri.Image(id="sha256:x", repo_digests=[f"docker.io/library/nginx@{digest}"])
    in_use = names_in_use([], [a_pod(a_container(image=f"nginx{tag}@{digest}"))])
    assert updated_records({}, [there], in_use, (), 10.0)["sha256:x"].last_used == 10.0


class Collected:
    """A collector with a runtime that has three unused images of 10 GiB."""

    def __init__(self, root: Path, **policy: float) -> None:
        self.simulation = Simulation(1)
        self.runtime = FakeRuntime(self.simulation, ["a", "b", "c", PAUSE])
        self.runtime.image_sizes = dict.fromkeys("abc", 10 * GIB)
        self.runtime.sandbox_image = PAUSE
        self.machine_info = FakeMachineInfo()
        self.told: list[Occurrence] = []
        self.pods: tuple[Pod, ...] = ()
        self.recorder = EventRecorder(self.simulation.clock, "n1", self.told.append)
        self.collector = ImageCollector(
            self.runtime, ImagePolicy(**policy), self.simulation.clock, lambda: self.pods,  # type: ignore[arg-type]
            machine_info=self.machine_info, root=root, recorder=self.recorder,
        )  # fmt: skip

    def collect(self, *, free: int = 50, after: float = 200.0) -> list[str]:
        """The images that are left."""
        self.machine_info.left = replace(PLENTY, node_fs=disk(free))
        self.collector.collect()
        self.simulation.run_for(after)
        return [each.repo_tags[0] for each in self.runtime.list_images()]


def test_images_are_removed_until_there_is_room_and_no_more(tmp_path: Path) -> None:
    collected = Collected(tmp_path)
    assert collected.collect() == ["a", "b", "c", PAUSE]
    assert collected.collect(free=5) == ["c", PAUSE], "15 GiB are wanted: two images"
    assert collected.told == []


def test_when_too_little_can_be_freed_it_is_reported_and_used_images_stay(tmp_path: Path) -> None:
    """So does the sandboxes' own image, although an old runtime does not pin it."""
    used = "docker.io/library/used:latest"
    collected = Collected(tmp_path)
    collected.runtime.pull_image(cri.ImageSpec(image=used))
    collected.pods = (a_pod(a_container(image="used")),)
    collected.collect()
    assert collected.collect(free=0) == ["c", used, PAUSE]
    collected.collect(free=0)
    assert collected.collect(free=0) == [used, PAUSE]
    assert {each.reason for each in collected.told} == {"FreeDiskSpaceFailed"}
    assert "Attempted to free 21474836480 bytes, but only found 10737418240 bytes" in collected.told[0].message


def test_an_image_that_cannot_be_removed_does_not_prevent_the_others(tmp_path: Path) -> None:
    collected = Collected(tmp_path)
    collected.collect()
    refused = RefusedError("RemoveImage", "a", grpc.StatusCode.FAILED_PRECONDITION, "in use")
    collected.runtime.fail("remove_image", refused)
    assert collected.collect(free=12) == ["a", "c", PAUSE]


def test_no_more_images_are_removed_when_a_removal_is_not_answered_in_time(tmp_path: Path) -> None:
    collected = Collected(tmp_path)
    collected.collect()
    late = DeadlineExceededError("RemoveImage", "a", grpc.StatusCode.DEADLINE_EXCEEDED, "")
    collected.runtime.fail("remove_image", late)
    with pytest.raises(DeadlineExceededError):
        collected.collect(free=0)
    assert collected.collect() == ["a", "b", "c", PAUSE]
    assert collected.collect(free=5) == ["a", PAUSE], "it is the last from then on, so that it keeps no other"


def test_a_failure_of_the_whole_is_an_event(tmp_path: Path) -> None:
    collected = Collected(tmp_path)
    collected.runtime.fail("list_images", RefusedError("ListImages", "", grpc.StatusCode.UNKNOWN, "broken"))
    with pytest.raises(RefusedError):
        collect_images(collected.collector, collected.recorder)
    assert [each.reason for each in collected.told] == ["ImageGCFailed"]


def test_unused_ones_all_go_when_the_disk_is_short(tmp_path: Path) -> None:
    collected = Collected(tmp_path)
    collected.collect()
    assert collected.collector.remove_unused() == 30 * GIB


def test_an_eviction_at_the_same_time_removes_no_image_in_use(tmp_path: Path) -> None:
    """It lists the images a moment later, and the housekeeper's earlier listing ends while it measures the disk."""
    collected = Collected(tmp_path)
    used = "docker.io/library/used:latest"
    collected.runtime.pull_image(cri.ImageSpec(image=used))
    collected.pods = (a_pod(a_container(image="used")),)
    collected.collect()
    lists, measures, has_listed = Event(), Event(), Event()
    list_images, image_fs_info = collected.runtime.list_images, collected.runtime.image_fs_info

    def late_list() -> Sequence[cri.Image]:
        found = list_images()
        lists.set()
        measures.wait()
        return found

    def late_measurement() -> Sequence[cri.FilesystemUsage]:
        measures.set()
        has_listed.wait()
        return image_fs_info()

    def earlier() -> None:
        with patch.object(collected.runtime, "list_images", late_list):
            collected.collector.remove_unused()
        has_listed.set()

    collected.machine_info.left = replace(PLENTY, node_fs=disk(0))
    housekeeper = Thread(target=earlier)
    housekeeper.start()
    lists.wait()
    collected.simulation.run_for(1.0)
    with (
        patch.object(collected.runtime, "list_images", list_images),
        patch.object(collected.runtime, "image_fs_info", late_measurement),
    ):
        collected.collector.collect()
    housekeeper.join()
    assert used in {each.repo_tags[0] for each in collected.runtime.list_images()}


def test_old_ones_go_although_there_is_room(tmp_path: Path) -> None:
    collected = Collected(tmp_path, maximum_age=300.0)
    collected.collect(after=250.0)
    collected.collect(after=100.0)
    refused = RefusedError("RemoveImage", "a", grpc.StatusCode.FAILED_PRECONDITION, "in use")
    collected.runtime.fail("remove_image", refused)
    assert collected.collect() == ["a", PAUSE], "one that cannot be removed keeps no other"
    assert collected.collect() == [PAUSE]


def test_a_disk_of_no_size_is_reported(tmp_path: Path) -> None:
    collected = Collected(tmp_path)
    collected.machine_info.left = replace(PLENTY, node_fs=FileSystem(0, 0, 0, 0))
    collected.collector.collect()
    assert [each.reason for each in collected.told] == ["InvalidDiskCapacity"]


def test_a_runtime_without_a_verbose_status_names_no_sandbox_image() -> None:
    assert sandbox_images(FakeRuntime(Simulation(1))) == frozenset()


def test_the_sandbox_image_is_found_behind_information_that_cannot_be_read() -> None:
    runtime = FakeRuntime(Simulation(1))
    info = {"a": "no JSON", "b": "[1]", "config": f'{{"sandboxImage": "{PAUSE}"}}'}
    with patch.object(runtime, "status", return_value=Mock(info=info)):
        assert sandbox_images(runtime) == {PAUSE}


@pytest.mark.parametrize(
    ("mountpoints", "directory"),
    [([], None), ([""], None), (["images"], None), (["/var/lib/images", "/other"], Path("/var/lib/images"))],
)
def test_only_a_whole_path_is_the_directory_of_the_images(mountpoints: list[str], directory: Path | None) -> None:
    """Another one would be measured from wherever the agent was started."""
    runtime = FakeRuntime(Simulation(1))
    answers = [cri.FilesystemUsage(fs_id=cri.FilesystemIdentifier(mountpoint=each)) for each in mountpoints]
    with patch.object(runtime, "image_fs_info", return_value=answers):
        assert images_directory(runtime) == directory


@pytest.mark.parametrize("seed", range(25))
def test_images_go_by_their_age_and_their_last_use_and_no_more_of_them_than_is_needed(
    seed: int, tmp_path: Path
) -> None:
    """Against the rules, said over the history of all listings."""
    draw = Random(seed)  # noqa: S311 - reproducible on purpose
    minimum, maximum = draw.choice([0.0, 100.0]), draw.choice([0.0, 1000.0])
    collected = Collected(tmp_path, minimum_age=minimum, maximum_age=maximum)
    clock, runtime = collected.simulation.clock, collected.runtime
    removed: list[str] = []
    remove = runtime.remove_image

    def note(spec: cri.ImageSpec) -> None:
        removed.append(spec.image)
        if draw.random() < 0.2:
            raise RefusedError("RemoveImage", "", grpc.StatusCode.FAILED_PRECONDITION, "it is in use")
        remove(spec)

    runtime.remove_image = note  # type: ignore[assignment,method-assign]
    names = [f"docker.io/library/{each}:latest" for each in "defgh"]
    seen, used = dict[str, float](), dict[str, float]()
    for _ in range(25):
        name = draw.choice(names)
        runtime.image_sizes[name] = 10 * GIB
        runtime.pull_image(cri.ImageSpec(image=name))
        collected.pods = tuple(a_pod(a_container(each, image=each)) for each in names if draw.random() < 0.3)
        now, free = clock.monotonic(), draw.choice([2, 10, 14, 50, 50])
        there = {each.id: each.repo_tags[0] for each in runtime.list_images()}
        seen = {each: seen.get(each, now) for each in there}
        in_use = {each.spec.containers[0].image for each in collected.pods} | {PAUSE}
        used = {each: used[each] for each in there if each in used}
        used |= {each: now for each, tag in there.items() if tag in in_use}
        may_go = [each for each in there if used.get(each) != now and now - seen[each] >= minimum]
        may_go.sort(key=lambda each: (used.get(each, -1.0), seen[each], each))
        old = [each for each in may_go if maximum and now - max(seen[each], used.get(each, seen[each])) > maximum]
        removed.clear()
        collected.collect(free=free, after=draw.choice([10.0, 90.0, 400.0]))
        left = {each.id for each in runtime.list_images()}
        assert removed[: len(old)] == old
        further = removed[len(old) :]
        rest = [each for each in may_go if each not in old or each in left or each in further]
        assert further == rest[: len(further)]
        freed = sum(each not in left for each in further)
        needed = -(-(20 - free) // 10) if free <= 15 else 0
        assert freed == needed or (freed < needed and len(further) == len(rest))
        seen, used = ({each: at for each, at in times.items() if each in left} for times in (seen, used))
