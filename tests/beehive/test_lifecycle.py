"""Start in order, readiness, stop in reverse order within a deadline, nothing left running."""

import gc
import threading
import weakref
from collections.abc import Callable

import pykka
import pytest

from beehive import Actor, BeehiveError, DropReason, Message, Module, Operation, ResourceType, State, Threads, handles
from beehive.errors import NotStartedError, StartError, StopError, UndeliverableError
from tests.beehive.beds import Bed, Log
from tests.support.patience import PATIENCE


class Noting(Module):
    """Notes when it starts, stops and fails."""

    name = "noting"

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    def on_start(self) -> None:
        self.log(f"start {self.name}")

    def on_stop(self) -> None:
        self.log(f"stop {self.name}")

    @handles(ResourceType.POD)
    def pod(self, message: Message) -> None:
        self.log(message.content)


class Other(Noting):
    """A second one."""

    name = "other"


class Third(Noting):
    """A third one."""

    name = "third"


def test_modules_start_in_order_and_stop_in_reverse(bed: Bed, log: Log) -> None:
    """Each starts when the one before has started and stops when the one after has ended."""
    hive = bed.hive()
    for module in (Noting, Other, Third):
        hive.add(module, log)
    assert {readiness.state for readiness in hive.readiness().values()} == {State.ADDED}
    hive.start()
    assert {readiness.state for readiness in hive.readiness().values()} == {State.READY}
    hive.stop()
    assert {readiness.state for readiness in hive.readiness().values()} == {State.STOPPED}
    assert log.entries == ["start noting", "start other", "start third", "stop third", "stop other", "stop noting"]
    hive.stop()


def test_waiting_messages_are_handled_before_the_stop(bed: Bed, log: Log) -> None:
    """A stop takes effect after the messages that are in the inbox already."""
    hive = bed.started(Noting, log)
    for number in range(10):
        hive.send("noting", bed.message(content=number))
    hive.stop()
    assert log.entries == ["start noting", *range(10), "stop noting"]


def test_messages_to_a_module_that_has_not_started_wait_for_it(bed: Bed, log: Log) -> None:
    """KubeEdge drops them; here they are handled when it has started."""
    hive = bed.hive()
    hive.add(Noting, log)
    hive.send("noting", bed.message(content="early"))
    hive.start()
    bed.until(lambda: len(log) == 2)
    assert log.entries == ["start noting", "early"]


def test_messages_to_a_stopped_module_are_dead_letters(bed: Bed, log: Log, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing waits for ever in the inbox of a module that will not come back; a request fails at once. A hive's end is
    no news: there is no warning.
    """
    hive = bed.started(Noting, log)
    hive.stop()
    hive.send("noting", bed.message())
    assert hive.dead_letters.counts == {DropReason.STOPPED: 1}
    assert caplog.records == []
    with pytest.raises(UndeliverableError):
        hive.request("noting", bed.message(), 3600).get()
    assert hive.depths() == {"noting": 0}


def test_a_module_may_announce_its_own_readiness(bed: Bed, log: Log) -> None:
    """Until it does it is not ready, with a reason; and it may take it back."""

    class Announcing(Noting):
        announces_readiness = True

        @handles(ResourceType.NODE, Operation.CONNECTED)
        def up(self, message: Message) -> None:
            self.announce_ready()

        @handles(ResourceType.NODE, Operation.DISCONNECTED)
        def down(self, message: Message) -> None:
            self.announce_not_ready("cloud is away")

    hive = bed.started(Announcing, log)
    assert hive.readiness()["noting"].state is State.NOT_READY
    hive.send("noting", bed.message("null/node/n", Operation.CONNECTED))
    bed.until(lambda: hive.readiness()["noting"].state is State.READY)
    hive.send("noting", bed.message("null/node/n", Operation.DISCONNECTED))
    bed.until(lambda: hive.readiness()["noting"].reason == "cloud is away")


def test_a_failed_first_start_stops_the_started_modules(bed: Bed, log: Log) -> None:
    """`StartError` names the module and the cause; those before it are stopped, those after it never start."""

    class Broken(Noting):
        name = "broken"

        def on_start(self) -> None:
            raise ValueError("no disk")

    hive = bed.hive()
    for module in (Noting, Broken, Third):
        hive.add(module, log)
    with pytest.raises(StartError, match=r"broken.*no disk") as caught:
        hive.start()
    assert isinstance(caught.value.__cause__, ValueError)
    assert log.entries == ["start noting", "stop noting"]
    assert hive.readiness()["noting"].state is State.STOPPED


def test_a_constructor_that_fails_is_a_failed_start(bed: Bed, log: Log) -> None:
    """A module's constructor is its code like any other."""

    class Unmakeable(Noting):
        def __init__(self, log: Log) -> None:
            raise ValueError("no such option")

    hive = bed.hive()
    hive.add(Other, log)
    hive.add(Unmakeable, log)
    with pytest.raises(StartError, match="no such option"):
        hive.start()
    assert log.entries == ["start other", "stop other"]


def test_names_are_unique_and_modules_are_added_before_the_start(bed: Bed, log: Log) -> None:
    """A second module of a name, one added too late and a second start are refused."""
    hive = bed.hive()
    hive.add(Noting, log)
    with pytest.raises(StartError, match="taken"):
        hive.add(Noting, log)
    hive.start()
    with pytest.raises(StartError, match="before"):
        hive.add(Other, log)
    with pytest.raises(StartError, match="started before"):
        hive.start()
    with pytest.raises(NotStartedError, match="noting"):
        hive.slot("nobody")


def test_a_slow_start_ends_at_its_deadline(bed: Bed, log: Log) -> None:
    """A module that waits in `on_start` does not hold the process for ever."""
    release = bed.runtime.future()

    class Slow(Noting):
        def on_start(self) -> None:
            release.get()

    hive = bed.hive()
    hive.add(Other, log)
    hive.add(Slow, log)
    begin = bed.clock.monotonic()
    with pytest.raises(StartError, match="within"):
        hive.start(1.0)
    assert log.entries == ["start other", "stop other"]
    assert bed.clock.monotonic() - begin < 30
    release.set()


@pytest.mark.modules_fail
@pytest.mark.parametrize("fails", [False, True])
def test_a_module_that_hangs_does_not_keep_the_others_from_stopping(bed: Bed, log: Log, *, fails: bool) -> None:
    """`StopError` names it and only it; the others have run their `on_stop`. What it has not handled in the end is a
    dead letter, also what it has failed at.
    """
    release = bed.runtime.future()

    class Hanging(Noting):
        name = "hanging"

        @handles(ResourceType.SECRET)
        def hang(self, message: Message) -> None:
            self.log("hangs")
            release.get()

    hive = bed.hive()
    for module in (Noting, Hanging, Third):
        hive.add(module, log)
    hive.start()
    hive.send("hanging", bed.message("default/secret/s"))
    bed.until(lambda: "hangs" in log.entries)
    hive.send("hanging", bed.message(content="never handled"))
    begin = bed.clock.monotonic()
    with pytest.raises(StopError, match="hanging") as caught:
        hive.stop(2.0)
    assert caught.value.on == "hanging"
    assert bed.clock.monotonic() - begin < 30
    assert log.entries[-2:] == ["stop third", "stop noting"]
    release.fail(ValueError("of this test")) if fails else release.set()
    bed.until(lambda: hive.dead_letters.counts[DropReason.STOPPED] == 1 + fails)
    assert "never handled" not in log.entries


class Ending(Noting):
    """Notes only its end; its handler fails."""

    name = "ending"
    attempts = 1

    def on_start(self) -> None:
        """Note nothing."""

    def on_stop(self) -> None:
        Module.on_stop(self)

    def on_end(self) -> None:
        self.log("end")

    @handles(ResourceType.POD)
    def pod(self, message: Message) -> None:
        raise ValueError(message.content)


@pytest.mark.modules_fail
@pytest.mark.parametrize("fails", [False, True])
def test_a_module_closes_what_is_its_own_in_a_stop_and_in_a_failure(bed: Bed, log: Log, *, fails: bool) -> None:
    hive = bed.started(Ending, log)
    if fails:
        hive.send("ending", bed.message(content="of this test"))
        bed.until(lambda: bool(log.entries))
    else:
        hive.stop()
    assert log.entries == ["end"]


class Child(Actor):
    """An inner actor that notes when it starts and stops, and fails on demand."""

    def __init__(self, log: Log, *, broken: bool = False) -> None:
        super().__init__()
        self.log, self.broken = log, broken

    def on_start(self) -> None:
        if self.broken:
            raise ValueError("child cannot start")
        self.log("child starts")

    def on_stop(self) -> None:
        self.log("child stops")

    def on_receive(self, message: object) -> object:
        if message == "fail":
            raise ValueError("child fails")
        self.log(message)
        return message

    def double(self, number: int) -> int:
        """For proxies."""
        return 2 * number


class Parent(Noting):
    """Has a child."""

    name = "parent"

    def on_start(self) -> None:
        super().on_start()
        self.child = self.start_actor(Child, self.log)

    @handles(ResourceType.POD)
    def pod(self, message: Message) -> None:
        self.child.tell(message.content)

    @handles(ResourceType.NODE)
    def ask(self, message: Message) -> None:
        self.log(self.child.ask(message.content))
        self.log(self.child.proxy().double(21).get())


def test_inner_actors_live_and_die_with_their_module(bed: Bed, log: Log) -> None:
    """They may be told, asked and called; they end before the module counts as stopped."""
    hive = bed.started(Parent, log)
    hive.send("parent", bed.message(content="told"))
    hive.send("parent", bed.message("null/node/n", content="asked"))
    bed.until(lambda: 42 in log.entries)
    hive.stop()
    assert log.entries[0] == "start parent"
    assert log.entries[-2:] == ["stop parent", "child stops"]
    assert {"told", "asked", "child starts"} < set(log.entries)


def test_nothing_runs_after_the_stop(bed: Bed, log: Log) -> None:
    """Threads or greenlets of modules, children, supervisor and clock: all gone (the bed itself checks it too)."""
    hive = bed.hive()
    for module in (Noting, Parent):
        hive.add(module, log)
    hive.start()
    hive.stop()
    bed.runtime.close()
    assert bed.leftovers() == []


def test_an_actor_that_has_ended_refuses_questions(bed: Bed, log: Log) -> None:
    """A request gets `ActorDeadError`, however late it comes."""
    running = bed.runtime.start(Child, log)
    reference = running.ref
    assert reference.ask("hello") == "hello"
    assert running.stop(60)
    with pytest.raises(pykka.ActorDeadError):
        reference.ask("hello")
    late = bed.runtime.future()
    reference.actor_inbox.put(pykka._envelope.Envelope("after the end", late))
    with pytest.raises(pykka.ActorDeadError):
        late.get(timeout=PATIENCE)
    second_stop = bed.runtime.future()
    reference.actor_inbox.put(pykka._envelope.Envelope(pykka.messages._ActorStop(), second_stop))
    assert second_stop.get(timeout=PATIENCE) is None


def test_an_actor_cannot_be_made_without_a_runtime(log: Log) -> None:
    """Pykka's own `start` is refused with a hint."""
    with pytest.raises(NotStartedError, match=r"Runtime\.start"):
        Child.start(log)
    assert isinstance(NotStartedError("x"), BeehiveError)


def test_starting_leaves_no_class_behind(bed: Bed, log: Log) -> None:
    """Each start binds a class of its own; it is collected when its actor has ended, or a node would grow for ever."""
    classes = []
    for _ in range(20):
        running = bed.runtime.start(Child, log)
        classes.append(weakref.ref(running.ref.actor_class))
        assert running.stop(60)
        del running
    for thread in threading.enumerate():
        if thread.name == "Child":
            thread.join(60)
    gc.collect()
    assert sum(reference() is not None for reference in classes) <= 1


def test_a_module_that_is_not_ready_at_its_start_stays_so(bed: Bed, log: Log) -> None:
    class Full(Noting):
        def on_start(self) -> None:
            self.announce_not_ready("the disk is full")

    hive = bed.started(Full, log)
    readiness = hive.readiness()["noting"]
    assert (readiness.state, readiness.reason) == (State.NOT_READY, "the disk is full")


def test_a_module_forgets_actors_that_have_ended(bed: Bed, log: Log) -> None:
    """After a burst of work with an actor for each piece, nothing of them is left, though no other actor is started."""

    class Hiring(Noting):
        name = "hiring"

        @handles(ResourceType.NODE)
        def hire(self, message: Message) -> None:
            for _ in range(300):
                self.start_actor(Child, self.log).stop()
            self.log(self._Module__children)  # type: ignore[attr-defined]

    hive = bed.started(Hiring, log)
    hive.send("hiring", bed.message("null/node/n"))
    bed.until(lambda: isinstance(log.entries[-1], dict) and not log.entries[-1])


def test_a_module_forgets_an_actor_that_has_ended_before_its_start_returns(log: Log) -> None:
    class Brief(Actor):
        def on_start(self) -> None:
            self.stop()

    class AtOnce(Threads):
        def _spawn(self, function: Callable[[], None], name: str) -> None:
            thread = threading.Thread(target=function, name=name, daemon=True)
            thread.start()
            if name == "hiring/Brief":
                thread.join()

    class Hiring(Noting):
        name = "hiring"

        def on_start(self) -> None:
            self.start_actor(Brief)
            self.log(dict(self._Module__children))  # type: ignore[attr-defined]

    bed = Bed(AtOnce())
    bed.started(Hiring, log)
    bed.close()
    assert log.entries == [{}, "stop hiring"]


def test_the_threads_carry_their_module_s_name(log: Log) -> None:
    """So a thread dump shows which thread is whose."""
    bed = Bed(Threads())
    bed.started(Parent, log)
    names = {thread.name for thread in threading.enumerate()}
    assert {"supervisor", "parent", "parent/Child"} <= names
    bed.close()
    assert bed.leftovers() == []
