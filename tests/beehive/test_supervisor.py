"""A module that fails is started again while the others go on; what poisons it ends in the dead letters."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive import Actor, DropReason, Hive, Message, Module, ResourceType, State, handles
from beehive.backoff import Backoff
from beehive.errors import RequestLostError, UndeliverableError
from beehive.supervisor import FIRST_DELAY, GOOD_RUN, LONGEST_DELAY
from beehive.testing import Harness
from tests.beehive.beds import Bed, Log
from tests.support.failing import left_by_repeating
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.modules_fail


class Fragile(Module):
    """Fails at chosen messages."""

    name = "fragile"
    starts_that_fail: int = 0

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    def on_start(self) -> None:
        self.log("start")

    @handles(ResourceType.POD)
    def pod(self, message: Message) -> None:
        self.log(message.content)
        if message.content == "poison":
            raise ValueError("cannot take it")
        if message.content == "exit":
            raise SystemExit(3)

    @handles(ResourceType.SECRET)
    def once(self, message: Message) -> None:
        self.log(message.content)
        if self.log.entries.count(message.content) == 1:
            raise ValueError("only the first time")


class Steady(Module):
    """Never fails."""

    name = "steady"

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    @handles(ResourceType.POD)
    def pod(self, message: Message) -> None:
        self.log(("steady", message.content))


def fragile_hive(bed: Bed, log: Log, *more: type[Module]) -> Hive:
    """A started hive."""
    hive = bed.hive()
    hive.add(Fragile, log)
    for module in more:
        hive.add(module, log)
    hive.start()
    return hive


def test_a_failed_module_starts_again_and_its_inbox_survives(bed: Bed, log: Log) -> None:
    """The message is tried again first, what waited behind it follows, nothing is lost; the others do not notice."""
    hive = fragile_hive(bed, log, Steady)
    hive.send("fragile", bed.message("default/secret/s", content="try again"))
    hive.send("fragile", bed.message(content="behind"))
    hive.send("steady", bed.message(content="goes on"))
    bed.until(lambda: ("steady", "goes on") in log.entries)
    bed.until(lambda: "behind" in log.entries)
    fragile = [entry for entry in log.entries if isinstance(entry, str)]
    assert fragile == ["start", "try again", "start", "try again", "behind"]
    assert hive.restarts() == {"fragile": 1, "steady": 0}
    assert hive.readiness()["fragile"].state is State.READY
    assert len(hive.dead_letters) == 0


def test_a_failed_module_has_its_reason(bed: Bed, log: Log) -> None:
    """Between failure and restart, readiness carries the exception."""
    hive = fragile_hive(bed, log)
    seen = []
    hive.slot("fragile").restart = lambda: seen.append(hive.readiness()["fragile"])  # type: ignore[method-assign]
    hive.send("fragile", bed.message(content="poison"))
    bed.until(lambda: bool(seen))
    assert (seen[0].state, seen[0].reason) == (State.FAILED, "ValueError: cannot take it")


def test_a_poison_message_ends_in_the_dead_letters(log: Log) -> None:
    """After three attempts it is kept with the exception, the module keeps running, and a waiting sender gets the error
    at once.
    """
    with Harness() as bee:
        bee.expect_failures()
        bee.start(Fragile, log)
        future = bee.future("fragile", bee.message("default/pod/a", "insert", "poison"), 3600)
        bee.send("fragile", bee.message("default/pod/a", "insert", "good"), wait=200)
        assert log.entries.count("poison") == 3
        assert log.entries[-1] == "good"
        assert [(letter.reason, letter.detail) for letter in bee.hive.dead_letters] == [
            (DropReason.POISON, "ValueError: cannot take it")
        ]
        with pytest.raises(UndeliverableError, match="fragile"):
            future.get()


class Owing(Module):
    """Answers no message by itself; fails at `poison`, and at the message that the log asks for."""

    name = "owing"
    group = "owing"
    attempts = 2

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    @handles(ResourceType.POD)
    def pod(self, message: Message) -> None:
        if message.header.sync:
            return
        self.owe(message)
        if message.content == "settled":
            self.settle(message)
        if message.content == "poison":
            raise ValueError("cannot take it")

    @handles(ResourceType.SECRET)
    def delegated(self, message: Message) -> None:
        self.delegate(message, "steady")
        self.send("steady", message)

    def give_up(self, message: Message) -> None:
        self.log(message.content)
        if message.content == "bad":
            raise ValueError("cannot answer it")


def test_a_failed_module_gives_up_the_messages_that_are_not_tried_again(log: Log) -> None:
    """Each once, although one cannot be answered; one that it fails on, after the last try."""
    with Harness() as bee:
        bee.expect_failures()
        bee.start(Owing, log)
        for content in ("bad", "open", "settled", "poison"):
            bee.send("owing", bee.message("default/pod/a", "insert", content))
        assert log.entries == ["bad", "open"]
        bee.run_for(200)
        assert log.entries == ["bad", "open", "poison"]
        bee.send("owing", bee.message("default/pod/a", "insert", "stopped"))
    assert log.entries == ["bad", "open", "poison"], "what a process owes to another one, its link's end tells"


def test_a_request_to_a_module_that_fails_or_stops_ends_at_once(log: Log) -> None:
    """But not one that waits in its inbox, is tried again, or has been passed on: another may still answer it."""

    class Silent(Steady):
        @handles(ResourceType.SECRET)
        def secret(self, _: Message) -> None:
            pass

    with Harness() as bee:
        bee.expect_failures()
        bee.add(Owing, log)
        bee.start(Silent, log)
        asked, passed = (bee.future("owing", bee.message(f"default/{kind}/a", "q"), 3600) for kind in ("pod", "secret"))
        bee.hive.send("owing", bee.message("default/pod/a", "insert", "poison"))
        behind = bee.future("owing", bee.message("default/pod/a", "q"), 3600)
        bee.settle()
        with pytest.raises(RequestLostError, match="owing has ended before its answer"):
            asked.get()
        bee.run_for(200)
        assert not behind.settled
        assert not passed.settled
        bee.hive.stop()
        bee.settle()
        with pytest.raises(RequestLostError, match="owing"):
            behind.get()
        with pytest.raises(RequestLostError, match="steady"):
            passed.get()


def test_a_request_that_is_tried_again_is_answered_by_the_next_instance(log: Log) -> None:
    """Also when that fails at its start before."""

    class Hesitating(Fragile):
        def on_start(self) -> None:
            super().on_start()
            if self.log.entries.count("start") == 2:
                raise ValueError("cannot start yet")

        @handles(ResourceType.NODE)
        def node(self, message: Message) -> None:
            self.once(message)
            self.reply(message, "at last")

    with Harness() as bee:
        bee.expect_failures()
        bee.start(Hesitating, log)
        answer = bee.future("fragile", bee.message("default/node/a", "q", 1), 3600)
        bee.run_for(200)
        assert answer.get().content == "at last"


def test_what_a_failed_module_has_asked_is_open_no_longer(log: Log) -> None:
    """Its next instance may ask the same again, and hears the answer."""

    class Asking(Fragile):
        @handles(ResourceType.NODE)
        def node(self, message: Message) -> None:
            self.request("other", message, 3600, lambda answer: self.log(str(getattr(answer, "content", answer))))

    with Harness() as bee:
        bee.expect_failures()
        bee.start(Asking, log)
        question = bee.message("default/node/a", "q")
        bee.send("fragile", question)
        bee.send("fragile", bee.message("default/secret/s", "q", "fails"), wait=60)
        assert len(bee.hive.pending_requests) == 0
        bee.answer("other", lambda asked: asked.reply(bee.clock, "heard"))
        bee.send("fragile", question, wait=1)
    assert log.entries[-1] == "heard"


def test_a_request_that_was_passed_on_and_finds_no_room_ends_at_once(log: Log) -> None:
    """As one that finds none where it was sent: its sender waits for the answer of either."""
    with Harness() as bee:
        bee.add(Owing, log)
        bee.start(Steady, log)
        with pytest.raises(UndeliverableError, match="steady"):
            bee.ask("owing", bee.message("default/secret/a", "q"), 3600)


def test_a_module_may_have_its_own_number_of_tries(log: Log) -> None:
    """`attempts` is the module's."""

    class Impatient(Fragile):
        attempts = 1

    with Harness() as bee:
        bee.expect_failures()
        bee.start(Impatient, log)
        bee.send("fragile", bee.message("default/pod/a", "insert", "poison"), wait=200)
    assert log.entries == ["start", "poison", "start"]


def test_a_module_that_never_runs_for_long_is_started_ever_more_seldom(log: Log) -> None:
    """However long ago its first failure was."""

    class Doomed(Module):
        name = "doomed"

        def on_start(self) -> None:
            log("start")
            self.call_soon(self._fail)

        def _fail(self) -> None:
            raise ValueError("again")

    with Harness() as bee:
        bee.expect_failures()
        bee.start(Doomed)
        bee.run_for(100 * LONGEST_DELAY)
    assert len(log.entries) < 300


def test_exit_in_a_handler_is_a_failure_like_any_other(bed: Bed, log: Log) -> None:
    """`SystemExit` must not silently end one thread, nor all actors of the process as in bare pykka."""
    hive = fragile_hive(bed, log, Steady)
    hive.send("fragile", bed.message(content="exit"))
    bed.until(lambda: log.entries.count("start") >= 2)
    hive.send("steady", bed.message(content="alive"))
    bed.until(lambda: ("steady", "alive") in log.entries)


def test_an_inner_actor_that_fails_fails_its_module(bed: Bed, log: Log) -> None:
    """The module is started again with a new one; the old one's siblings have ended."""

    class Inner(Actor):
        def on_start(self) -> None:
            log("inner start")

        def on_stop(self) -> None:
            log("inner stop")

        def on_receive(self, message: object) -> object:
            raise ValueError(f"inner cannot take {message}")

    class Outer(Fragile):
        def on_start(self) -> None:
            self.log("start")
            self.sibling = self.start_actor(Inner)
            self.inner = self.start_actor(Inner)

        @handles(ResourceType.NODE)
        def node(self, message: Message) -> None:
            self.inner.tell(message.content)

        @handles(ResourceType.CONFIGMAP)
        def ask(self, message: Message) -> None:
            try:
                self.inner.ask(message.content)
            except ValueError as error:
                self.log(str(error))

    hive = bed.started(Outer, log)
    hive.send("fragile", bed.message("a/configmap/c", content="a question"))
    bed.until(lambda: "inner cannot take a question" in log.entries)
    assert hive.restarts() == {"fragile": 0}
    hive.send("fragile", bed.message("null/node/n", content="this"))
    bed.until(lambda: log.entries.count("inner start") == 4)
    assert log.entries.count("inner stop") == 1
    assert hive.restarts() == {"fragile": 1}


def test_an_inner_actor_that_cannot_start_fails_its_module(bed: Bed, log: Log) -> None:
    """Pykka only logs the error; the module must fail too, even inside of its own `on_start`."""

    class Unlucky(Actor):
        def on_start(self) -> None:
            if log.entries.count("start") == 1:
                raise ValueError("no socket")

    class Outer(Fragile):
        def on_start(self) -> None:
            self.log("start")
            self.start_actor(Unlucky)

    hive = bed.started(Outer, log)
    bed.until(lambda: hive.restarts() == {"fragile": 1} and hive.readiness()["fragile"].state is State.READY)
    assert log.entries == ["start", "start"]


def test_a_restart_that_fails_is_tried_again(bed: Bed, log: Log) -> None:
    """`on_start` or the constructor raising at a restart leads to the next try, not to a dead module."""

    class Rising(Fragile):
        def __init__(self, log: Log) -> None:
            super().__init__(log)
            log("make")
            if log.entries.count("make") == 2:
                raise ValueError("cannot be made")

        def on_start(self) -> None:
            self.log("start")
            if self.log.entries.count("make") == 3:
                raise ValueError("cannot start")

    hive = bed.started(Rising, log)
    hive.send("fragile", bed.message("default/secret/s", content="once"))
    bed.until(lambda: log.entries.count("once") == 2, 60)
    assert log.entries == ["make", "start", "once", "make", "make", "start", "make", "start", "once"]
    assert hive.restarts() == {"fragile": 3}


def test_restarts_are_spread_by_full_jitter() -> None:
    """Each delay is within the doubling ceiling; a good run resets the delay."""

    def delays(seed: int, pause: float) -> list[float]:
        log = Log()
        with Harness(seed) as bee:
            bee.expect_failures()
            bee.start(Fragile, log)
            gaps = []
            for number in range(8):
                begin, starts = bee.clock.monotonic(), log.entries.count("start")
                bee.send("fragile", bee.message("default/secret/s", "insert", number))
                assert bee.simulation.scheduler.wait_until(lambda: log.entries.count("start") > starts, 60)  # noqa: B023
                gaps.append(bee.clock.monotonic() - begin)
                bee.run_for(pause)
            return gaps

    many = [delays(seed, 0) for seed in range(12)]
    for gaps in many:
        for number, gap in enumerate(gaps):
            assert 0 <= gap <= min(LONGEST_DELAY, FIRST_DELAY * 2.0**number)
    assert max(gaps[7] for gaps in many) > 10
    assert min(gaps[7] for gaps in many) < 10
    assert all(gap <= FIRST_DELAY for gap in delays(1, GOOD_RUN + 1))


@given(st.floats(0.001, 100), st.floats(0.001, 1000), st.integers(0, 2**32), st.integers(1, 80))
def test_backoff_stays_below_its_ceiling(base: float, limit: float, seed: int, failures: int) -> None:
    """Every draw is between zero and the ceiling, which doubles up to the limit; a good run resets it."""
    backoff, source = Backoff(base, limit, 3.0), random.Random(seed)  # noqa: S311
    for number in range(failures):
        ceiling = backoff.ceiling()
        assert ceiling == min(limit, base * 2.0 ** min(number, 60))
        assert 3 <= backoff.next(source) <= 3 + ceiling
    backoff.reset()
    assert backoff.ceiling() == min(limit, base)


def test_a_restart_is_not_begun_after_the_stop(log: Log) -> None:
    """A module that waits for its restart when the hive stops stays stopped, and its messages become dead letters. A
    supervisor that did not end in time starts it no more either.
    """
    bee = Harness()
    bee.expect_failures()
    bee.start(Fragile, log)
    bee.send("fragile", bee.message("default/secret/s", "insert", "once"))
    assert bee.hive.readiness()["fragile"].state is State.FAILED
    bee.hive.stop()
    bee.run_for(120)
    bee.hive.slot("fragile").restart()
    assert log.entries == ["start", "once"]
    assert bee.hive.restarts() == {"fragile": 0}
    assert bee.hive.dead_letters.counts == {DropReason.STOPPED: 1}
    assert bee.simulation.scheduler.alive() == []


def test_a_failure_while_stopping_does_not_hold_the_stop(bed: Bed, log: Log) -> None:
    """What fails among the messages before the stop ends the module; the rest become dead letters."""
    gate = bed.runtime.future()

    class Held(Fragile):
        @handles(ResourceType.NODE)
        def hold(self, message: Message) -> None:
            gate.get()

    hive = bed.started(Held, log)
    hive.send("fragile", bed.message("null/node/n"))
    hive.send("fragile", bed.message("default/secret/s", content="once"))
    hive.send("fragile", bed.message(content="behind"))
    stopped = bed.runtime.call(lambda: hive.stop(60), name="stop")
    bed.until(lambda: hive.slot("fragile")._stopping)
    gate.set()
    stopped.get(timeout=PATIENCE)
    assert hive.readiness()["fragile"].state is State.STOPPED
    assert "behind" not in log.entries
    assert hive.dead_letters.counts == {DropReason.STOPPED: 2}


def test_a_new_life_does_not_inherit_timers_and_answers_of_the_old(log: Log) -> None:
    """A callback belongs to the instance that set it: after a restart it must not run, on either instance."""

    class Timed(Fragile):
        def on_start(self) -> None:
            self.log("start")
            if self.log.entries.count("start") == 1:
                self.every(1.0, lambda: self.log("old tick"))
                self.after(2.0, lambda: self.log("old timer"))
                self.request("absent", self.message("a/pod/b", "query"), 60, lambda _result: self.log("old answer"))

        @handles(ResourceType.NODE)
        def fail_with_a_full_inbox(self, message: Message) -> None:
            self.call_soon(lambda: self.log("old continuation"))
            raise ValueError("now")

    with Harness() as bee:
        bee.expect_failures()
        bee.start(Timed, log)
        [question] = bee.sent_to("absent")
        bee.send("fragile", bee.message("null/node/n", "insert"))
        bee.hive.respond(question.reply(bee.clock))
        bee.run_for(300)
    assert "old tick" not in log.entries
    assert set(log.entries) == {"start"}


def test_neither_a_failure_nor_a_stop_leaves_a_timer(log: Log) -> None:
    """Of the module, or for its restart: a node's clock goes on for years."""

    class Ticking(Fragile):
        def on_start(self) -> None:
            self.every(3600.0, lambda: None)

    with Harness() as bee:
        bee.expect_failures()
        bee.start(Ticking, log)
        numbers = itertools.count()

        def fail() -> None:
            bee.send("fragile", bee.message("default/secret/s", "insert", f"once {next(numbers)}"))

        def fail_and_start_again() -> None:
            fail()
            bee.run_for(2 * LONGEST_DELAY)

        assert not left_by_repeating(fail_and_start_again, bee.clock)
        fail()
        bee.hive.stop()
        assert not any(alarm.active for *_, alarm in bee.clock._alarms._heap)


class Batching(Module):
    """Commits in groups."""

    name = "batching"
    batch_limit = 3

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log
        self.pending: list[object] = []

    @handles(ResourceType.POD)
    def pod(self, message: Message) -> None:
        if message.content == "bad":
            raise ValueError("bad")
        self.pending.append(message.content)

    def on_batch_end(self) -> None:
        if "no disk" in self.pending and self.log.entries.count("commit fails") < 2:
            self.log("commit fails")
            raise OSError("disk full")
        self.log(tuple(self.pending))
        self.pending.clear()


def committed(log: Log) -> list[object]:
    """All that was committed, in order."""
    return [content for entry in log.entries if isinstance(entry, tuple) for content in entry]


def batching(bee: Harness, log: Log, *contents: object) -> None:
    """Give the module all these messages together."""
    bee.add(Batching, log)
    bee.hive.start()
    for content in contents:
        bee.hive.send("batching", bee.message("default/pod/a", "insert", content))


def test_a_batch_ends_at_its_limit_and_when_the_inbox_is_empty(log: Log) -> None:
    """A module that always has more to do still commits."""
    with Harness() as bee:
        batching(bee, log, *range(7))
        bee.settle()
        assert log.entries == [(0, 1, 2), (3, 4, 5), (6,)]


class Asking(Batching):
    """Asks for the end of a turn at its start, in a call, and at the end of the first turn."""

    def on_start(self) -> None:
        self.end_turn_soon(lambda: self.pending.append("start"))

    def on_batch_end(self) -> None:
        if not self.log.entries:
            self.call_soon(lambda: self.end_turn_soon(lambda: self.pending.append("call")))
            self.end_turn_soon(lambda: self.pending.append("end"))
        super().on_batch_end()


def test_a_turn_ends_when_it_is_asked_for_outside_of_messages(log: Log) -> None:
    """At the start, by a call, and during the end of another turn: each is followed by a commit."""
    with Harness() as bee:
        bee.start(Asking, log)
        bee.settle()
        assert log.entries[0] == ("start",)
        assert sorted(map(str, committed(log))) == ["call", "end", "start"]


def test_a_stop_commits_handled_messages(log: Log) -> None:
    """The stop may come before the inbox was seen empty; what comes behind it is not handled."""
    bee = Harness()
    batching(bee, log, 0, 1)
    running = bee.hive.slot("batching").running
    assert running is not None
    running.ask_to_stop()
    bee.send("batching", bee.message("default/pod/a", "insert", 2))
    bee.hive.stop()
    assert (log.entries, len(bee.hive.dead_letters)) == ([(0, 1)], 1)


class Hasty(Batching):
    """Commits after some seconds, too."""

    name = "hasty"
    batch_limit = 100
    batch_seconds = 1.0


def test_a_batch_ends_when_it_has_taken_its_time(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its transaction keeps others from the database."""
    with Harness() as bee:
        times = itertools.count(step=0.4)
        monkeypatch.setattr(bee.clock, "monotonic", lambda: next(times))
        bee.add(Hasty, log)
        bee.hive.start()
        for content in range(7):
            bee.hive.send("hasty", bee.message("default/pod/a", "insert", content))
        bee.settle()
    assert [entry for entry in log.entries if isinstance(entry, tuple)] == [(0, 1, 2), (3, 4, 5), (6,)]


def test_a_failure_in_a_batch_loses_nothing_of_it(log: Log) -> None:
    """What was handled but not committed is tried again, before the message that failed, and is not blamed."""
    with Harness() as bee:
        bee.expect_failures()
        batching(bee, log, *"abc", 1, 2, "bad", 3)
        bee.run_for(200)
        assert sorted(str(content) for content in committed(log)) == ["1", "2", "3", *"abc"]
        assert [letter.message.content for letter in bee.hive.dead_letters] == ["bad"]


def test_a_commit_that_fails_is_tried_again_with_all_its_messages(log: Log) -> None:
    """Each of them counts a try, since any of them may be the cause."""
    with Harness() as bee:
        bee.expect_failures()
        batching(bee, log, 1, "no disk", 2)
        bee.run_for(200)
        assert log.entries == ["commit fails", "commit fails", (1, "no disk", 2)]
        assert len(bee.hive.dead_letters) == 0
