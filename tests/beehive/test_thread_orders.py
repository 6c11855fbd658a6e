"""What holds of the bus in whatever order its threads run."""

import pykka
import pytest

import beehive.inbox
import beehive.requests
import beehive.runtime
from beehive import Message
from beehive.errors import InboxFullError
from beehive.inbox import Inbox
from beehive.requests import PendingRequests
from beehive.runtime import Threads
from tests.support.interleaving import SEEDS, Interleaving, explore

pytestmark = pytest.mark.parametrize("seed", SEEDS)


def test_commands_of_one_sender_keep_their_order_when_they_wait_outside(seed: int) -> None:
    sent = ["one", "two", "three", "four"]

    def scenario(threads: Interleaving) -> None:
        inbox, taken, given_up = Inbox(Threads(threads.clock), capacity=2), list[str](), list[str]()
        for item in sent[:3]:
            inbox.put_deferred(item, given_up.append)

        def send() -> None:
            inbox.put_deferred(sent[3], given_up.append)

        def take() -> None:
            while len(taken) + len(given_up) < len(sent):
                threads.wait_until(lambda: inbox.depth() or len(taken) + len(given_up) == len(sent))
                if inbox.depth():
                    taken.append(inbox.get())

        threads.run(take, send)
        assert taken == [item for item in sent if item not in given_up]

    explore(scenario, beehive.inbox, seed=seed, stalls=True)


def test_messages_to_an_ending_module_are_taken_or_refused(seed: int) -> None:
    def scenario(threads: Interleaving) -> None:
        inbox, ended, late = Inbox(Threads(threads.clock), capacity=1), list[str](), list[str]()

        def put() -> None:
            for item in ("one", "two"):
                try:
                    inbox.put(item)
                except InboxFullError:
                    late.append(item)

        def end() -> None:
            threads.wait_until(inbox.depth)
            ended.append(inbox.get())
            inbox.close(ended.append)

        threads.run(put, lambda: inbox.put_deferred("three", late.append), end)
        assert sorted(ended + late) == ["one", "three", "two"]
        assert inbox.empty()

    explore(scenario, beehive.inbox, seed=seed, stalls=True)


def test_a_request_ends_once(seed: int) -> None:
    def scenario(threads: Interleaving) -> None:
        requests, ends = PendingRequests(threads.clock), list[object]()
        question = Message.new(threads.clock, source="edged", resource="default/pod/a", operation="query")
        requests.register(question, 5.0, ends.append, asked=["metamanager"])

        def answer() -> None:
            requests.answer(question.reply(threads.clock), "metamanager")

        threads.run(answer, answer, lambda: requests.cancel(question.id, InboxFullError("ask", "full")))
        assert len(ends) == 1
        assert not requests.ids()

    explore(scenario, beehive.requests, seed=seed, stalls=True)


def test_a_future_wakes_everybody_who_waits(seed: int) -> None:
    def scenario(threads: Interleaving) -> None:
        future: pykka.Future[str] = Threads(threads.clock).future()
        got: list[str] = []
        threads.run(*[lambda: got.append(future.get())] * 2, lambda: future.set("answer"))
        assert got == ["answer", "answer"]

    explore(scenario, beehive.runtime, seed=seed)
