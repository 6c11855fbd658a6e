"""The directory of static pods in a replay: what was seen in it is seen again, when it was.

The files are in no trace, but what edged told itself of them is.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from beehive.delivery import Way
from beehive.names import ModuleName, Operation
from beehive.trace import Delivered
from edged.static_pods.directory import PERIOD, Changes, StaticPodDirectory
from edged.static_pods.keeper import FILE
from modules.replay.outputs import belongs, sent_at

Look = tuple[float, Changes]
"""When the directory was looked at, and what was different."""

_ONE_LOOK: Final = PERIOD / 2
"""Seconds within which two messages tell of one look."""


def looks(deliveries: Iterable[Delivered], ours: Callable[[bytes], bytes]) -> list[Look]:
    """The looks at the directory at which something was different.

    Args:
        deliveries: of the recorded run, in the order in which they were sent.
        ours: puts the replay's directories into a text.
    """
    found: list[Look] = []
    for one in filter(_tells_of_a_file, deliveries):
        if not found or sent_at(one) - found[-1][0] > _ONE_LOOK:
            found.append((sent_at(one), Changes([], [])))
        changes, pod = found[-1][1], msgspec.json.decode(ours(one.message.content))
        (changes.gone if one.message.operation == Operation.DELETE else changes.come).append(pod)
    return found


def looking(recorded: list[Look]) -> type[StaticPodDirectory]:
    """The directory's actor that sees what was recorded. What nobody saw within the first period was not there at the
    first look.
    """

    class RecordedDirectory(StaticPodDirectory):
        """As it is, but for what it looks at."""

        def __init__(self, directory: Path, node: str, tell: Callable[[Changes], Any]) -> None:
            super().__init__(directory, node, tell)
            self._see = tell

        def on_start(self) -> None:
            """See each in its time."""
            now = self.clock.monotonic()
            if not recorded or recorded[0][0] - now >= PERIOD:
                self._see(Changes([], []))
            for time, changes in recorded:
                self.clock.after(time - now, partial(self._see, changes))

    return RecordedDirectory


def _tells_of_a_file(one: Delivered) -> bool:
    own = one.module == ModuleName.EDGED and belongs(one.sender, ModuleName.EDGED)
    return own and one.way == Way.SEND and one.message.source == FILE
