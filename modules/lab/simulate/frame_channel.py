"""One direction of a simulated connection."""

from collections import deque
from collections.abc import Callable

from modules.lab.simulate.world import World


class FrameChannel:
    """One direction of a connection. Frames of one lane arrive in their order.

    Args:
        world: the world of the run.
        delay: draws the travel time of a frame, in seconds.
        arrive: called with each frame that arrives.
        blocked: whether the line is dead in this direction; frames are held meanwhile.
    """

    def __init__(
        self, world: World, delay: Callable[[], float], arrive: Callable[[bytes], None], blocked: Callable[[], bool]
    ) -> None:
        self._world = world
        self._delay = delay
        self._arrive = arrive
        self._blocked = blocked
        self._free_at = [0.0, 0.0]
        self._held: deque[bytes] = deque()
        self.open = True

    def send(self, frame: bytes, lane: int = 0, late: float = 0.0) -> None:
        """Send a frame, `late` seconds from now."""
        due = max(self._free_at[lane], self._world.now() + late + self._delay())
        if lane:
            due += self._world.random.uniform(0, 1.0)
        self._free_at[lane] = due
        self._world.at(due, lambda: self._travelled(frame))

    def release(self) -> None:
        """Deliver held frames, now that the line is alive again."""
        while self._held and self.open and not self._blocked():
            self._arrive(self._held.popleft())

    def _travelled(self, frame: bytes) -> None:
        if not self.open:
            return
        if self._blocked() or self._held:
            self._held.append(frame)
        else:
            self._arrive(frame)
