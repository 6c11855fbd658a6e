"""The recorded turns of a module come again in their order, whatever a busy machine has kept waiting."""

from pathlib import Path
from unittest import mock

import msgspec
import pytest

from beehive import Actor, Message, Module, ModuleName
from beehive.clock import Timer
from beehive.delivery import ANSWER
from beehive.simulation import Simulation
from beehive.testing import Harness
from beehive.trace import CriCall, Note, NoteKind, Record, TimerFired, TraceHeader
from beehive.trace.format import FORMAT
from edged.module import Edged
from edged.node.watch import NodeWatch
from edged.pleg.pleg import Pleg
from metamanager.module import MetaManager
from modules.edge.devicetwin.module import DeviceTwin
from modules.lab.replay.module_turns import ModuleTurns
from modules.lab.replay.node_watch import inspected_at, punctual_node_watch
from modules.lab.replay.paced_hive import PacedHive
from modules.lab.replay.pleg import RecordedInspections, recorded_pleg
from modules.lab.replay.recorded import Recorded
from modules.lab.replay.run import Replay
from modules.lab.replay.timers import RecordedTimers
from modules.lab.replay.turns import RecordedTurns, begun_in_time, paced
from modules.lab.replay.worker_reads import FIRST
from tests.replay.test_paced_hive import add_edged_that_asks, recorded

EDGED = ModuleName.EDGED.value


@pytest.mark.parametrize("module", [Edged, MetaManager, DeviceTwin])
def test_decisions_that_depend_on_seconds_have_the_time_of_their_turn(module: type[Module]) -> None:
    assert module.has_turn_clock


def turn(time: float, name: str, since: float | None = None, cause: int = 0) -> Note:
    """A turn of edged."""
    return Note(time, 0, cause, 0, NoteKind.TURN, EDGED, name, since)


def fired(time: float, name: str, seconds: float, *, periodic: bool = False, waited: float = 0.0) -> TimerFired:
    """A timer of edged that ran."""
    return TimerFired(time, 1, 0, 1, EDGED, name, seconds, periodic, 0.0, waited)


def test_an_inspection_is_taken_when_it_was_though_the_pod_was_inspected_again_meanwhile() -> None:
    """The second one had found no change, and so edged took nothing of it."""
    turns = RecordedTurns([turn(3.5247, "inspected u", 3.5178)])
    assert turns.taken_at(EDGED, "inspected u", 3.5179, 3.5181) == 3.5247
    assert turns.taken_at(EDGED, "inspected u", 3.5183, 3.5185) == 3.5185


@pytest.mark.parametrize(("since", "at"), [(1.0, 5.0), (2.0, 4.0)])
def test_the_result_of_work_is_known_by_its_beginning(since: float, at: float) -> None:
    """The later one may have been taken first."""
    turns = RecordedTurns([turn(4.0, "inspected u", 2.0), turn(5.0, "inspected u", 1.0)])
    assert turns.taken_at(EDGED, "inspected u", since, 2.5) == at


def test_results_without_a_beginning_are_taken_in_their_order_and_only_near_their_times() -> None:
    turns = RecordedTurns([turn(1.0, "health u"), turn(1.5, "health u"), turn(60.0, "health u")])
    assert [turns.taken_at(EDGED, "health u", None, 0.9) for _ in range(3)] == [1.0, 1.5, 0.9]


def test_a_result_is_near_that_was_taken_after_a_turn_of_seconds() -> None:
    """The machine stood still in the turn before it."""
    notes = [turn(4.2, ANSWER), turn(4.3, "health u")]
    assert RecordedTurns(notes, ModuleTurns(notes)).taken_at(EDGED, "health u", None, 0.9) == 4.3
    assert RecordedTurns(notes).taken_at(EDGED, "health u", None, 0.9) == 0.9


def test_work_begins_when_it_was_begun() -> None:
    """Between its dispatch and its first read of the runtime a container may have ended."""
    turns = RecordedTurns([turn(2.0, "synced u", 1.4), turn(3.0, "synced u", 2.6)])
    assert turns.begin(EDGED, "synced u", 1.0) == 1.4
    turns.taken_at(EDGED, "synced u", 1.4, 1.9)
    assert turns.begin(EDGED, "synced u", 2.0) == 2.6
    assert turns.begin(EDGED, "other", 1.0) is None


@pytest.mark.parametrize(("calls", "at"), [((1.4, 2.5, 2.6), 2.5), ((1.4,), None)])
def test_work_begins_when_it_was_begun_though_the_recording_ended_before_its_result(
    calls: tuple[float, ...], at: float | None, tmp_path: Path
) -> None:
    """It would have ended, and gone on to what is in no trace, before the recorded work had begun."""
    request = b'{"sandbox_filter":{"label_selector":{"io.kubernetes.pod.uid":"u"}}}'
    reads = [CriCall(time, 9, 1, 1, "edged/worker-0", FIRST, request, b"[]", "", "", 0.0) for time in calls]
    recorded = Recorded(TraceHeader(FORMAT, "edgecore", "n", 0.0), (turn(2.0, "synced u", 1.4), *reads))
    player = Replay(recorded, tmp_path, EDGED)
    player._of_turns()
    assert [player._turns.begin(EDGED, "synced u", 1.0) for _ in range(2)] == [1.4, at]
    assert player._turns.taken_at(EDGED, "synced u", 2.5, 2.7) == 2.7


def test_work_takes_no_beginning_that_a_message_of_later_has_caused() -> None:
    """A pod that is synced again after a drawn time would wait for the change that the message brings."""
    notes = [turn(2.2, "synced u", 1.9, cause=7)]
    turns = RecordedTurns(notes, ModuleTurns([recorded(7, 1.9, "send", "pod"), *notes]))
    assert turns.begin(EDGED, "synced u", 1.0) is None
    assert turns.begin(EDGED, "synced u", 1.8) == 1.9


def test_probes_of_a_container_at_once_begin_one_after_the_other() -> None:
    """A probe that began with its assignment would seem to have lasted longer than it may."""
    turns = RecordedTurns([turn(2.0, "probed c", 1.9), turn(2.1, "probed c", 1.8)])
    assert [turns.begin(EDGED, "probed c", 1.0) for _ in range(3)] == [1.8, 1.9, None]


def test_turns_of_earlier_versions_have_shorter_names() -> None:
    """Those did not tell a container's probes apart, nor the Events of a pod's containers."""
    turns = RecordedTurns(
        [turn(2.0, "probed c", 1.9), turn(3.0, "Killing u"), turn(5.0, "Killing u spec.containers{a}")]
    )
    assert turns.begin(EDGED, "probed c liveness", 1.0) == 1.9
    assert turns.taken_at(EDGED, "Killing u spec.containers{b}", None, 2.9) == 3.0
    assert turns.taken_at(EDGED, "Killing u spec.containers{a}", None, 2.9) == 2.9


class Working(Actor):
    """An actor that notes when it begins."""

    def __init__(self, begun: list[float]) -> None:
        super().__init__()
        self._begun = begun

    def on_receive(self, message: object) -> None:
        """Note the time."""
        self._begun.append(self.clock.monotonic())


def test_an_actor_begins_its_work_when_it_was_begun_and_other_work_at_once() -> None:
    """A pod is synced again after a drawn time: that work is not the recorded one of seconds later. What began first
    may end last.
    """
    simulation, found = Simulation(), list[float]()
    turns = RecordedTurns([turn(2.0, "probed c", 1.5), turn(2.5, "probed c", 1.2), turn(4.0, "probed c", 3.5)])
    actor = begun_in_time(Working, simulation, turns, lambda message: f"probed {message}")
    for message in ("other", "c", "c", "c"):
        simulation.start(actor, found).ref.tell(message)
    simulation.run_for(5.0)
    simulation.close()
    assert found == [0.0, 0.0, 1.2, 1.5]


def test_an_answer_that_waited_behind_a_later_message_comes_behind_it_again() -> None:
    """Its record has the time when it was sent; the note of the turn has the one when it was taken."""
    deliveries = [
        recorded(1, 0.0, "send", "a"),
        recorded(2, 0.0, "request", "q"),
        recorded(3, 0.1, "response", "q"),
        recorded(4, 0.4, "send", "b", waited=0.2),
    ]
    turns = RecordedTurns([turn(0.6, ANSWER, cause=3)])
    simulation = Simulation()
    hive = PacedHive(simulation, deliveries, turns.answered, (EDGED,))
    found = add_edged_that_asks(hive)
    hive.start()
    for resource, seconds in (("a", 0.2), ("b", 2.0)):
        hive.send(EDGED, Message.new(simulation.clock, resource=resource, operation="update", source="test"))
        simulation.run_for(seconds)
    hive.stop()
    assert found == [("a", 0.0), ("b", 0.4), ("answer", 0.6)]


def run_timers(
    records: list[TimerFired],
    seconds: float,
    others: tuple[Record, ...] = (),
    *,
    period: bool = False,
    at: float = 0.0,
) -> list[float]:
    """Set a timer at a time in a module that has the recorded ones, and other turns, and return when it runs within ten
    seconds.
    """
    times: list[float] = []
    timers: list[Timer] = []

    class Timed(Module):
        name = ModuleName.EDGED

        def on_start(self) -> None:
            if at:
                self.clock.after(at, lambda: self.call_soon(self.begin))
            else:
                self.begin()

        def begin(self) -> None:
            timers.append(self.every(seconds, self.tick) if period else self.after(seconds, self.tick))

        def tick(self) -> None:
            times.append(round(self.clock.monotonic(), 3))

    named = [msgspec.structs.replace(one, name=Timed.tick.__qualname__) for one in records]
    with Harness() as bee:
        bee.add(paced(Timed, RecordedTurns([]), RecordedTimers((*named, *others), EDGED)))
        bee.start()
        bee.run_for(10)
    return times


@pytest.mark.parametrize(
    ("records", "seconds", "times"),
    [
        ([fired(1.3, "", 1.0)], 1.0, [1.3]),
        ([fired(0.99, "", 1.0)], 1.0, [1.0]),
        ([fired(0.7, "", 0.6)], 1.4, [0.7]),
        ([fired(2.1, "", 2.0), fired(1.2, "", 1.0)], 1.0, [1.2]),
        ([], 1.0, [3.0]),
    ],
    ids=["late", "never before it is due", "drawn", "by its length", "cancelled when it was due"],
)
def test_a_timer_runs_when_it_ran(records: list[TimerFired], seconds: float, times: list[float]) -> None:
    assert run_timers(records, seconds) == times


@pytest.mark.parametrize(
    ("records", "seconds", "times"),
    [([], 1.0, [6.0]), ([fired(4.2, "", 1.0)], 1.0, [4.2]), ([fired(4.2, "", 0.0)], 0.1, [4.2])],
    ids=["cancelled when it was due", "late", "set late"],
)
def test_a_timer_is_later_than_a_turn_of_seconds(records: list[TimerFired], seconds: float, times: list[float]) -> None:
    """The machine stood still until the module's next turn, at 4 seconds."""
    assert run_timers(records, seconds, (turn(4.0, ANSWER),)) == times


@pytest.mark.parametrize(
    ("records", "turns", "times"),
    [
        ([fired(8.0, "", 1.0, waited=8.0)], (1.1, 2.5, 3.5), [8.0]),
        ([fired(8.0, "", 1.0, waited=1.0)], (1.1, 2.5, 3.5), [4.5]),
        ([fired(4.6, "", 1.0)], (1.1, 4.5), [4.6]),
        ([], (1.1, 4.5), [6.5]),
        ([], (0.9,), []),
    ],
    ids=["that late", "another one", "an earlier version", "cancelled", "the recording ended"],
)
def test_a_timer_is_late_though_a_turn_came_after_it_was_due(
    records: list[TimerFired], turns: tuple[float, ...], times: list[float]
) -> None:
    """The machine stood still after that turn, before the clock's thread ran."""
    assert run_timers(records, 1.0, tuple(turn(at, ANSWER) for at in turns)) == times


def test_a_period_runs_when_it_ran_unless_the_code_has_another_one() -> None:
    """The module may have started seconds later than it does in a replay."""
    records = [fired(3.5, "", 2.0, periodic=True), fired(5.7, "", 2.0, periodic=True)]
    assert run_timers(records, 2.0, period=True) == [3.5, 5.7]
    assert run_timers(records, 4.0, period=True) == [4.0, 8.0]


@pytest.mark.parametrize(("sent", "times"), [(0.7, [4.7, 8.7]), (None, [4.0, 8.0])])
def test_a_period_whose_recording_ended_before_it_begins_with_the_recorded_module(
    sent: float | None, times: list[float]
) -> None:
    """A status period of ten seconds would seem due within a life of eleven, whose edged started two seconds late."""
    message = () if sent is None else (recorded(1, sent, "request", "pod"),)
    assert run_timers([], 4.0, message, period=True) == times


def test_a_period_that_was_cancelled_leaves_its_recorded_turn_to_the_next() -> None:
    """As a link that is lost before its first keepalive: the one after it sends the recorded keepalives."""
    found: list[float] = []

    class Timed(Module):
        name = ModuleName.EDGED

        def on_start(self) -> None:
            first = self.every(2.0, self.tick)

            def again() -> None:
                first.cancel()
                self.every(2.0, self.tick)

            self.clock.after(1.0, lambda: self.call_soon(again))

        def tick(self) -> None:
            found.append(round(self.clock.monotonic(), 3))

    records = tuple(TimerFired(at, 1, 0, 1, EDGED, Timed.tick.__qualname__, 2.0, True, 0.0) for at in (3.0, 5.1))  # noqa: FBT003
    with Harness() as bee:
        bee.add(paced(Timed, RecordedTurns([]), RecordedTimers(records, EDGED)))
        bee.start()
        bee.run_for(10)
    assert found == [3.0, 5.1]


def test_a_timer_for_what_is_due_already_is_no_other_one() -> None:
    """A timer may run in the last digit of a float before what it is for, and is set again for that."""
    assert run_timers([fired(8.0, "", 7.9)], 1e-15) == [0.0]


@pytest.mark.parametrize(("name", "left"), [("probe liveness c", 2.0), ("HeldStatuses._next", 0.0)])
def test_a_first_probe_that_was_never_made_is_late(name: str, left: float) -> None:
    """It had a drawn wait, and its container ended before; edged of the replay is older, and waits for nothing."""

    def probe() -> None: ...

    probe.__qualname__ = name
    assert RecordedTimers((), EDGED).timer(probe, 1.0, 0.0)[0] == left


@pytest.mark.parametrize(("length", "times"), [(1.0, [1.7]), (0.9, [])])
def test_a_timer_is_the_one_that_waited_then_if_it_has_its_length(length: float, times: list[float]) -> None:
    """An event came a moment after others were sent, and in the replay with them: the next event sets the timer."""
    assert run_timers([fired(1.3, "", length)], 1.0, at=0.7) == times


@pytest.mark.parametrize(
    ("at", "length", "is_again", "later", "times"),
    [
        (4.1, 4.0, True, (), [4.1]),
        (4.1, 4.0, True, (1.2, 5.5), [4.1]),
        (3.9, 4.0, True, (), []),
        (4.1, 1.1, False, (), [4.1]),
    ],
    ids=["in the replay", "before another one", "another time", "in the recorded run"],
)
def test_a_timer_that_is_set_again_for_its_time_runs_when_it_ran(
    at: float, length: float, later: tuple[float, ...], times: list[float], *, is_again: bool
) -> None:
    """The time is computed from the wall clock, and in one of the runs it may be a microsecond earlier than before."""
    found: list[float] = []

    class Timed(Module):
        name = ModuleName.EDGED

        def on_start(self) -> None:
            first = self.after(4.0, self.tick)

            def again() -> None:
                first.cancel()
                self.after(2.999999, self.tick)

            if is_again:
                self.after(1.0, again)

        def tick(self) -> None:
            found.append(round(self.clock.monotonic(), 3))

    record = TimerFired(at, 1, 0, 1, EDGED, Timed.tick.__qualname__, length, False, 0.0)  # noqa: FBT003
    other = TimerFired(1.0, 1, 0, 1, EDGED, f"{Timed.on_start.__qualname__}.<locals>.again", 1.0, False, 0.0)  # noqa: FBT003
    records = [other, record, *(msgspec.structs.replace(record, time=later[1], seconds=later[0]) for _ in later[:1])]
    with Harness() as bee:
        bee.add(paced(Timed, RecordedTurns([]), RecordedTimers(tuple(records), EDGED)))
        bee.start()
        bee.run_for(10)
    assert found == times


@pytest.mark.parametrize(
    ("recorded", "times"),
    [([0.0, 9.9, 20.3], [0.0, 9.9, 20.3]), ([], [0.0, 10.0, 20.0]), ([0.0, 10.1], [0.0, 10.1, 20.1])],
    ids=["recorded", "not recorded", "the recording ended"],
)
def test_the_node_is_inspected_when_it_was(recorded: list[float], times: list[float]) -> None:
    """Its report came after a status that had been sent without it, though it was then in it."""
    calls = [CriCall(time, 9, 1, 1, "edged/NodeWatch", "status", b"{}", b"", "", "", 0.0) for time in recorded]
    simulation, reports = Simulation(), mock.Mock()
    found: list[float] = []
    reports.post = lambda _report: found.append(round(simulation.clock.monotonic(), 3))
    watch = punctual_node_watch(inspected_at(calls))
    with mock.patch.object(NodeWatch, "_inspect"):
        simulation.start(watch, mock.Mock(status_period=10.0), mock.Mock(), reports, "v", mock.Mock())
        simulation.run_for(25.0)
        simulation.close()
    assert found == times


@pytest.mark.parametrize(
    ("now", "are_turns_known", "is_left"),
    [(1.0, True, True), (1.0, False, False), (3.9, False, True), (4.5, True, False)],
    ids=["late", "late, of an older run", "in time", "not recorded"],
)
def test_a_relist_that_is_due_is_left_to_the_recorded_one(now: float, *, are_turns_known: bool, is_left: bool) -> None:
    """The machine stood still: one more would get the answer of the next, and wait for it."""
    calls = [CriCall(4.0, 9, 1, 1, "edged/Pleg", FIRST, b"{}", b"[]", "", "", 0.0)]
    pleg = recorded_pleg(RecordedInspections(calls, ()), are_turns_known=are_turns_known)
    simulation, relist = Simulation(), mock.Mock()
    simulation.run_for(now)
    with mock.patch.object(Pleg, "relist", relist):
        simulation.start(pleg, mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock())
        simulation.run_for(0.05)
        simulation.close()
    assert relist.called is not is_left
