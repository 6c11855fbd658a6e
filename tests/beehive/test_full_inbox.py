"""A busy module with a full inbox: which messages have no room, and who learns of it."""

from collections import Counter

import pykka
import pytest

from beehive import (
    DeliveryRecord,
    DropReason,
    Hive,
    Message,
    Module,
    Operation,
    Outcome,
    OverflowPolicy,
    ResourceType,
    handles,
)
from beehive.delivery import Delivery, DeliveryMode
from beehive.errors import UndeliverableError
from beehive.inbox import COMMAND_CAPACITY, TELEMETRY_CAPACITY
from tests.beehive.beds import Bed, Log


class Blocked(Module):
    """Handles nothing until it is let go."""

    name = "blocked"
    group = "slow"

    def __init__(self, gate: pykka.Future[None], log: Log) -> None:
        super().__init__()
        self.gate, self.log = gate, log

    @handles(ResourceType.NODE)
    def wait(self, message: Message) -> None:
        self.log("waits")
        self.gate.get()

    @handles(ResourceType.POD)
    def command(self, message: Message) -> None:
        self.log(message.content)

    @handles(ResourceType.PODSTATUS, overflow=OverflowPolicy.STATE)
    def state(self, message: Message) -> None:
        self.log(message.content)

    @handles(ResourceType.EVENT, overflow=OverflowPolicy.TELEMETRY)
    def telemetry(self, message: Message) -> None:
        self.log(message.content)


def blocked_hive(bed: Bed, log: Log, taps: tuple[object, ...] = ()) -> tuple[Hive, pykka.Future[None]]:
    """A hive whose one module is inside a handler until the future is set."""
    gate: pykka.Future[None] = bed.runtime.future()
    hive = bed.hive(put_timeout=0.05, taps=taps)
    hive.add(Blocked, gate, log)
    hive.start()
    hive.send("blocked", bed.message("null/node/n"))
    bed.until(lambda: log.entries == ["waits"])
    return hive, gate


def test_a_command_without_room_is_a_dead_letter_with_its_reason(bed: Bed, log: Log) -> None:
    """The sender waits for the hive's put timeout and then keeps the message; earlier messages are handled."""
    hive, gate = blocked_hive(bed, log)
    for number in range(COMMAND_CAPACITY):
        hive.send("blocked", bed.message(content=number))
    assert hive.depths() == {"blocked": COMMAND_CAPACITY}
    hive.send("blocked", bed.message(content="too many"))
    assert [(letter.message.content, letter.reason) for letter in hive.dead_letters] == [
        ("too many", DropReason.INBOX_FULL)
    ]
    gate.set()
    bed.until(lambda: len(log) == COMMAND_CAPACITY + 1)
    assert log.entries[1:] == list(range(COMMAND_CAPACITY))


def test_every_drop_is_counted_by_its_reason(bed: Bed, log: Log) -> None:
    """Coalesced states and dropped telemetry are seen by the taps; states keep their place."""

    class Count:
        def __init__(self) -> None:
            self.outcomes: Counter[tuple[Outcome, DropReason | None]] = Counter()

        def delivered(self, record: DeliveryRecord) -> None:
            self.outcomes[record.outcome, record.reason] += 1

    tap = Count()
    hive, gate = blocked_hive(bed, log, (tap,))
    for number in range(3):
        hive.send("blocked", bed.message("default/podstatus", Operation.UPDATE, f"state {number}"))
        hive.send("blocked", bed.message(content=f"command {number}"))
    for number in range(TELEMETRY_CAPACITY + 5):
        hive.send("blocked", bed.message("default/event/e", content=number))
    gate.set()
    bed.until(lambda: len(log) == 1 + 4 + TELEMETRY_CAPACITY)
    assert log.entries[1:5] == ["state 2", "command 0", "command 1", "command 2"]
    assert log.entries[5:] == list(range(5, TELEMETRY_CAPACITY + 5))
    bed.until(lambda: tap.outcomes[Outcome.HANDLED, None] == 1 + 4 + TELEMETRY_CAPACITY)
    assert tap.outcomes[Outcome.COALESCED, DropReason.SUPERSEDED] == 2
    assert tap.outcomes[Outcome.DROPPED, DropReason.OLDEST_TELEMETRY] == 5


def test_states_of_different_sources_are_different_objects(bed: Bed, log: Log) -> None:
    """Coalescing goes by resource, operation and source: one must not swallow another's."""
    hive, gate = blocked_hive(bed, log)
    for operation in (Operation.INSERT, Operation.UPDATE):
        for source in ("a", "b"):
            message = bed.message("default/podstatus", operation, f"{operation} of {source}")
            hive.send("blocked", message.with_route(source=source))
    gate.set()
    bed.until(lambda: len(log) == 5)


@pytest.mark.parametrize("way", ["broadcast", "send", "request", "state"])
def test_who_does_not_wait_for_room_goes_on_and_the_message_waits(
    bed: Bed, log: Log, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The member gets the message once it has room, or it is a dead letter."""
    monkeypatch.setattr("beehive.inbox.STATE_CAPACITY", 0)
    hive, gate = blocked_hive(bed, log)
    for number in range(COMMAND_CAPACITY):
        hive.send("blocked", bed.message(content=number))

    def send(content: str) -> None:
        message = bed.message(content=content)
        match way:
            case "broadcast":
                hive.broadcast("slow", message)
            case "send":
                hive.send("blocked", message, waits=False)
            case "request":
                hive.request_then("blocked", message, 60.0, log, waits=False)
            case _:
                hive.broadcast("slow", message.with_route(resource="default/podstatus/p"))

    def both() -> dict[DropReason, int]:
        send("first")
        send("second")
        return dict(hive.dead_letters.counts)

    assert bed.on_the_clock(both) == {}
    bed.until(lambda: hive.dead_letters.counts[DropReason.INBOX_FULL] == 2)
    assert [type(one) for one in log.entries[1:]] == [UndeliverableError] * 2 * (way == "request")
    hive.slot("blocked").inbox._put_timeout = 60.0
    send("third")
    gate.set()
    bed.until(lambda: log.entries[-1] == "third")


def test_the_text_of_a_dead_letter_is_bounded(bed: Bed) -> None:
    """It may quote the message."""
    hive = Hive(bed.runtime)
    hive.dead_letter("nobody", Delivery(Message(), lambda *_: None, DeliveryMode.SEND), DropReason.POISON, "x" * 9999)
    assert [len(letter.detail) for letter in hive.dead_letters] == [1024]
