"""Starts and ends faults."""

from collections.abc import Callable
from functools import partial
from typing import Final

from modules.lab.simulate.api_faults import API_FAULTS
from modules.lab.simulate.cloud import SimulatedCloud
from modules.lab.simulate.clustered_cloud import ClusteredCloud
from modules.lab.simulate.lockouts import Lockouts
from modules.lab.simulate.node import SimulatedNode
from modules.lab.simulate.plan import Fault, FaultKind
from modules.lab.simulate.state_faults import STATE_FAULTS
from modules.lab.simulate.trap import Trap
from modules.lab.simulate.undo import Undo, add, nothing, raised
from modules.lab.simulate.world import World

_UNDER_WAY: Final = 60.0
"""Seconds after which the present cloudcore has handled the messages that a node had sent to it, by a slow link too, at
an API server that answers late. A process with an empty store does not know of the patches that an earlier one has
sent, and begins with what the cloud tells.
"""


class Faults:
    """The faults of a run, with their starts and ends.

    Args:
        world: source of time.
        cloud: the cloud.
        nodes: the nodes.
    """

    def __init__(self, world: World, cloud: SimulatedCloud, nodes: list[SimulatedNode]) -> None:
        self._world = world
        self._cloud = cloud
        self._nodes = nodes
        self.open = 0
        """Number of active faults."""
        self.lockouts = Lockouts(world, cloud, nodes)

    def schedule(self, fault: Fault) -> None:
        """Schedule a fault."""
        self._world.at(fault.at, lambda: self._begin(fault))

    def _begin(self, fault: Fault) -> None:
        self._world.log_line("fault", str(fault))
        self._world.last_fault_at = self._world.now()
        end = self._started(fault)
        self.open += 1
        self._world.at(self._world.now() + fault.seconds, lambda: self._end(fault, end))

    def _started(self, fault: Fault) -> Undo:
        """Start a fault, and return the function that ends it. A fault of an API server that the plan lacks does
        nothing.
        """
        cloud, node = self._cloud, self._nodes[fault.node % len(self._nodes)]
        if fault.kind in _BEGIN:
            return _BEGIN[fault.kind](self, node, fault)
        if not isinstance(cloud, ClusteredCloud):
            return nothing
        if fault.kind in API_FAULTS:
            return API_FAULTS[fault.kind](cloud, fault)
        cloud.endpoint.forgotten_nodes.update(each.name for each in self._nodes)
        return STATE_FAULTS[fault.kind](cloud, node, fault)

    def _end(self, fault: Fault, end: Undo) -> None:
        self.open -= 1
        end()
        if fault.seconds:
            self._world.log_line("fault", f"over: {fault.kind.value}")

    def _cut(self, node: SimulatedNode, _fault: Fault) -> Undo:
        node.line.cut += 1
        node.line.break_connection()
        return lambda: add(node.line, "cut", -1)

    def _half_open(self, node: SimulatedNode, _fault: Fault) -> Undo:
        return self._stall(node, "no_way_up", "no_way_down")

    def _deaf(self, node: SimulatedNode, _fault: Fault) -> Undo:
        return self._stall(node, "no_way_up")

    def _mute(self, node: SimulatedNode, _fault: Fault) -> Undo:
        return self._stall(node, "no_way_down")

    def _stall(self, node: SimulatedNode, *directions: str) -> Undo:
        for direction in directions:
            add(node.line, direction, 1)
        node.line.stall()

        def end() -> None:
            for direction in directions:
                add(node.line, direction, -1)
            node.line.resume()

        return end

    def _roam(self, node: SimulatedNode, fault: Fault) -> Undo:
        node.line.roam(fault.amount)
        return nothing

    def _duplicate(self, node: SimulatedNode, fault: Fault) -> Undo:
        node.line.duplicates += int(fault.amount)
        return nothing

    def _cloud_restart(self, _node: SimulatedNode, _fault: Fault) -> Undo:
        return self._stop_cloud(forget=False)

    def _cloud_amnesia(self, _node: SimulatedNode, _fault: Fault) -> Undo:
        return self._stop_cloud(forget=True)

    def _stop_cloud(self, *, forget: bool) -> Undo:
        self._cloud.stop()
        if forget:
            self._cloud.forget()
            self.lockouts.repeat()
            for node in self._nodes:
                node.wire.forget()
                node.forget_reports()

        def end() -> None:
            if self._cloud.process is None:
                self._cloud.start()

        return end

    def _kill(self, node: SimulatedNode, fault: Fault) -> Undo:
        node.doom(int(fault.amount))
        return nothing

    def _kill_at_call(self, node: SimulatedNode, fault: Fault) -> Undo:
        return self._set_trap(node, Trap(fault.call, fault.pod, node.kill))

    def _reboot_at_call(self, node: SimulatedNode, fault: Fault) -> Undo:
        def reboot() -> None:
            node.reboot()
            if fault.amount:
                node.jump_clock(fault.amount)

        return self._set_trap(node, Trap(fault.call, fault.pod, reboot))

    def _set_trap(self, node: SimulatedNode, trap: Trap) -> Undo:
        traps = node.machine.traps
        traps.append(trap)
        return lambda: traps.remove(trap) if trap in traps else None

    def _memory_low(self, node: SimulatedNode, _fault: Fault) -> Undo:
        return raised(node.machine.evictions, "low", 1)

    def _probes_unready(self, node: SimulatedNode, _fault: Fault) -> Undo:
        return raised(node.machine.probes, "unready", 1)

    def _probes_dead(self, node: SimulatedNode, _fault: Fault) -> Undo:
        return raised(node.machine.probes, "dead", 1)

    def _restart(self, node: SimulatedNode, _fault: Fault) -> Undo:
        node.restart()
        return nothing

    def _reboot(self, node: SimulatedNode, _fault: Fault) -> Undo:
        node.reboot()
        return nothing

    def _store_lost(self, node: SimulatedNode, _fault: Fault) -> Undo:
        node.lose_store()
        node.statuses.late_until = self._world.now() + _UNDER_WAY
        return nothing

    def _events_cut(self, node: SimulatedNode, _fault: Fault) -> Undo:
        node.machine.cut_events()
        return raised(node.machine, "no_events", 1)

    def _container_dies(self, node: SimulatedNode, fault: Fault) -> Undo:
        live = node.machine.live_containers()
        if live:
            node.machine.container_died(live[int(fault.amount) % len(live)], 139)
        return nothing

    def _sandbox_dies(self, node: SimulatedNode, fault: Fault) -> Undo:
        live = [one for one in node.machine.sandboxes if one not in node.machine.watch.foreign]
        if live:
            node.machine.sandbox_died(live[int(fault.amount) % len(live)])
        return nothing

    def _images_missing(self, node: SimulatedNode, _fault: Fault) -> Undo:
        node.machine.images_lost()
        return raised(node.machine, "no_pulls", 1)

    def _broker_away(self, node: SimulatedNode, _fault: Fault) -> Undo:
        node.broker.go_away()
        return node.broker.come_back

    def _power_off(self, node: SimulatedNode, fault: Fault) -> Undo:
        node.reboot()
        node.off += 1

        def end() -> None:
            node.off -= 1
            node.jump_clock(fault.amount)
            node.start()

        return end

    def _locked_out(self, node: SimulatedNode, fault: Fault) -> Undo:
        self.lockouts.lock(node.name)
        return partial(self.lockouts.replace if fault.amount else self.lockouts.allow, node.name)

    def _clock_jump(self, node: SimulatedNode, fault: Fault) -> Undo:
        node.jump_clock(fault.amount)
        return nothing

    def _taken_over(self, node: SimulatedNode, fault: Fault) -> Undo:
        """Start the second cloudcore, to which the node goes; in the end kill it."""
        second = self._cloud.second
        if second is None:
            return nothing

        def leave() -> None:
            node.statuses.leave_cloudcore()
            node.line.roam(fault.amount)

        def end() -> None:
            leave()
            second.stop()

        second.start()
        leave()
        return end

    def _database_full(self, _node: SimulatedNode, fault: Fault) -> Undo:
        self._cloud.database_server.freed = 0
        return raised(self._cloud.database_server, "full", fault.amount)

    def _database_fails(self, _node: SimulatedNode, fault: Fault) -> Undo:
        return raised(self._cloud.database_server, "fails", fault.amount)

    def _database_loses_answers(self, _node: SimulatedNode, fault: Fault) -> Undo:
        return raised(self._cloud.database_server, "loses", fault.amount)


Begin = Callable[[Faults, SimulatedNode, Fault], Undo]


def _once(part: str, attribute: str) -> Begin:
    """Add one to a number of a part of the node while the fault lasts."""
    return lambda _, node, __: raised(getattr(node, part), attribute, 1)


def _by_amount(part: str, attribute: str) -> Begin:
    """Add the fault's amount to a number of a part of the node while the fault lasts."""
    return lambda _, node, fault: raised(getattr(node, part), attribute, fault.amount)


_BEGIN: dict[FaultKind, Begin] = {
    FaultKind.CUT: Faults._cut,
    FaultKind.HALF_OPEN: Faults._half_open,
    FaultKind.DEAF: Faults._deaf,
    FaultKind.MUTE: Faults._mute,
    FaultKind.DELAY: _by_amount("line", "extra"),
    FaultKind.ROAM: Faults._roam,
    FaultKind.DUPLICATE: Faults._duplicate,
    FaultKind.REORDER: _once("line", "reorders"),
    FaultKind.LATE_ANSWERS: _by_amount("line", "late"),
    FaultKind.NO_ANSWERS: _once("line", "unanswered"),
    FaultKind.CLOUD_RESTART: Faults._cloud_restart,
    FaultKind.CLOUD_AMNESIA: Faults._cloud_amnesia,
    FaultKind.TAKEN_OVER: Faults._taken_over,
    FaultKind.DATABASE_FULL: Faults._database_full,
    FaultKind.DATABASE_FAILS: Faults._database_fails,
    FaultKind.DATABASE_LOSES_ANSWERS: Faults._database_loses_answers,
    FaultKind.KILL: Faults._kill,
    FaultKind.KILL_AT_CALL: Faults._kill_at_call,
    FaultKind.REBOOT_AT_CALL: Faults._reboot_at_call,
    FaultKind.RESTART: Faults._restart,
    FaultKind.REBOOT: Faults._reboot,
    FaultKind.LOCKED_OUT: Faults._locked_out,
    FaultKind.POWER_OFF: Faults._power_off,
    FaultKind.DISK_FULL: _once("disk", "full"),
    FaultKind.STORE_LOCKED: _once("disk", "locked"),
    FaultKind.STORE_LOST: Faults._store_lost,
    FaultKind.SLOW_DISK: _by_amount("disk", "slow"),
    FaultKind.CRI_FAILS: _by_amount("machine", "refuses"),
    FaultKind.CRI_LOSES_ANSWERS: _by_amount("machine", "loses"),
    FaultKind.CRI_SLOW: _by_amount("machine", "slow"),
    FaultKind.RELIST_FAILS: _once("machine", "relist_fails"),
    FaultKind.EVENTS_LOST: _by_amount("machine", "lost_events"),
    FaultKind.EVENTS_LATE: _by_amount("machine", "late_events"),
    FaultKind.EVENTS_TWICE: _by_amount("machine", "twice_events"),
    FaultKind.EVENTS_CUT: Faults._events_cut,
    FaultKind.CONTAINER_DIES: Faults._container_dies,
    FaultKind.SANDBOX_DIES: Faults._sandbox_dies,
    FaultKind.MEMORY_LOW: Faults._memory_low,
    FaultKind.PROBES_UNREADY: Faults._probes_unready,
    FaultKind.PROBES_DEAD: Faults._probes_dead,
    FaultKind.IMAGES_MISSING: Faults._images_missing,
    FaultKind.CLOCK_JUMP: Faults._clock_jump,
    FaultKind.BROKER_AWAY: Faults._broker_away,
}
