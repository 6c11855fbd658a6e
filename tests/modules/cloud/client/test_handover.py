"""The way from a transport's thread to a module's."""

from collections.abc import Callable
from functools import partial

from modules.cloud.client.kube_client import AT_ONCE, Handover


class Inbox:
    """A module's inbox."""

    def __init__(self) -> None:
        self.items: list[Callable[[], None]] = []
        self.handover = Handover(self.items.append)

    def take(self) -> None:
        """Take the oldest item."""
        self.items.pop(0)()


def test_functions_that_wait_share_an_item_in_order() -> None:
    """An item is for all that came before its turn; what comes while it is handled gets another."""
    inbox, called = Inbox(), list[int]()
    for number in range(3):
        inbox.handover.post(partial(called.append, number))
    assert len(inbox.items) == 1
    inbox.take()
    assert (called, inbox.items) == ([0, 1, 2], [])
    inbox.handover.post(lambda: inbox.handover.post(partial(called.append, 4)))
    inbox.take()
    assert (called, len(inbox.items)) == ([0, 1, 2], 1)
    inbox.take()
    assert called == [0, 1, 2, 4]


def test_a_thread_that_takes_its_item_at_once_finds_the_function() -> None:
    called = list[int]()
    Handover(lambda deliver: deliver()).post(partial(called.append, 1))
    assert called == [1]


def test_many_functions_let_other_items_through() -> None:
    """After some of them it is the turn of what came into the inbox meanwhile."""
    inbox, called = Inbox(), list[int]()
    for number in range(AT_ONCE + 1):
        inbox.handover.post(partial(called.append, number))
    inbox.items.append(partial(called.append, -1))
    while inbox.items:
        inbox.take()
    assert called == [*range(AT_ONCE), -1, AT_ONCE]


def test_after_a_failure_later_functions_are_called() -> None:
    """The functions behind the failed one are called with the next."""
    inbox, called = Inbox(), list[int]()
    inbox.handover.post(lambda: called.append(1 // 0))
    inbox.handover.post(partial(called.append, 1))
    try:
        inbox.take()
    except ZeroDivisionError:
        inbox.handover.post(partial(called.append, 2))
    inbox.take()
    assert called == [1, 2]
