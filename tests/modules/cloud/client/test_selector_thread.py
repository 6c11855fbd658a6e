"""The thread of the transport: every posted call is made, from any thread and at any time."""

import selectors
import socket
import threading
from contextlib import ExitStack

from modules.cloud.client.http.selector_thread import SelectorThread
from tests.support.patience import PATIENCE


class _Idle:
    def on_socket(self, key: str, happened: int) -> None:
        """Do nothing."""

    def end_turn(self) -> None:
        """Do nothing."""

    def end_all(self) -> None:
        """Do nothing."""


def _thread() -> SelectorThread[str]:
    return SelectorThread("test", _Idle())


def test_calls_of_many_threads_are_all_made() -> None:
    """A call that finds others waiting wakes nobody, and is made with them."""
    thread, made, done = _thread(), list[int](), threading.Event()

    def take(number: int) -> None:
        made.append(number)
        if len(made) == 4000:
            done.set()

    def post(first: int) -> None:
        for number in range(first, first + 1000):
            thread.post(lambda number=number: take(number))  # type: ignore[misc]

    posters = [threading.Thread(target=post, args=(first,)) for first in range(0, 4000, 1000)]
    for poster in posters:
        poster.start()
    assert done.wait(PATIENCE)
    for poster in posters:
        poster.join()
    thread.close()
    for first in range(0, 4000, 1000):
        assert [number for number in made if first <= number < first + 1000] == list(range(first, first + 1000))


def test_who_wakes_the_thread_never_waits() -> None:
    """However often it was woken before."""
    thread = _thread()
    assert [each.gettimeout() for each in (thread._waker, thread._woken)] == [0.0, 0.0]
    for _ in range(2000):
        thread._wake()
    thread.close()


def test_a_call_may_post_another_and_fail() -> None:
    """The next one is still made, after the earlier ones."""
    thread, made, done = _thread(), list[str](), threading.Event()

    def third() -> None:
        made.append("third")
        done.set()

    def first() -> None:
        made.append("first")
        thread.post(third)
        raise RuntimeError

    def both() -> None:
        thread.post(first)
        thread.post(lambda: made.append("second"))

    thread.post(both)
    assert done.wait(PATIENCE)
    thread.close()
    assert made == ["first", "second", "third"]
    assert not thread.post(lambda: None)


def test_a_socket_that_another_one_has_replaced_is_not_watched() -> None:
    """As when the next address of a host is tried: the number of the former one may be another connection's by then."""
    told, asked = list[str](), threading.Event()

    class User(_Idle):
        def on_socket(self, key: str, happened: int) -> None:
            """Note the data that has come."""
            told.append(key if happened == selectors.EVENT_READ else "other events")
            thread.watch(key, None, 0)
            asked.set()

    thread = SelectorThread[str]("test", User())
    with ExitStack() as stack:
        former, its_peer = map(stack.enter_context, socket.socketpair())
        later, peer = map(stack.enter_context, socket.socketpair())

        def watch() -> None:
            for each in (former, later):
                thread.watch("key", each, selectors.EVENT_READ)
            thread.watch("another", former, selectors.EVENT_READ)
            thread.watch("another", None, 0)
            its_peer.send(b"x")
            peer.send(b"x")

        assert thread.post(watch)
        assert asked.wait(PATIENCE)
        thread.close()
    assert told == ["key"]
