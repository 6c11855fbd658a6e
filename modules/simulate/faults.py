"""Lets a fault happen, and end."""

from collections.abc import Callable

from modules.simulate.cloud import SimulatedCloud
from modules.simulate.node import Node
from modules.simulate.plan import Fault, FaultKind
from modules.simulate.world import World

Undo = Callable[[], None]


def _nothing() -> None:
    """There is nothing to end."""


class Faults:
    """See the module's docstring.

    Args:
        world: gives time.
        cloud: what some faults are about.
        nodes: what the others are about.
    """

    def __init__(self, world: World, cloud: SimulatedCloud, nodes: list[Node]) -> None:
        self._world = world
        self._cloud = cloud
        self._nodes = nodes
        self.open = 0
        """How many have begun and not ended."""

    def schedule(self, fault: Fault) -> None:
        """Let it happen at its time."""
        self._world.at(fault.at, lambda: self._begin(fault))

    def _begin(self, fault: Fault) -> None:
        self._world.note("fault", str(fault))
        end = _BEGIN[fault.kind](self, self._nodes[fault.node % len(self._nodes)], fault)
        self.open += 1
        self._world.at(self._world.now() + fault.seconds, lambda: self._end(fault, end))

    def _end(self, fault: Fault, end: Undo) -> None:
        self.open -= 1
        end()
        if fault.seconds:
            self._world.note("fault", f"over: {fault.kind.value}")

    def _cut(self, node: Node, _fault: Fault) -> Undo:
        node.line.cut += 1
        node.line.break_connection()
        return lambda: _add(node.line, "cut", -1)

    def _half_open(self, node: Node, _fault: Fault) -> Undo:
        return self._stall(node, "no_way_up", "no_way_down")

    def _deaf(self, node: Node, _fault: Fault) -> Undo:
        return self._stall(node, "no_way_up")

    def _mute(self, node: Node, _fault: Fault) -> Undo:
        return self._stall(node, "no_way_down")

    def _stall(self, node: Node, *ways: str) -> Undo:
        for way in ways:
            _add(node.line, way, 1)
        node.line.stall()

        def end() -> None:
            for way in ways:
                _add(node.line, way, -1)
            node.line.resume()

        return end

    def _delay(self, node: Node, fault: Fault) -> Undo:
        return _raise(node.line, "extra", fault.amount)

    def _duplicate(self, node: Node, fault: Fault) -> Undo:
        node.line.duplicates += int(fault.amount)
        return _nothing

    def _reorder(self, node: Node, _fault: Fault) -> Undo:
        return _raise(node.line, "reorders", 1)

    def _late_answers(self, node: Node, fault: Fault) -> Undo:
        return _raise(node.line, "late", fault.amount)

    def _no_answers(self, node: Node, _fault: Fault) -> Undo:
        return _raise(node.line, "unanswered", 1)

    def _cloud_restart(self, _node: Node, _fault: Fault) -> Undo:
        return self._stop_cloud(forget=False)

    def _cloud_amnesia(self, _node: Node, _fault: Fault) -> Undo:
        return self._stop_cloud(forget=True)

    def _stop_cloud(self, *, forget: bool) -> Undo:
        self._cloud.stop()
        if forget:
            self._cloud.forget()
            for node in self._nodes:
                node.wire.forget()

        def end() -> None:
            if self._cloud.process is None:
                self._cloud.start()

        return end

    def _kill(self, node: Node, fault: Fault) -> Undo:
        node.doom(int(fault.amount))
        return _nothing

    def _restart(self, node: Node, _fault: Fault) -> Undo:
        node.restart()
        return _nothing

    def _reboot(self, node: Node, _fault: Fault) -> Undo:
        node.reboot()
        return _nothing

    def _disk_full(self, node: Node, _fault: Fault) -> Undo:
        return _raise(node.disk, "full", 1)

    def _store_locked(self, node: Node, _fault: Fault) -> Undo:
        return _raise(node.disk, "locked", 1)

    def _store_lost(self, node: Node, _fault: Fault) -> Undo:
        node.lose_store()
        return _nothing

    def _slow_disk(self, node: Node, fault: Fault) -> Undo:
        return _raise(node.disk, "slow", fault.amount)

    def _cri_fails(self, node: Node, fault: Fault) -> Undo:
        return _raise(node.machine, "refuses", fault.amount)

    def _cri_loses(self, node: Node, fault: Fault) -> Undo:
        return _raise(node.machine, "loses", fault.amount)

    def _cri_slow(self, node: Node, fault: Fault) -> Undo:
        return _raise(node.machine, "slow", fault.amount)

    def _relist_fails(self, node: Node, _fault: Fault) -> Undo:
        return _raise(node.machine, "relist_fails", 1)

    def _events_lost(self, node: Node, fault: Fault) -> Undo:
        return _raise(node.machine, "lost_events", fault.amount)

    def _events_late(self, node: Node, fault: Fault) -> Undo:
        return _raise(node.machine, "late_events", fault.amount)

    def _events_twice(self, node: Node, fault: Fault) -> Undo:
        return _raise(node.machine, "twice_events", fault.amount)

    def _events_cut(self, node: Node, _fault: Fault) -> Undo:
        node.machine.cut_events()
        return _raise(node.machine, "no_events", 1)

    def _container_dies(self, node: Node, fault: Fault) -> Undo:
        live = node.machine.live_containers()
        if live:
            node.machine.container_died(live[int(fault.amount) % len(live)], 139)
        return _nothing

    def _sandbox_dies(self, node: Node, fault: Fault) -> Undo:
        live = [one for one in node.machine.sandboxes if one not in node.machine.watch.foreign]
        if live:
            node.machine.sandbox_died(live[int(fault.amount) % len(live)])
        return _nothing

    def _images_missing(self, node: Node, _fault: Fault) -> Undo:
        node.machine.images_lost()
        return _raise(node.machine, "no_pulls", 1)

    def _clock_jump(self, node: Node, fault: Fault) -> Undo:
        node.machine.wall.offset += fault.amount
        return _nothing


def _add(thing: object, attribute: str, amount: float) -> None:
    setattr(thing, attribute, getattr(thing, attribute) + amount)


def _raise(thing: object, attribute: str, amount: float) -> Undo:
    """Faults of one kind may overlap: each takes back what it has added."""
    _add(thing, attribute, amount)
    return lambda: _add(thing, attribute, -amount)


_BEGIN: dict[FaultKind, Callable[[Faults, Node, Fault], Undo]] = {
    FaultKind.CUT: Faults._cut,
    FaultKind.HALF_OPEN: Faults._half_open,
    FaultKind.DEAF: Faults._deaf,
    FaultKind.MUTE: Faults._mute,
    FaultKind.DELAY: Faults._delay,
    FaultKind.DUPLICATE: Faults._duplicate,
    FaultKind.REORDER: Faults._reorder,
    FaultKind.LATE_ANSWERS: Faults._late_answers,
    FaultKind.NO_ANSWERS: Faults._no_answers,
    FaultKind.CLOUD_RESTART: Faults._cloud_restart,
    FaultKind.CLOUD_AMNESIA: Faults._cloud_amnesia,
    FaultKind.KILL: Faults._kill,
    FaultKind.RESTART: Faults._restart,
    FaultKind.REBOOT: Faults._reboot,
    FaultKind.DISK_FULL: Faults._disk_full,
    FaultKind.STORE_LOCKED: Faults._store_locked,
    FaultKind.STORE_LOST: Faults._store_lost,
    FaultKind.SLOW_DISK: Faults._slow_disk,
    FaultKind.CRI_FAILS: Faults._cri_fails,
    FaultKind.CRI_LOSES_ANSWERS: Faults._cri_loses,
    FaultKind.CRI_SLOW: Faults._cri_slow,
    FaultKind.RELIST_FAILS: Faults._relist_fails,
    FaultKind.EVENTS_LOST: Faults._events_lost,
    FaultKind.EVENTS_LATE: Faults._events_late,
    FaultKind.EVENTS_TWICE: Faults._events_twice,
    FaultKind.EVENTS_CUT: Faults._events_cut,
    FaultKind.CONTAINER_DIES: Faults._container_dies,
    FaultKind.SANDBOX_DIES: Faults._sandbox_dies,
    FaultKind.IMAGES_MISSING: Faults._images_missing,
    FaultKind.CLOCK_JUMP: Faults._clock_jump,
}
