"""What a client knows of a node whose runtime is killed, and what may be there after a call."""

from typing import Final, NamedTuple

from protos.cri.v1 import api_pb2 as cri
from tests.chaos.oci_node import Shape, Traces

CREATED: Final[int] = cri.CONTAINER_CREATED
RUNNING: Final[int] = cri.CONTAINER_RUNNING
EXITED: Final[int] = cri.CONTAINER_EXITED
GONE: Final = -1

POD_KINDS: Final = ("stop pod", "remove pod")
KINDS: Final = (
    "run pod", "create", "start", "exec", "update", "reopen", "stop", "remove", *POD_KINDS, "remove image",
    "want image", "pull", "exec session", "attach session", "port session",
)  # fmt: skip


class Call(NamedTuple):
    """A call: its kind, and the pod, container or image that it is about."""

    kind: str
    target: str = ""


class Pod(NamedTuple):
    """A sandbox."""

    shape: Shape
    ready: bool


class Box(NamedTuple):
    """A container: its sandbox and state; the process while it runs, the status when it has ended."""

    pod: str
    state: int
    process: int = 0
    ended: bytes = b""
    echoes: bool = False
    """Whether its first process echoes its input."""
    has_volume: bool = False
    """Whether an image is mounted in it."""


class Known(NamedTuple):
    """Sandboxes and containers by id, and the names of the images that were pulled."""

    pods: dict[str, Pod]
    boxes: dict[str, Box]
    pulled: frozenset[str] = frozenset()

    def of(self, state: int) -> list[str]:
        """The containers in a state, in order."""
        return sorted(name for name, box in self.boxes.items() if box.state == state)


def states_after(call: Call, name: str, box: Box) -> tuple[set[int], set[int]]:
    """The possible states of a container after an answered call, and after an interrupted one."""
    meant = {box.state}
    whole_pod = call.target == box.pod
    if call.target == name and call.kind == "start":
        meant = {RUNNING}
    elif (call.target == name and call.kind == "stop") or (whole_pod and call.kind == "stop pod"):
        meant = {EXITED if box.state == RUNNING else box.state}
    elif (call.target == name and call.kind == "remove") or (whole_pod and call.kind == "remove pod"):
        return {GONE}, {GONE, box.state, EXITED if box.state == RUNNING else box.state}
    return meant, meant | {box.state}


def check_change(call: Call, before: Known, after: Known, *, answered: bool, victim: str = "") -> None:
    """Assert that a call has changed what it may.

    Args:
        call: the call.
        before: what was there.
        after: what is there.
        answered: whether the runtime lived to the end of it.
        victim: the container whose conmon was killed meanwhile.
    """
    new_pods, new_boxes = after.pods.keys() - before.pods.keys(), after.boxes.keys() - before.boxes.keys()
    assert len(new_pods) <= (call.kind == "run pod"), f"{len(new_pods)} new sandboxes"
    assert len(new_boxes) <= (call.kind == "create"), f"{len(new_boxes)} new containers"
    assert all(after.boxes[name].state == CREATED for name in new_boxes), "a new container is not just created"
    _check_images(call, before.pulled, after.pulled, answered=answered)
    for name, pod in before.pods.items():
        now = after.pods.get(name)
        if call.target == name and call.kind in POD_KINDS:
            assert not answered or now is None or not now.ready, f"sandbox {name} is still ready"
            assert not answered or now is None or call.kind != "remove pod", f"sandbox {name} is still there"
        else:
            assert now is not None, f"sandbox {name} is lost"
            assert now.ready == pod.ready, f"sandbox {name} was {pod.ready}"
    for name, box in before.boxes.items():
        meant, possible = states_after(call, name, box)
        if name == victim:
            meant = possible | {EXITED}
        now_box = after.boxes.get(name)
        state = GONE if now_box is None else now_box.state
        assert state in (meant if answered else possible), f"container {name} was {box}, and is {now_box}"
        if now_box is not None and state == box.state == RUNNING:
            assert now_box.process == box.process, f"container {name} has another process"
        if now_box is not None and box.state == EXITED and GONE not in possible:
            assert now_box.ended == box.ended, f"container {name} has ended twice"


def check_loss(before: Known, after: Known) -> None:
    """Assert that all sandboxes and containers have ended, and are still there."""
    assert after.pods.keys() == before.pods.keys(), "a sandbox is lost, or new"
    assert not any(pod.ready for pod in after.pods.values()), "a sandbox is ready in lost namespaces"
    assert after.boxes.keys() == before.boxes.keys(), "a container is lost, or new"
    assert not after.of(RUNNING), "a container runs in lost namespaces"
    assert after.pulled == before.pulled, "an image is lost, or new"
    for name, box in before.boxes.items():
        if box.state == EXITED:
            assert after.boxes[name].ended == box.ended, f"container {name} has ended twice"


def _check_images(call: Call, before: frozenset[str], after: frozenset[str], *, answered: bool) -> None:
    """Assert that a pull has added its image, a removal has removed it, and that all others are as they were."""
    meant = before
    if call.kind == "pull":
        meant = before | {call.target}
    elif call.kind == "remove image":
        meant = before - {call.target}
    possible = {meant} if answered else {meant, before}
    assert after in possible, f"the images {sorted(before)} became {sorted(after)}"


def expected_traces(known: Known, found: Traces) -> Traces:
    """What the machine has to have of these, and nothing else.

    A container that has ended may still have its root file system, crun's state and control groups, until its removal.
    """
    running, ended = known.of(RUNNING), known.of(EXITED)

    def with_ended(seen: tuple[str, ...], living: list[str] = running) -> tuple[str, ...]:
        return tuple(sorted([*living, *(each for each in ended if each in seen)]))

    ready = {name: pod.shape for name, pod in known.pods.items() if pod.ready}
    mapped = [name for name in running if known.pods[known.boxes[name].pod].shape.own_users]
    return Traces(
        conmons=tuple(running),
        processes=tuple(running),
        groups=with_ended(found.groups),
        roots=with_ended(found.roots),
        second_roots=with_ended(found.second_roots, mapped),
        volumes=with_ended(found.volumes, [name for name in running if known.boxes[name].has_volume]),
        states=with_ended(found.states),
        namespaces=tuple(sorted(ready)),
        leases=tuple(sorted(name for name, shape in ready.items() if shape.own_network)),
        ports=tuple(sorted(name for name, shape in ready.items() if shape.host_port)),
        directories=tuple(sorted([*known.pods, *known.boxes])),
        other=(),
    )
