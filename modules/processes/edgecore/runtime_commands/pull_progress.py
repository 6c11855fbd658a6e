"""Shows how far a pull is: a live block of lines on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TextIO

from edged.images.progress import PulledLayer, PullProgress, megabytes

if TYPE_CHECKING:
    from beehive.clock import Clock

_LINE_SECONDS: Final = 10.0
"""Between two plain lines about the whole pull."""
_KEPT_LINES: Final = 2
"""Lines of the terminal that stay: the command, and the cursor's line."""


class ProgressView(Protocol):
    """Shows how far a pull is."""

    def show(self, progress: PullProgress) -> None:
        """Show the current progress."""


class _Size(NamedTuple):
    columns: int
    lines: int


class TerminalProgress:
    """Writes a line for each layer and a last one with the sums, and rewrites them in place.

    Args:
        terminal: takes control sequences.
        size: returns the terminal's columns and lines at each time.
    """

    def __init__(self, terminal: TextIO, size: Callable[[], tuple[int, int]] = shutil.get_terminal_size) -> None:
        self._terminal = terminal
        self._size = size
        self._shown = 0

    def show(self, progress: PullProgress) -> None:
        """Replace the shown progress."""
        size = _Size(*self._size())
        lines = block(progress, max(1, size.lines - _KEPT_LINES))
        up = f"\x1b[{self._shown}A" if self._shown else ""
        self._terminal.write(up + "".join(f"\r{line[: max(1, size.columns - 1)]}\x1b[K\n" for line in lines) + "\x1b[J")
        self._terminal.flush()
        self._shown = len(lines)


class PlainProgress:
    """Writes a line when a layer is fetched or unpacked, and one about the whole pull every ten seconds.

    Args:
        output: takes lines.
        clock: for the ten seconds.
    """

    def __init__(self, output: TextIO, clock: Clock) -> None:
        self._output = output
        self._clock = clock
        self._states: dict[str, str] = {}
        self._due = clock.monotonic()

    def show(self, progress: PullProgress) -> None:
        """Write a line for each layer that has changed its state, and now and then the total."""
        lines = list(self._news(progress.layers))
        now = self._clock.monotonic()
        if now >= self._due:
            lines.append(str(progress))
            self._due = now + _LINE_SECONDS
        self._output.write("".join(f"{line}\n" for line in lines))
        self._output.flush()

    def _news(self, layers: Sequence[PulledLayer]) -> Iterator[str]:
        for each in layers:
            state = state_of(each)
            if state in (_FETCHED, _DONE) and self._states.get(each.name) != state:
                self._states[each.name] = state
                yield f"{each.name}: {state}, {megabytes(each.size)} MB"


_FETCHED: Final = "fetched"
_DONE: Final = "unpacked"


def state_of(layer: PulledLayer) -> str:
    """Return the state of a layer."""
    if layer.size == layer.fetched == layer.unpacked:
        return _DONE
    if layer.unpacked:
        return "unpacking"
    if layer.fetched == layer.size:
        return _FETCHED
    return "fetching" if layer.fetched else "waiting"


def block(progress: PullProgress, most: int) -> list[str]:
    """Return the lines of a terminal, `most` of them: the layers, without the unpacked ones if there are too many, and
    the sums.
    """
    room = most - 1
    working = [each for each in progress.layers if state_of(each) != _DONE]
    shown = list(progress.layers) if len(progress.layers) <= room else working[:room]
    return [*map(_layer_line, shown), str(progress)]


def _layer_line(layer: PulledLayer) -> str:
    count = layer.unpacked if layer.unpacked else layer.fetched
    return f"{layer.name:<12}  {state_of(layer):<9}  {megabytes(count):>9} of {megabytes(layer.size)} MB"
