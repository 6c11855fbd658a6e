"""A reflector and a model of an API server, with random writes and faults: in the end both have the same objects."""

import random

import pytest

from modules.cloud.client.http.kube_api import collection_request
from modules.cloud.client.reflector.effects import Added, CancelRequest, EpochChanged, Modified, StartRequest, Synced
from modules.cloud.client.reflector.reflector import LONGEST_SILENCE
from modules.cloud.client.transport import ApiRequest
from tests.modules.cloud.client.fake_api_server import FakeApiServer, FakeWatch, failure
from tests.modules.cloud.client.reflections import Reflection

SEEDS = 200
STEPS = 150


class World:
    """A reflector, its server and what lies between them.

    Args:
        seed: of everything that is drawn.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)  # noqa: S311 - reproducible on purpose
        self.server = FakeApiServer(self.draw)
        self.watch: FakeWatch | None = None
        self.unsent = b""
        """Of the watch: bytes that are on their way."""
        self.request: ApiRequest | None = None
        """Not yet answered."""
        self.told: set[tuple[str, str, str]] = set()
        """Name, uid and version of the objects of the changes, within an epoch."""
        self.epochs = 0
        for _ in range(5):
            self.server.write()
        self.reflection = Reflection(seed=seed)
        self.took()

    def took(self) -> None:
        """Follow the effects of an input, and check the changes among them."""
        for effect in self.reflection.effects:
            if isinstance(effect, StartRequest):
                assert self.request is None
                assert self.watch is None
                self.request = collection_request(effect.request)
            elif isinstance(effect, CancelRequest):
                self._closed()
            elif isinstance(effect, Synced):
                self.server.ceiling = 0
            elif isinstance(effect, EpochChanged):
                self.told.clear()
                self.epochs += 1
            elif isinstance(effect, Added | Modified):
                one = effect.object
                assert (one.name, one.uid, one.resource_version) not in self.told
                self.told.add((one.name, one.uid, one.resource_version))
        self.reflection.effects = []

    def _closed(self) -> None:
        self.request, self.watch, self.unsent = None, None, b""

    def pass_time(self, seconds: float) -> None:
        """Advance the clock, and wake the reflector when it is time to."""
        self.reflection.now += seconds
        if self.reflection.now >= self.reflection.wake_at:
            self.reflection.wake(0)
            self.took()

    def answer(self) -> None:
        """Answer the request that waits."""
        request, self.request = self.request, None
        if request is None:
            return
        if not request.stream:
            found = self.server.list(request)
            self._whole(found.status, found.body)
            return
        self.watch = FakeWatch(self.server, request)
        if self.watch.is_too_old and self.draw.random() < 0.5:
            self.watch = None
            self._whole(410, b"")
        else:
            self.reflection.head()

    def _whole(self, code: int, body: bytes, **headers: str) -> None:
        self.reflection.head(code, **headers)
        self.hand_in(body)
        self.reflection.end()
        self.took()

    def hand_in(self, body: bytes) -> None:
        """Hand in bytes in random pieces."""
        while body:
            size = self.draw.randint(1, max(1, len(body)))
            self.reflection.data(body[:size])
            self.took()
            body = body[size:]

    def send(self, *, bookmark: bool = False, cut: bool = False) -> None:
        """Send what the watch has; with `cut`, a part of it."""
        if self.watch is None:
            return
        self.unsent += self.watch.bookmark() if bookmark else self.watch.events()
        size = self.draw.randint(0, len(self.unsent)) if cut else len(self.unsent)
        sent, self.unsent = self.unsent[:size], self.unsent[size:]
        self.hand_in(sent)

    def end(self, *, by_error: bool) -> None:
        """End the response under way, or lose the answer that was not yet given."""
        if by_error and (self.watch or self.request):
            self._closed()
            self.reflection.error()
            self.took()
        elif self.watch is not None and not self.unsent:
            self._closed()
            self.reflection.end()
            self.took()

    def refuse(self) -> None:
        """Refuse the request that waits."""
        if self.request is not None:
            self.request = None
            code, body, headers = failure(self.draw)
            self._whole(code, body, **headers)

    def lose_part(self) -> None:
        """Answer a list with a part of the page, then close the connection."""
        if self.request is not None and not self.request.stream:
            found = self.server.list(self.request)
            self._closed()
            self.reflection.head(found.status)
            self.hand_in(found.body[: self.draw.randint(0, len(found.body) - 1)])
            self.reflection.error()
            self.took()

    def restore(self) -> None:
        """The server comes back with an older state: its connections are closed."""
        reflector = self.reflection.reflector
        self.server.restore(max(int(reflector._version or 0), int(reflector._list_version or 0)))
        self.end(by_error=True)

    def step(self) -> None:
        """Do something that may happen."""
        draw = self.draw
        actions = [
            (30, self.server.write),
            (20, self.answer),
            (15, self.send),
            (8, lambda: self.send(cut=True)),
            (6, lambda: self.send(bookmark=True)),
            (3, lambda: self.end(by_error=False)),
            (4, lambda: self.end(by_error=True)),
            (4, self.refuse),
            (2, self.lose_part),
            (2, self.server.compact),
            (2, self.restore),
        ]
        draw.choices([action for _, action in actions], [weight for weight, _ in actions])[0]()
        self.pass_time(draw.choice([0, 0.1, 1, 5, 20]))

    def settle(self) -> None:
        """Let the faults end: all is answered, bookmarks come in time."""
        until = self.reflection.now + LONGEST_SILENCE + 200
        while self.reflection.now < until:
            while self.request is not None:
                self.answer()
            self.send(bookmark=True)
            self.pass_time(50)
        while self.request is not None:
            self.answer()
        self.send()


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_after_all_faults_the_index_has_the_servers_objects(first: int) -> None:
    """Whatever was cut, lost, compacted or restored; and no change comes twice while versions do not go back."""
    for seed in range(first, first + 20):
        world = World(seed)
        for _ in range(STEPS):
            world.step()
        world.settle()
        assert world.reflection.index.objects == world.server.objects, f"seed {seed}"
        assert len(world.reflection.reflector) == len(world.server.objects), f"seed {seed}"


def test_the_simulation_meets_its_cases() -> None:
    """Some of the first seeds have restores that the reflector sees, and changes of each kind."""
    kinds, epochs = set(), 0
    for seed in range(30):
        world = World(seed)
        for _ in range(STEPS):
            world.step()
        world.settle()
        kinds |= {line.split()[0] for line in world.reflection.index.log}
        epochs += world.epochs
    assert kinds == {"Added", "Modified", "Deleted"}
    assert epochs > 5
