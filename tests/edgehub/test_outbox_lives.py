"""Random lives of the outbox on a slow and failing disk: whatever was answered is on it, or with the cloud."""

import random
from collections.abc import Iterable

import pytest

from beehive import Message
from beehive.testing import Harness
from edgehub.errors import OutboxError
from edgehub.outbox.store import OutboxStore, StoredMessage
from tests.edgehub.beds import Bed
from tests.edgehub.messages import message


class SlowDisk:
    """An outbox whose writes take seconds of virtual time, and fail at times.

    Args:
        draw: of how long and when.
        bee: has the time.
    """

    def __init__(self, draw: random.Random, bee: Harness) -> None:
        self.rows: dict[int, StoredMessage] = {}
        self.fails = draw.random() < 0.3
        self._draw = draw
        self._bee = bee

    def open(self) -> OutboxStore:
        self._check("open")
        return self

    def load(self) -> list[StoredMessage]:
        return [self.rows[serial] for serial in sorted(self.rows)]

    def change(self, put: Iterable[StoredMessage], gone: Iterable[int]) -> None:
        over = self._bee.simulation.future()
        self._bee.clock.after(self._draw.choice((0.0, 0.3, 4.0)), lambda: over.set(None))
        over.get()
        self._check("write")
        self.rows.update((one.serial, one) for one in put)
        for serial in gone:
            self.rows.pop(serial, None)

    def close(self) -> None:
        """Nothing is open."""

    def has(self, text: str) -> bool:
        """Whether the file has a message with a text."""
        return any(text.encode() in one.frame for one in self.rows.values())

    def _check(self, attempt: str) -> None:
        if self.fails:
            raise OutboxError(attempt, "disk", "full")


class Life:
    """edgehub with such a disk, and with messages of applications."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)  # noqa: S311 - reproducible on purpose
        self.bed = Bed(seed=seed, refusing=self.draw.random() < 0.5, open_outbox=self._open)
        self.disk = SlowDisk(self.draw, self.bed.bee)
        self.texts: list[str] = []
        self.asked: dict[str, list[str]] = {}
        """The messages of each request, by its id."""
        self.lost: list[str] = []
        self.unsafe: list[str] = []
        """Messages that were answered before they were written."""

    def _open(self) -> OutboxStore:
        return self.disk.open()

    def live(self) -> None:
        """Some minutes."""
        bee = self.bed.bee
        respond = bee.hive.respond

        def checked(answer: Message, by: str | None = None) -> bool:
            kept = answer.content if isinstance(answer.content, int) else 0
            self.unsafe += [text for text in self.asked.pop(answer.parent_id, [])[:kept] if not self._is_safe(text)]
            return respond(answer, by)

        bee.hive.respond = checked  # type: ignore[method-assign, assignment]
        with bee:
            bee.start()
            for _ in range(60):
                self._step()
                bee.run_for(self.draw.choice((0.0, 0.1, 1.0, 5.0)))
            self.disk.fails = False
            bee.run_for(30.0)
            for _ in range(3):  # the first is being written when the node is stopped
                self._upload()
                bee.settle()
        self.lost = [text for text in self.texts if not self._is_safe(text)]

    def _step(self) -> None:
        match self.draw.randrange(8):
            case 0 | 1 | 2:
                self._upload()
            case 3 | 4:
                self._ask()
            case 5:
                self.disk.fails = self.draw.random() < 0.3
            case 6:
                self.bed.cloud.refusing = True
                self.bed.cloud.cut()
            case _:
                self.bed.cloud.refusing = False

    def _text(self) -> str:
        self.texts.append(f"text-{len(self.texts)}-")
        return self.texts[-1]

    def _upload(self) -> None:
        self.bed.bee.hive.send("websocket", message("default/device/d", "upload", self._text()))

    def _ask(self) -> None:
        texts = [self._text() for _ in range(self.draw.randrange(1, 4))]
        content = [part for text in texts for part in ("a/user/b", text)]
        request = message("session", "upload", content, source="bus", group="user")
        self.asked[request.id] = texts
        self.bed.bee.future("websocket", request)

    def _is_safe(self, text: str) -> bool:
        return self.disk.has(text) or any(text.encode() in frame for frame in self.bed.cloud.frames)


@pytest.mark.parametrize("seed", range(12))
def test_answered_messages_are_on_the_disk_or_with_the_cloud_also_after_a_stop(seed: int) -> None:
    life = Life(seed)
    life.live()
    assert (life.unsafe, life.lost) == ([], [])
