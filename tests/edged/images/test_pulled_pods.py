"""Pods whose images have to be pulled: edged alone on the bus, in virtual time."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from edged.cri.errors import UnavailableError
from edged.settings import PullLimits
from modules.lab.doubles.container_runtime import FakeRuntime
from modules.lab.doubles.container_runtime.core import call
from protos.cri.v1 import api_pb2 as cri
from tests.edged.conftest import Bench, pod

LOCKED = "locked.example/app:1"
UNAVAILABLE = UnavailableError("PullImage", "", grpc.StatusCode.UNAVAILABLE, "no network")


def on(image: str, name: str = "main") -> dict[str, Any]:
    return {"name": name, "image": image}


def waiting(bench: Bench, name: str = "web") -> dict[str, Any]:
    state: dict[str, Any] = bench.meta.statuses(name)[-1]["containerStatuses"][0]["state"]
    found: dict[str, Any] = state.get("waiting", {})
    return found


def keep_secret(bench: Bench, password: str) -> None:
    """In the store: what opens the registry, or does not."""
    auths = {"auths": {"locked.example": {"username": "me", "password": password}}}
    data = {".dockerconfigjson": base64.b64encode(json.dumps(auths).encode()).decode()}
    bench.meta.objects["default/secret/pull"] = {
        "kind": "Secret",
        "metadata": {"name": "pull", "namespace": "default"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": data,
    }


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[Bench]:
    """A node that pulls any number of images in parallel, but has one worker."""
    bench = Bench(tmp_path, workers=1, pulls=PullLimits(parallel=0, rate=0))
    yield bench
    bench.stop()


def test_a_pull_keeps_no_worker(wide: Bench) -> None:
    """Minutes of it do not hold up the other pods; the status says what is waited for."""
    wide.runtime.pull_seconds = 300.0
    wide.start(pod("slow", containers=[on("large:1", "slow")]), pod("web"))
    assert wide.runtime.running() == ["main"]
    wide.run(5)
    assert waiting(wide, "slow") == {"reason": "ContainerCreating", "message": 'Pulling image "large:1"'}
    wide.run(300)
    assert wide.runtime.running() == ["main", "slow"]
    assert wide.runtime.calls["pull_image"] == 1


def test_a_pod_that_goes_does_not_wait_for_its_image(wide: Bench) -> None:
    wide.runtime.pull_seconds = 300.0
    wide.start(pod(containers=[on("large:1")]))
    wide.tell("delete", pod(containers=[on("large:1")]), wait=2)
    assert wide.runtime.sandboxes == {}
    wide.run(400)
    assert wide.runtime.containers == {}


def test_the_pods_secret_opens_the_registry(bench: Bench) -> None:
    bench.runtime.locked[LOCKED] = ("me", "open sesame")
    keep_secret(bench, "open sesame")
    bench.start(pod(containers=[on(LOCKED)], imagePullSecrets=[{"name": "pull"}]), wait=1)
    assert bench.running() == ["main"]


def test_a_wrong_one_is_reported_with_the_cause_and_mended_by_the_right_one(bench: Bench) -> None:
    bench.runtime.locked[LOCKED] = ("me", "open sesame")
    keep_secret(bench, "hunter2")
    bench.start(pod(containers=[on(LOCKED)], imagePullSecrets=[{"name": "pull"}]))
    assert waiting(bench)["reason"] == "ErrImagePull"
    bench.run(4)
    assert waiting(bench)["reason"] == "ImagePullBackOff"
    assert "authorization failed" in waiting(bench)["message"]
    keep_secret(bench, "open sesame")
    assert bench.running(after=10) == ["main"]
    told = f"{bench.meta.events} {bench.meta.patches}"
    assert "hunter2" not in told
    assert "open sesame" not in told
    reasons = [reason for reason, _ in bench.meta.told("web")]
    assert [r for r in ("Pulling", "Failed", "BackOff", "Pulled", "Started") if r not in reasons] == []


def test_a_second_container_is_pulled_for_when_the_first_has_started(bench: Bench) -> None:
    bench.runtime.pull_seconds = 5.0
    bench.start(pod(containers=[on("one:1", "one"), on("two:1", "two")]), wait=6)
    assert bench.running() == ["one"]
    assert bench.running(after=6) == ["one", "two"]


def test_a_failed_pull_of_one_container_does_not_keep_the_other_from_starting(bench: Bench) -> None:
    bench.start()
    bench.runtime.fail("pull_image", UNAVAILABLE)
    bench.tell("insert", pod(containers=[on("one:1", "one"), on("two:1", "two")]), wait=2)
    assert bench.running() == ["two"]
    assert bench.running(after=15) == ["one", "two"]


@pytest.mark.parametrize("how", ["cannot be had", "is long in coming"])
def test_a_container_that_keeps_ending_does_not_wait_for_anothers_image(bench: Bench, how: str) -> None:
    """It has a back-off of its own, which is over long before the image's."""
    if how == "cannot be had":
        bench.runtime.fail("pull_image", UNAVAILABLE, times=100)
    bench.runtime.pull_seconds = 0.0 if how == "cannot be had" else 2000.0
    bench.start(pod(containers=[on("busybox:1.36", "one"), on("two:1", "two")]), wait=620)
    for back_off in (0, 10, 20):
        bench.exit("one", 1, wait=back_off + 2)
        assert bench.running() == ["one"]


def test_pulls_do_not_follow_the_back_off_of_containers(tmp_path: Path) -> None:
    """`crashLoopBackOff` is for containers: a registry that is away is asked after 10, 20, 40 s all the same."""
    bench = Bench(tmp_path, crash_loop_limit=1.0)
    bench.runtime.fail("pull_image", UNAVAILABLE, times=100)
    bench.start(pod(containers=[on("two:1")]), wait=60)
    assert bench.runtime.calls["pull_image"] == 3
    bench.stop()


class EndsMeanwhile(FakeRuntime):
    """A container of it ends while a worker asks for an image."""

    ends = ""

    @call
    def image_status(self, image: cri.ImageSpec) -> cri.Image | None:
        """See the contract."""
        if name := EndsMeanwhile.ends:
            EndsMeanwhile.ends = ""
            self.end(name, 1)
        return super().image_status(image)


def test_a_container_that_ends_in_anothers_failed_turn_is_started_again_soon(tmp_path: Path) -> None:
    """The worker has looked at it before, and its end is not reported again."""
    bench = Bench(tmp_path, kind=EndsMeanwhile)
    bench.runtime.fail("pull_image", UNAVAILABLE, times=100)
    bench.start()
    containers = [on("busybox:1.36", "one"), on("two:1", "two")]
    bench.tell("insert", pod(containers=containers), wait=620)
    EndsMeanwhile.ends = "one"
    bench.tell("update", pod(containers=containers, metadata={"labels": {"a": "turn"}}), wait=2)
    assert EndsMeanwhile.ends == ""
    assert bench.running() == ["one"]
    bench.stop()


def test_the_node_names_its_images(bench: Bench) -> None:
    bench.start(wait=1)
    assert bench.meta.cloud["null/node/n1"]["status"]["images"] == [{"names": ["docker.io/library/busybox:1.36"]}]
