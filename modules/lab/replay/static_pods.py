"""The static pod directory of a replay: changes are seen at their recorded times.

No trace has the files, but edged's messages to itself about them are recorded.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from beehive.decoding import decode_json
from beehive.delivery import DeliveryMode
from beehive.names import ModuleName, Operation
from beehive.trace import Delivered
from edged.static_pods.directory import PERIOD, StaticPodChanges, StaticPodDirectory
from edged.static_pods.manager import FILE
from edged.sync_events import SyncEvents
from modules.lab.replay.outputs import belongs, sent_at

DirectoryState = tuple[float, StaticPodChanges]
"""When the directory was read, and the changes since the last reading."""

_ONE_LOOK: Final = PERIOD / 2
"""Seconds within which two messages belong to one reading."""


def directory_states(deliveries: Iterable[Delivered], ours: Callable[[bytes], bytes]) -> list[DirectoryState]:
    """Return the readings of the directory that found changes.

    Args:
        deliveries: deliveries of the recorded run, in the order that they were sent.
        ours: puts the replay's directories into a text.
    """
    found: list[DirectoryState] = []
    for one in filter(_is_about_a_file, deliveries):
        if not found or sent_at(one) - found[-1][0] > _ONE_LOOK:
            found.append((sent_at(one), StaticPodChanges([], [])))
        changes, pod = found[-1][1], decode_json(ours(one.message.content))
        (changes.removed if one.message.operation == Operation.DELETE else changes.added).append(pod)
    return found


def replay_directory(recorded: list[DirectoryState]) -> type[StaticPodDirectory]:
    """Return a directory actor that reports the recorded changes. If the first change came later than one period, the
    first reading is empty.
    """

    class RecordedDirectory(StaticPodDirectory):
        """The directory of static pods, with recorded contents in place of the real ones."""

        def __init__(self, directory: Path, node: str, events: SyncEvents[StaticPodChanges]) -> None:
            super().__init__(directory, node, events)
            self._see = events.post

        def on_start(self) -> None:
            """See each in its time."""
            now = self.clock.monotonic()
            if not recorded or recorded[0][0] - now >= PERIOD:
                self._see(StaticPodChanges([], []))
            for time, changes in recorded:
                self.clock.after(time - now, partial(self._see, changes))

    return RecordedDirectory


def _is_about_a_file(one: Delivered) -> bool:
    own = one.module == ModuleName.EDGED and belongs(one.sender, ModuleName.EDGED)
    return own and one.way == DeliveryMode.SEND and one.message.source == FILE
