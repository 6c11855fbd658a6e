"""Kills the OCI runtime at random points of random calls, and conmon, while pods come and go on a real machine.

After each kill the runtime is started again, sometimes killed in the middle of that, and compared with what its client
knows: no container is lost, doubled, started twice or changed; and with the machine: no mount, namespace, address,
control group, process or directory is there that nothing accounts for.
"""

import random
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc

from protos.cri.v1 import api_pb2 as cri
from tests.chaos.oci_calls import ECHOES, HAS_VOLUME, Client, Peers
from tests.chaos.oci_model import (
    CREATED,
    EXITED,
    KINDS,
    POD_KINDS,
    RUNNING,
    Box,
    Call,
    Known,
    Pod,
    check_change,
    check_loss,
    expected_traces,
)
from tests.chaos.oci_node import OWN, Death, KilledOciNode
from tests.chaos.oci_server import CONMON, HOLDER, ROOTLESS, RUNC, SLIRP, kill_helper
from tests.chaos.oci_sessions import CutOffError
from tests.modules.runtimes.process.node import eventually

MOST_PODS: Final = 4
MOST_BOXES: Final = 3
"""In one pod."""
_POINTS: Final = {
    "run pod": 600, "create": 190, "start": 700, "exec": 220, "update": 215, "reopen": 95, "stop": 200, "remove": 850,
    "stop pod": 380, "remove pod": 2200, "remove image": 100, "want image": 190,
    "pull": 400, "exec session": 400, "attach session": 400, "port session": 400,
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
_VICTIMS: Final = ("start", "exec", "update", "reopen", "stop", "remove", "exec session", "attach session")


_PROGRAMS: Final = {
    CONMON: "crun and conmon", RUNC: "runc and conmon", ROOTLESS: "crun without root",
}  # fmt: skip
_ALL: Final = "all"
_HELPERS: Final = {HOLDER: 0.3, SLIRP: 0.6, _ALL: 0.7}
"""Without root: the share of rounds in which it dies, added up. With the holder edgecore dies, and with all everything
that keeps the namespaces."""
_ENDING: Final = ("stop", "remove", *POD_KINDS)


class Survived(NamedTuple):
    """Result of a campaign whose invariants have held."""

    kind: str
    seed: int
    kills: Counter[str]
    conmons: Counter[str]
    calls: int

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} in {kind}" for kind, count in sorted(self.kills.items()))
        return (
            f"OCI runtime with {_PROGRAMS[self.kind]}, seed {self.seed}: {self.kills.total()} kills ({kinds}) "
            f"and {self.conmons.total()} of parents of containers in {self.calls} calls: no container lost, doubled or "
            "changed, nothing left over"
        )


def run(directory: Path, seed: int, kills: int, conmons: int, *, network: bool = True, kind: str = CONMON) -> Survived:
    """Kill the runtime and conmon so many times.

    Args:
        directory: with the archive of busybox, see `tests.modules.runtimes.oci.node.node_directory`.
        seed: of calls and points.
        kills: of the runtime.
        conmons: kills of conmon.
        network: whether some pods have a network of their own, which takes the CNI plug-ins.
        kind: of the runtime, see `tests.chaos.oci_server.KINDS`.

    Raises:
        AssertionError: something was lost, doubled or left over; the message has the seed and the number of the call.
    """
    with Peers() as peers, KilledOciNode(directory, kind) as node:
        campaign = _Campaign(node, seed, peers, network=network)
        while campaign.kills.total() < kills or campaign.conmons.total() < conmons:
            wants_conmon = campaign.conmons.total() * max(kills, 1) < conmons * campaign.kills.total() or (
                campaign.kills.total() >= kills
            )
            try:
                campaign.round(on_conmon=wants_conmon)
            except Exception as error:
                raise AssertionError(f"seed {seed}, call {campaign.calls}: {campaign.call}: {error}") from error
        campaign.end()
        return Survived(kind, seed, campaign.kills, campaign.conmons, campaign.calls)


class _Campaign:
    """Calls, deaths and comparisons."""

    def __init__(self, node: KilledOciNode, seed: int, peers: Peers, *, network: bool) -> None:
        self._node = node
        self._peers = peers
        self._draw = random.Random(f"{seed} oci")  # noqa: S311 - reproducible on purpose
        self._client = Client(node, self._draw, peers, network=network)
        self.call = Call("")
        self.calls = 0
        self.kills: Counter[str] = Counter()
        self.conmons: Counter[str] = Counter()
        self._adopted: frozenset[str] = frozenset()
        """Containers that were created before the last death: they cannot be started, as their command and variables
        were in memory only."""

    def round(self, *, on_conmon: bool) -> None:
        """Make a call during which the runtime, or a conmon, may die; then look whether all is right."""
        while len(self._client.known.of(RUNNING)) < _LEAST_RUNNING:
            if not on_conmon and self._draw.random() < 0.5:
                self._with_dying_runtime(self._next_step())
                self._look_at_machine()
                return
            self._perform(self._next_step())
            self._compare(answered=True)
        helper = self._helper() if not on_conmon else ""
        victim = self._choose(_VICTIMS) if on_conmon else None
        self._begin(victim or self._choose(KINDS) or Call("run pod"))
        if victim:
            self._with_dying_conmon(victim)
        elif helper == _ALL:
            self._with_all_dead()
        elif helper == SLIRP:
            self._with_dying_network()
        else:
            self._with_dying_runtime(self.call, helper if self.call.kind not in _ENDING else "")
        self._look_at_machine()

    def _helper(self) -> str:
        """What dies besides the runtime, or in its place; empty for nothing."""
        drawn = self._draw.random() if self._node.maps_users else 1.0
        return next((name for name, limit in _HELPERS.items() if drawn < limit), "")

    def _next_step(self) -> Call:
        """The call that brings a container nearer to running."""
        call = self._choose(("start",)) or self._choose(("create",)) or self._choose(("run pod",))
        return self._begin(call or Call("remove pod", self._draw.choice(sorted(self._client.known.pods))))

    def _begin(self, call: Call) -> Call:
        self.calls += 1
        self.call = call
        return call

    def _points(self) -> int:
        return self._draw.randint(1, _POINTS[self.call.kind])

    def end(self) -> None:
        """Remove all pods."""
        for name in self._client.known.pods:
            self._perform(Call("remove pod", name))
        self._client.known = self._listed()
        assert self._client.known == Known({}, {}, self._client.known.pulled)
        self._look_at_machine()

    def _with_all_dead(self) -> None:
        """Nobody can enter the namespaces any more: their pods have ended, as after a restart of the machine."""
        self._node.kill_all()
        self.kills[_ALL] += 1
        self._node.serve()
        after = self._listed()
        check_loss(self._client.known, after)
        self._client.known, self._adopted = after, frozenset(after.of(CREATED))

    def _with_dying_network(self) -> None:
        """The call may fail then; the next look of edgecore at its network brings it back."""
        self._node.arm(Death(self._points(), victim=SLIRP))
        answered = True
        try:
            self._perform(self.call)
        except CutOffError:
            answered = False
        except grpc.RpcError as error:
            assert isinstance(error, grpc.Call)
            assert error.code() is not grpc.StatusCode.UNAVAILABLE, error.details()
            answered = False
        self._node.disarm()
        if not self._node.has_killed and not kill_helper(SLIRP, self._node.server):
            eventually(lambda: self._node.has_killed)  # the runtime is just doing it
        self.kills[SLIRP] += 1
        self._node.cri.Status(cri.StatusRequest())
        self._compare(answered=answered)

    def _with_dying_runtime(self, call: Call, helper: str = "") -> None:
        delay = self._draw.choice((0, 0, self._draw.randint(1, _LONGEST_DELAY)))
        if self._draw.random() < _HELD:
            self._node.hold(self._draw.randint(1, _POINTS_OF_START // 2))
        self._node.arm(Death(self._points(), delay, helper))
        answered = self._is_answered()
        was_killed = self._node.disarm()
        assert was_killed or answered, "the call was cut off, but the runtime was not killed"
        if was_killed:
            self._node.wait_for_end()
            assert not helper or self._node.has_killed, f"{helper} has ended by itself"
            self.kills[helper or self.call.kind] += 1
            self._start_again()
        self._node.release()
        self._compare(answered=answered)
        if was_killed:
            self._adopted = frozenset(self._client.known.of(CREATED))
        if not answered and self._draw.random() < 0.5 and self._is_possible(call):
            self._perform(call)
            self._compare(answered=True)

    def _is_answered(self) -> bool:
        try:
            self._perform(self.call)
        except CutOffError:
            return False
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
        except CutOffError:
            pass
        except grpc.RpcError as error:
            assert isinstance(error, grpc.Call)
            assert error.code() is not grpc.StatusCode.UNAVAILABLE, error.details()
        self._node.disarm()
        if self._node.has_killed:
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
        known, in_pods = self._client.known, Counter(box.pod for box in self._client.known.boxes.values())
        if kind == "run pod":
            return [""] if len(known.pods) < MOST_PODS else []
        if kind == "create":
            return sorted(name for name, pod in known.pods.items() if pod.ready and in_pods[name] < MOST_BOXES)
        if kind == "start":
            startable = (name for name in known.of(CREATED) if name not in self._adopted)
            return [name for name in startable if known.pods[known.boxes[name].pod].ready]
        if kind == "remove":
            return sorted(known.boxes)
        if kind in ("stop pod", "remove pod"):
            return sorted(known.pods) if len(known.pods) > MOST_PODS // 2 else []
        if kind == "port session":
            return sorted(name for name, pod in known.pods.items() if pod.ready)
        if kind == "pull" or kind.endswith("image"):
            return self._client.targets_of_images(kind)
        running = known.of(RUNNING)
        return [name for name in running if known.boxes[name].echoes] if kind == "attach session" else running

    def _is_possible(self, call: Call) -> bool:
        return call.kind not in ("run pod", "create") and call.target in self._targets(call.kind)

    def _perform(self, call: Call) -> None:
        self._client.perform(call, self.calls)

    # comparisons

    def _compare(self, *, answered: bool, victim: str = "") -> None:
        after = self._listed()
        check_change(self.call, self._client.known, after, answered=answered, victim=victim)
        for name, box in after.boxes.items():
            if name not in self._client.known.boxes or box.state != self._client.known.boxes[name].state:
                self._check_log(name, box)
        self._client.known = after

    def _listed(self) -> Known:
        node = self._node
        pods = {
            str(item.id): Pod(self._client.asked[item.metadata.name], item.state == cri.SANDBOX_READY)
            for item in node.cri.ListPodSandbox(cri.ListPodSandboxRequest()).items
        }
        listed = node.cri.ListContainers(cri.ListContainersRequest()).containers
        assert len({item.id for item in listed}) == len(listed), "a container is listed twice"
        boxes = {str(item.id): self._box(item) for item in listed}
        images = node.images.ListImages(cri.ListImagesRequest()).images
        names = {str(name) for image in images for name in image.repo_tags}
        self._client.has_own = OWN in names
        return Known(pods, boxes, frozenset(names & {*self._peers.images}))

    def _box(self, item: cri.Container) -> Box:
        """A container; one without its conmon is about to end."""
        status: Any = eventually(lambda: self._node.status(item.id), lambda each: self._is_settled(item.id, each))
        process = self._node.pid(item.id) if status.state == RUNNING else 0
        ended = status.SerializeToString(deterministic=True) if status.state == EXITED else b""
        return Box(
            str(item.pod_sandbox_id), status.state, process, ended, ECHOES in item.labels, HAS_VOLUME in item.labels
        )

    def _is_settled(self, name: str, status: cri.ContainerStatus) -> bool:
        return status.state != RUNNING or self._node.has_conmon(name)

    def _check_log(self, name: str, box: Box) -> None:
        """A container that was not started has printed nothing, and a running one has printed once."""

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
            wanted = expected_traces(self._client.known, found)
            return [
                f"{field}: {seen} instead of {expected}"
                for field, seen, expected in zip(found._fields, found, wanted, strict=True)
                if seen != expected
            ]

        eventually(difference, lambda differences: not differences)
