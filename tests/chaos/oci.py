"""Kills the OCI runtime at random points of random calls, and conmon, while pods come and go on a real machine.

After each kill the runtime is started again, sometimes killed in the middle of that, and compared with what its client
knows: no container is lost, doubled, started twice or changed; and with the machine: no mount, namespace, address,
control group, process or directory is there that nothing accounts for.
"""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc

from protos.cri.v1 import api_pb2 as cri
from tests.chaos.oci_model import (
    CREATED,
    EXITED,
    KINDS,
    RUNNING,
    Box,
    Call,
    Known,
    Pod,
    check_change,
    expected_traces,
)
from tests.chaos.oci_node import OWN, Death, KilledOciNode
from tests.edged.embedded.node import eventually

MOST_PODS: Final = 4
MOST_BOXES: Final = 3
"""In one pod."""
_SCRIPT: Final = "echo run; exec sleep 100000"
_POINTS: Final = {
    "run pod": 600, "create": 190, "start": 700, "exec": 220, "update": 215, "reopen": 95, "stop": 200, "remove": 850,
    "stop pod": 380, "remove pod": 2200, "remove image": 100, "want image": 190,
}  # fmt: skip
"""Points of each call, about, so that any moment of it is as likely as another."""
_WEIGHTS: Final = {"start": 3.0, "run pod": 2.0, "remove pod": 2.0, "remove image": 0.3, "want image": 0.3}
"""How often a call is made, beside those with 1."""
_POINTS_OF_START: Final = 4000
_HELD: Final = 0.2
"""Share of calls whose programs are still at work when the runtime is started again."""
_LEAST_RUNNING: Final = 2
_LONGEST_DELAY: Final = 20_000
"""Microseconds: crun takes some thousands."""
_VICTIMS: Final = ("start", "exec", "update", "reopen", "stop", "remove")


class Survived(NamedTuple):
    """Result of a campaign whose invariants have held."""

    seed: int
    kills: Counter[str]
    conmons: Counter[str]
    calls: int

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} in {kind}" for kind, count in sorted(self.kills.items()))
        return (
            f"OCI runtime, seed {self.seed}: {self.kills.total()} kills ({kinds}) and {self.conmons.total()} of conmon "
            f"in {self.calls} calls: no container lost, doubled or changed, nothing left over"
        )


def run(directory: Path, seed: int, kills: int, conmons: int, *, network: bool = True) -> Survived:
    """Kill the runtime and conmon so many times.

    Args:
        directory: with the archive of busybox, see `tests.edged.oci.node.node_directory`.
        seed: of calls and points.
        kills: of the runtime.
        conmons: kills of conmon.
        network: whether some pods have a network of their own, which takes the CNI plug-ins.

    Raises:
        AssertionError: something was lost, doubled or left over; the message has the seed and the number of the call.
    """
    with KilledOciNode(directory) as node:
        campaign = _Campaign(node, seed, network=network)
        while campaign.kills.total() < kills or campaign.conmons.total() < conmons:
            wants_conmon = campaign.conmons.total() * max(kills, 1) < conmons * campaign.kills.total() or (
                campaign.kills.total() >= kills
            )
            try:
                campaign.round(on_conmon=wants_conmon)
            except Exception as error:
                raise AssertionError(f"seed {seed}, call {campaign.calls}: {campaign.call}: {error}") from error
        campaign.end()
        return Survived(seed, campaign.kills, campaign.conmons, campaign.calls)


class _Campaign:
    """The client of the runtime."""

    def __init__(self, node: KilledOciNode, seed: int, *, network: bool) -> None:
        self._node = node
        self._draw = random.Random(f"{seed} oci")  # noqa: S311 - reproducible on purpose
        self._network = network
        self._known = Known({}, {})
        self._names: dict[str, Pod] = {}
        """What was asked for, by the name of the pod."""
        self._has_own = False
        self.call = Call("")
        self.calls = 0
        self.kills: Counter[str] = Counter()
        self.conmons: Counter[str] = Counter()

    def round(self, *, on_conmon: bool) -> None:
        """Make a call during which the runtime, or a conmon, may die; then look whether all is right."""
        while len(self._known.of(RUNNING)) < _LEAST_RUNNING:
            if not on_conmon and self._draw.random() < 0.5:
                self._with_dying_runtime(self._next_step())
                self._look_at_machine()
                return
            self._perform(self._next_step())
            self._compare(answered=True)
        victim = self._choose(_VICTIMS) if on_conmon else None
        self._begin(victim or self._choose(KINDS) or Call("run pod"))
        if victim:
            self._with_dying_conmon(victim)
        else:
            self._with_dying_runtime(self.call)
        self._look_at_machine()

    def _next_step(self) -> Call:
        """The call that brings a container nearer to running."""
        call = self._choose(("start",)) or self._choose(("create",)) or self._choose(("run pod",))
        return self._begin(call or Call("remove pod", self._draw.choice(sorted(self._known.pods))))

    def _begin(self, call: Call) -> Call:
        self.calls += 1
        self.call = call
        return call

    def _points(self) -> int:
        return self._draw.randint(1, _POINTS[self.call.kind])

    def end(self) -> None:
        """Remove all pods."""
        for name in self._known.pods:
            self._perform(Call("remove pod", name))
        self._known = self._listed()
        assert self._known == Known({}, {})
        self._look_at_machine()

    def _with_dying_runtime(self, call: Call) -> None:
        delay = self._draw.choice((0, 0, self._draw.randint(1, _LONGEST_DELAY)))
        if self._draw.random() < _HELD:
            self._node.hold(self._draw.randint(1, _POINTS_OF_START // 2))
        self._node.arm(Death(self._points(), delay))
        answered = self._is_answered()
        if self._node.disarm() or not answered:
            self._node.wait_for_end()
            self.kills[self.call.kind] += 1
            self._start_again()
        self._node.release()
        self._compare(answered=answered)
        if not answered and self._draw.random() < 0.5 and self._is_possible(call):
            self._perform(call)
            self._compare(answered=True)

    def _is_answered(self) -> bool:
        try:
            self._perform(self.call)
        except grpc.RpcError as error:
            assert isinstance(error, grpc.Call)
            assert error.code() is grpc.StatusCode.UNAVAILABLE, error.details()
            return False
        return True

    def _start_again(self) -> None:
        while self._draw.random() < 0.2:
            if self._node.serve(Death(self._draw.randint(1, _POINTS_OF_START))):
                return
            self.kills["start-up"] += 1
        self._node.serve()

    def _with_dying_conmon(self, call: Call) -> None:
        """The call may fail then, and the container ends."""
        self._node.arm(Death(self._points(), victim=call.target))
        try:
            self._perform(call)
        except grpc.RpcError as error:
            assert isinstance(error, grpc.Call)
            assert error.code() is not grpc.StatusCode.UNAVAILABLE, error.details()
        self._node.disarm()
        if self._node.has_killed_conmon:
            self.conmons[call.kind] += 1
            eventually(lambda: self._node.states().get(call.target) != RUNNING)
        self._compare(answered=True, victim=call.target)

    # calls

    def _choose(self, kinds: tuple[str, ...]) -> Call | None:
        """A call that is possible now."""
        for kind in sorted(kinds, key=lambda each: self._draw.random() ** (1 / _WEIGHTS.get(each, 1.0)), reverse=True):
            targets = self._targets(kind)
            if targets:
                return Call(kind, self._draw.choice(targets))
        return None

    def _targets(self, kind: str) -> list[str]:
        known, in_pods = self._known, Counter(box.pod for box in self._known.boxes.values())
        if kind == "run pod":
            return [""] if len(known.pods) < MOST_PODS else []
        if kind == "create":
            return sorted(name for name, pod in known.pods.items() if pod.ready and in_pods[name] < MOST_BOXES)
        if kind == "start":
            return [name for name in known.of(CREATED) if known.pods[known.boxes[name].pod].ready]
        if kind == "remove":
            return sorted(known.boxes)
        if kind in ("stop pod", "remove pod"):
            return sorted(known.pods) if len(known.pods) > MOST_PODS // 2 else []
        return [""] if kind.endswith("image") else known.of(RUNNING)

    def _is_possible(self, call: Call) -> bool:
        return call.kind not in ("run pod", "create") and call.target in self._targets(call.kind)

    def _perform(self, call: Call) -> None:
        performers: dict[str, Callable[[str], object]] = {
            "run pod": lambda _: self._run_pod(),
            "create": self._create,
            "start": self._node.start,
            "exec": lambda target: self._node.execute(target, "sleep", self._draw.choice(("0", "0.02"))),
            "update": self._update,
            "reopen": self._reopen,
            "stop": lambda target: self._node.stop(target, 0),
            "remove": lambda target: self._node.cri.RemoveContainer(cri.RemoveContainerRequest(container_id=target)),
            "stop pod": lambda target: self._node.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=target)),
            "remove pod": lambda target: self._node.cri.RemovePodSandbox(
                cri.RemovePodSandboxRequest(pod_sandbox_id=target)
            ),
            "remove image": lambda _: self._node.images.RemoveImage(cri.RemoveImageRequest(image=_OWN)),
            "want image": lambda _: self._node.images.ImageStatus(cri.ImageStatusRequest(image=_OWN)),
        }
        performers[call.kind](call.target)

    def _run_pod(self) -> None:
        name = f"pod-{self.calls}"
        pod = Pod(self._network and self._draw.random() < 0.5, self._draw.random() < 0.3, ready=True)
        self._names[name] = pod
        self._node.own_network = pod.own_network
        self._node.pod(name)

    def _create(self, target: str) -> None:
        pod = self._known.pods[target]
        self._node.own_network, self._node.shares_processes = pod.own_network, pod.shares_processes
        name = f"box-{self.calls}"
        config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name=name), log_path=f"{name}.log")
        if self._has_own and self._draw.random() < 0.3:
            config.image.CopyFrom(_OWN)
        self._node.create(["sh", "-c", _SCRIPT], config, target)

    def _update(self, target: str) -> None:
        request = cri.UpdateContainerResourcesRequest(container_id=target)
        request.linux.cpu_shares = self._draw.randint(2, 2000)
        self._node.cri.UpdateContainerResources(request)

    def _reopen(self, target: str) -> None:
        log = Path(self._node.status(target).log_path)
        if log.exists():  # it is not there if an earlier attempt was cut off
            log.rename(log.with_name(f"{log.name}.{self.calls}"))
        self._node.cri.ReopenContainerLog(cri.ReopenContainerLogRequest(container_id=target))

    # comparisons

    def _compare(self, *, answered: bool, victim: str = "") -> None:
        after = self._listed()
        check_change(self.call, self._known, after, answered=answered, victim=victim)
        for name, box in after.boxes.items():
            if name not in self._known.boxes or box.state != self._known.boxes[name].state:
                self._check_log(name, box)
        self._known = after

    def _listed(self) -> Known:
        node = self._node
        pods = {
            str(item.id): self._names[item.metadata.name]._replace(ready=item.state == cri.SANDBOX_READY)
            for item in node.cri.ListPodSandbox(cri.ListPodSandboxRequest()).items
        }
        listed = node.cri.ListContainers(cri.ListContainersRequest()).containers
        assert len({item.id for item in listed}) == len(listed), "a container is listed twice"
        boxes = {str(item.id): self._box(item) for item in listed}
        images = node.images.ListImages(cri.ListImagesRequest()).images
        self._has_own = any(OWN in image.repo_tags for image in images)
        return Known(pods, boxes)

    def _box(self, item: cri.Container) -> Box:
        """A container; one without its conmon is about to end."""
        status: Any = eventually(lambda: self._node.status(item.id), lambda each: self._is_settled(item.id, each))
        process = self._node.pid(item.id) if status.state == RUNNING else 0
        ended = status.SerializeToString(deterministic=True) if status.state == EXITED else b""
        return Box(str(item.pod_sandbox_id), status.state, process, ended)

    def _is_settled(self, name: str, status: cri.ContainerStatus) -> bool:
        return status.state != RUNNING or self._node.has_conmon(name)

    def _check_log(self, name: str, box: Box) -> None:
        """A container that was not started has printed nothing, and one that runs has done so once."""

        def lines() -> int:
            log = Path(self._node.status(name).log_path)
            return sum(path.read_text().count(" F run\n") for path in log.parent.glob(f"{log.name}*"))

        if box.state == RUNNING:
            eventually(lambda: lines() == 1)
        else:
            assert lines() <= (box.state == EXITED), f"container {name} was started {lines()} times"

    def _look_at_machine(self) -> None:
        """Assert, as soon as what was cut off has ended by itself, that nothing is left over."""

        def difference() -> list[str]:
            found = self._node.traces()
            wanted = expected_traces(self._known, found)
            return [
                f"{field}: {seen} instead of {expected}"
                for field, seen, expected in zip(found._fields, found, wanted, strict=True)
                if seen != expected
            ]

        eventually(difference, lambda differences: not differences)


_OWN: Final = cri.ImageSpec(image=OWN)
