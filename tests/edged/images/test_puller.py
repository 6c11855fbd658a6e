"""Pulls: one for many waiters, a limited number in parallel, in order; no worker blocks."""

import json
from random import Random
from typing import Any

import grpc
import pytest

from beehive.simulation import Simulation
from edged.cri.contract import ImageRef
from edged.cri.errors import CriError, UnavailableError
from edged.images.keyring import Credentials
from edged.images.progress import ENTRY
from edged.images.puller import (
    FIRST_SECONDS,
    FRESH_SECONDS,
    MOST_SLOW,
    MOST_SLOW_OF_NAMESPACE,
    TURN_SECONDS,
    ImagePuller,
    PullRequest,
    PullResult,
)
from edged.node.watch import largest_images
from edged.pods.model import PodUid
from edged.settings import PullLimits
from edged.sync_events import PodHealthChanged
from modules.apimachinery.types.nodes import ContainerImage
from modules.lab.doubles.container_runtime import FakeRuntime
from protos.cri.v1 import api_pb2 as cri
from tests.edged.posted import Posted
from tests.support.failing import Failing

A, B, C = PodUid("a"), PodUid("b"), PodUid("c")
SECONDS = 10.0
RIGHT, WRONG = Credentials("u", "right"), Credentials("u", "wrong")


class Registry:
    """Pulls that take ten seconds each."""

    def __init__(self, **limits: float) -> None:
        self.simulation = Simulation(1)
        self.runtime = FakeRuntime(self.simulation)
        self.runtime.pull_seconds = SECONDS
        self.posted = Posted[PodHealthChanged]()
        made = PullLimits(**limits)  # type: ignore[arg-type]
        self.pulls = ImagePuller(self.simulation, self.runtime, made, self.posted)

    @property
    def pulled_for(self) -> list[PodUid]:
        """The pods that were queued for their images."""
        return [event.uid for event in self.posted]

    def ask(
        self, uid: PodUid, image: str = "one", *credentials: Credentials, namespace: str = "", wait: float = 0.0
    ) -> None:
        """Ask for an image, and let `wait` seconds pass."""
        sandbox = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(namespace=namespace))
        self.pulls.request(uid, PullRequest(image, credentials), sandbox)
        self.run(wait)

    def outcome(self, uid: PodUid, image: str = "one") -> PullResult:
        outcome = self.pulls.pop_result(uid, image)
        assert outcome is not None
        return outcome

    def run(self, seconds: float) -> None:
        self.simulation.run_for(seconds)

    def begun(self, after: float = 0.0) -> int:
        """How many pulls have begun after so many more seconds."""
        self.run(after)
        return self.runtime.calls["pull_image"]


def test_a_request_returns_immediately_and_its_result_is_taken_once(registry: Registry) -> None:
    registry.ask(A, wait=SECONDS / 2)
    registry.ask(A)
    assert registry.pulls.pop_result(A, "one") is None
    assert registry.pulled_for == []
    registry.run(SECONDS)
    assert registry.pulled_for == [A]
    outcome = registry.outcome(A)
    assert (outcome.reference, outcome.error, outcome.seconds) == ("sha256:one", None, SECONDS)
    assert registry.pulls.pop_result(A, "one") is None
    assert registry.begun() == 1


def test_many_waiters_share_one_pull(registry: Registry) -> None:
    for uid in (A, B, C):
        registry.ask(uid)
    assert registry.begun(after=SECONDS * 2) == 1
    assert registry.pulled_for == [A, B, C]
    assert {registry.outcome(uid).reference for uid in (A, B, C)} == {"sha256:one"}


def test_other_credentials_are_another_pull() -> None:
    """What one pod may see is not another's to take for granted."""
    registry = Registry(parallel=2)
    registry.ask(A, "one", RIGHT)
    registry.ask(B, "one", WRONG, wait=1)
    assert registry.begun() == 2


@pytest.mark.parametrize(("parallel", "begun"), [(1, 1), (2, 2), (0, 3)])
def test_so_many_run_at_once_and_the_others_follow_in_their_order(parallel: int, begun: int) -> None:
    registry = Registry(parallel=parallel)
    for uid, image in ((A, "one"), (B, "two"), (C, "three")):
        registry.ask(uid, image)
    assert registry.begun(after=1) == begun
    registry.run(SECONDS * 3)
    assert registry.pulled_for == [A, B, C] if parallel == 1 else sorted(registry.pulled_for) == [A, B, C]


def test_a_slow_registry_holds_up_nobody_elses_pulls_for_more_than_a_minute() -> None:
    """Its own wait on, and the others are still pulled one after the other."""
    registry = Registry(parallel=1)
    registry.runtime.pull_seconds = 1e6
    registry.ask(A, "slow.example/one", wait=1)
    registry.ask(A, "slow.example/two")
    registry.ask(B, "other.example/one", wait=TURN_SECONDS - 2)
    assert registry.begun() == 1
    registry.runtime.pull_seconds = SECONDS
    assert registry.begun(after=2) == 2
    registry.ask(C, "third.example/one", wait=SECONDS - 2)
    assert registry.begun() == 2
    registry.run(SECONDS + 3)
    assert registry.pulled_for == [B, C]
    assert registry.begun(after=10 * TURN_SECONDS) == 3


def test_slow_pulls_are_so_many_at_most() -> None:
    """However many registries send slowly; each pull takes memory."""
    registry = Registry(parallel=1)
    registry.runtime.pull_seconds = 1e6
    for number in range(2 * MOST_SLOW):
        registry.ask(PodUid(str(number)), f"slow{number}.example/one", namespace=str(number))
    assert registry.begun(after=3 * MOST_SLOW * TURN_SECONDS) == MOST_SLOW + 1


def test_a_namespace_takes_half_of_the_places_for_slow_pulls() -> None:
    """A registry may have any number of names: with nine of them, and a pod for each, no other image was pulled."""
    registry = Registry(parallel=1)
    registry.runtime.pull_seconds = 1e6
    for number in range(2 * MOST_SLOW):
        registry.ask(PodUid(str(number)), f"slow{number}.example/one", namespace="tenant")
    assert registry.begun(after=2 * MOST_SLOW * TURN_SECONDS) == MOST_SLOW_OF_NAMESPACE
    registry.runtime.pull_seconds = SECONDS
    registry.ask(A, "right.example/one", namespace="other", wait=SECONDS + 1)
    assert registry.pulled_for == [A]


@pytest.mark.parametrize("parallel", [1, 2])
def test_namespaces_take_turns(parallel: int) -> None:
    """A tenant that asks for a thousand images holds up the others for one pull."""
    registry = Registry(parallel=parallel)
    for number in range(20):
        registry.ask(PodUid(str(number)), f"image-{number}", namespace="tenant")
    registry.run(1)
    registry.ask(A, "one", namespace="other")
    registry.ask(B, "two", namespace="third", wait=3 * SECONDS)
    assert {A, B} <= set(registry.pulled_for)
    registry.run(30 * SECONDS)
    assert len(registry.pulled_for) == 22 and registry.pulls._turns == {}


def test_the_oldest_running_pull_is_the_first_that_holds_up_no_others() -> None:
    registry = Registry(parallel=2)
    registry.runtime.pull_seconds = 1e6
    for number, seconds in enumerate((TURN_SECONDS / 2, 1.0, TURN_SECONDS / 2 - 2.0)):
        registry.ask(PodUid(str(number)), f"registry{number}.example/one", namespace=str(number), wait=seconds)
    assert registry.begun() == 2
    assert registry.begun(after=2.0) == 3


def test_a_wall_clock_that_is_set_makes_no_pull_a_slow_one() -> None:
    registry = Registry(parallel=1)
    registry.ask(A, "one.example/one", wait=1.0)
    registry.simulation.clock.jump_wall(2 * TURN_SECONDS)
    registry.ask(B, "two.example/one", wait=1.0)
    assert registry.begun() == 1


def test_a_result_has_the_time_that_the_pull_took_without_its_time_in_the_queue(registry: Registry) -> None:
    registry.runtime.locked["two"] = RIGHT
    registry.run(100.0)
    registry.simulation.clock.jump_wall(-3600)
    registry.ask(A, "one")
    registry.ask(A, "two", WRONG, wait=3 * SECONDS)
    results = [registry.outcome(A, image) for image in ("one", "two")]
    assert [result.error is None for result in results] == [True, False]
    assert [result.seconds for result in results] == [SECONDS, SECONDS]


@pytest.mark.parametrize(("rate", "burst", "waits"), [(4.0, 1, (0.2, 0.2, 0.2)), (0.5, 2, (0.5, 2.0, 2.0))])
def test_no_more_begin_than_the_rate_allows(rate: float, burst: int, waits: tuple[float, ...]) -> None:
    registry = Registry(parallel=0, rate=rate, burst=burst)
    for number in range(4):
        registry.ask(PodUid(str(number)), f"image-{number}")
    assert [registry.begun(after=each) - burst for each in waits] == [0, 1, 2]


def test_pulls_that_no_thread_can_be_had_for_fail_and_keep_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(parallel=1)
    registry.ask(A)
    registry.ask(B, "two")
    registry.ask(C, "three")
    call = Failing(0, RuntimeError("can't start new thread")).call(registry.simulation.call)
    monkeypatch.setattr(registry.simulation, "call", call)
    registry.run(SECONDS * 3)
    assert [registry.outcome(uid, image).error is None for uid, image in ((A, "one"), (B, "two"), (C, "three"))] == [
        True, False, True
    ]  # fmt: skip
    assert registry.pulled_for == [A, B, C]


def test_credentials_are_tried_until_one_is_taken(registry: Registry) -> None:
    registry.runtime.locked["one"] = RIGHT
    registry.ask(A, "one", WRONG, RIGHT, wait=SECONDS * 3)
    assert registry.outcome(A).error is None


def test_a_refusal_is_everybodys(registry: Registry) -> None:
    registry.runtime.locked["one"] = RIGHT
    registry.ask(A, "one", WRONG)
    registry.ask(B, "one", WRONG, wait=SECONDS * 2)
    for uid in (A, B):
        error = registry.outcome(uid).error
        assert isinstance(error, CriError)
        assert "wrong" not in str(error)


@pytest.mark.parametrize(
    "error", [UnavailableError("PullImage", "", grpc.StatusCode.UNAVAILABLE, "no network"), ValueError("a bug")]
)
def test_a_failure_does_not_keep_the_next_from_being_pulled(registry: Registry, error: Any) -> None:
    registry.runtime.fail("pull_image", error)
    registry.ask(A, "one")
    registry.ask(B, "two", wait=SECONDS * 3)
    assert registry.pulled_for == [A, B]
    assert registry.outcome(A, "one").error is not None
    assert registry.outcome(B, "two").error is None


def test_a_waiting_pull_that_no_pod_needs_is_not_started(registry: Registry) -> None:
    registry.ask(A, "one")
    registry.ask(B, "two")
    registry.ask(C, "three")
    registry.pulls.remove_pod(B)
    assert registry.begun(after=SECONDS * 4) == 2
    assert registry.pulled_for == [A, C]


def test_an_outcome_that_nobody_took_is_not_believed_later(registry: Registry) -> None:
    registry.ask(A, wait=SECONDS + FRESH_SECONDS + 5)
    assert registry.pulls.pop_result(A, "one") is None
    for image in ("two", "three"):
        registry.ask(B, image, wait=SECONDS + FRESH_SECONDS + 5)
    assert len(registry.pulls._results) == 1, "nothing piles up"


def test_nothing_begins_after_the_end(registry: Registry) -> None:
    registry.ask(A, "one")
    registry.ask(B, "two", wait=1)
    registry.pulls.close()
    registry.run(SECONDS * 3)
    registry.ask(C, "three", wait=1)
    assert registry.begun() == 1


def test_the_runtime_is_asked_how_far_a_long_pull_is_until_its_end(registry: Registry) -> None:
    """Seldom, but never less often than every ten minutes."""
    registry.runtime.pull_seconds = 3600
    registry.ask(A, wait=3500)
    asked = registry.runtime.calls["status"]
    assert asked == 9, "after 30 s, then after twice as long each time, and every 600 s"
    registry.run(3600)
    assert registry.runtime.calls["status"] == asked


LAYERS = [["sha256:0123456789abcdef", 1000, 400, 100]]


def test_pods_learn_how_far_a_long_pull_is(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their syncs begin with each answer, and get it when they ask for the image again."""

    def status(_: FakeRuntime, *, verbose: bool = False) -> cri.StatusResponse:
        return cri.StatusResponse(info={ENTRY: json.dumps({"one": LAYERS})} if verbose else {})

    monkeypatch.setattr(FakeRuntime, "status", status)
    registry.runtime.pull_seconds = 100.0
    sandbox = cri.PodSandboxConfig()
    assert registry.pulls.request(A, PullRequest("one"), sandbox) is None
    assert registry.pulls.request(B, PullRequest("one"), sandbox) is None
    registry.run(FIRST_SECONDS + 1)
    assert registry.pulled_for == [A, B]
    progress = registry.pulls.request(A, PullRequest("one"), sandbox)
    assert progress is not None
    assert (progress.size, progress.fetched, progress.unpacked) == (1000, 400, 100)
    registry.run(2 * FIRST_SECONDS)
    assert registry.pulled_for == [A, B] * 2
    registry.run(200.0)
    assert registry.pulled_for == [A, B] * 3, "the last ones take the result"


def test_an_answer_about_a_pull_that_has_ended_is_dropped(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    def status(_: FakeRuntime, *, verbose: bool = False) -> cri.StatusResponse:
        assert verbose
        answered = registry.simulation.future()
        registry.simulation.clock.after(5.0, answered.set)
        answered.get()
        return cri.StatusResponse(info={ENTRY: json.dumps({"one": LAYERS})})

    monkeypatch.setattr(FakeRuntime, "status", status)
    registry.runtime.pull_seconds = FIRST_SECONDS + 1.0
    registry.ask(A, wait=1000.0)
    assert registry.pulled_for == [A]


class DrawnRegistry(FakeRuntime):
    """Pulls take as long as is drawn, and some fail; it watches how many run."""

    def __init__(self, simulation: Simulation, draw: Random) -> None:
        super().__init__(simulation)
        self._simulation, self._draw = simulation, draw
        self.under_way: list[tuple[str, float]] = []
        """Their registries, and when they began."""
        self.most, self.most_young, self.most_of_one, self.questions = 0, 0, 0, 0

    def status(self, *, verbose: bool = False) -> cri.StatusResponse:
        """See `ContainerRuntime`."""
        self.questions += 1
        raise UnavailableError("Status", "", grpc.StatusCode.UNAVAILABLE, f"away, {verbose}")

    def pull_image(self, image: cri.ImageSpec, auth: object = None, sandbox_config: object = None) -> ImageRef:
        """See `ContainerRuntime`."""
        now, registry = self._simulation.clock.monotonic(), image.image.partition("/")[0]
        self.under_way.append(mine := (registry, now))
        young = [name for name, began in self.under_way if now - began < TURN_SECONDS]
        self.most, self.most_young = max(self.most, len(self.under_way)), max(self.most_young, len(young))
        self.most_of_one = max(self.most_of_one, sum(name == registry for name, _ in self.under_way))
        over, seconds, asked = self._simulation.future(), self._draw.choice([0, 1, 10, 200, 2000]), self.questions
        self._simulation.clock.after(seconds, over.set)
        over.get()
        assert seconds < 2000 or self.questions >= asked + 6, "it is asked again how far the pull is"
        self.under_way.remove(mine)
        if self._draw.random() < 0.3:
            raise UnavailableError("PullImage", "", grpc.StatusCode.UNAVAILABLE, "away")
        return ImageRef(f"sha256:{image.image}")


@pytest.mark.parametrize("seed", range(25))
def test_each_pod_gets_the_result_that_it_waits_for_and_a_removed_one_none(seed: int) -> None:
    draw, simulation = Random(seed), Simulation(seed)  # noqa: S311 - reproducible on purpose
    parallel = draw.choice([1, 2, 0])
    runtime, posted = DrawnRegistry(simulation, draw), Posted[PodHealthChanged]()
    pulls = ImagePuller(simulation, runtime, PullLimits(parallel=parallel, rate=0.5, burst=2), posted)
    waits: set[tuple[PodUid, str]] = set()

    def take() -> None:
        for uid in {event.uid for event in posted}:
            for key in [each for each in waits if each[0] == uid]:
                if (result := pulls.pop_result(*key)) is not None:
                    assert result.error is not None or result.reference == f"sha256:{key[1]}"
                    waits.discard(key)
        posted.clear()

    for _ in range(80):
        uid, image = PodUid(draw.choice("abcd")), f"{draw.choice('xy')}.example/{draw.choice('123')}"
        if draw.random() < 0.2:
            pulls.remove_pod(uid)
            waits = {each for each in waits if each[0] != uid}
            assert uid not in {each for each, _ in pulls._results}
        elif (uid, image) not in waits:
            assert pulls.pop_result(uid, image) is None, "of an earlier request, or of a pod that was removed"
            pulls.request(uid, PullRequest(image), cri.PodSandboxConfig())
            waits.add((uid, image))
        simulation.run_for(seconds := draw.choice([0, 1, 5, 30]))
        if seconds == 30 or draw.random() < 0.7:
            take()
    for _ in range(2000):
        simulation.run_for(30)
        take()
        if not waits:
            break
    assert not waits
    simulation.run_for(3000)
    assert not (pulls._known or pulls._waiting or pulls._running or pulls._turns or runtime.under_way)
    if parallel:
        assert max(runtime.most_young, runtime.most_of_one) <= parallel
        assert runtime.most <= parallel + MOST_SLOW


def test_the_node_names_its_largest_images() -> None:
    images = [
        cri.Image(id="1", repo_tags=["small:1"], size=1),
        cri.Image(id="2", repo_tags=["big:1"], repo_digests=["big@sha256:x"], size=9),
        cri.Image(id="3", size=99),
        cri.Image(id="4", repo_tags=[f"many:{n}" for n in range(9)], size=5),
    ]
    assert largest_images(images, 2) == (
        ContainerImage(names=("big@sha256:x", "big:1"), size_bytes=9),
        ContainerImage(names=tuple(f"many:{n}" for n in range(5)), size_bytes=5),
    )
    assert len(largest_images(images, -1)) == 3
    assert largest_images(images, 0) == ()
    alike = [cri.Image(id=name, repo_tags=[name], size=1) for name in "ba"]
    assert largest_images(alike, -1) == largest_images(alike[::-1], -1), "the order of the runtime does not matter"


@pytest.fixture
def registry() -> Registry:
    return Registry()
