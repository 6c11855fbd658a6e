"""Python's garbage collector while a process starts, and after that.

A start makes some seventy thousand objects that live as long as the process. With its usual thresholds the collector
goes through them 150 times meanwhile and finds next to nothing: a fifth of the processor time of all imports. Most of
that garbage is left by the first libraries. So an agent's collector looks once after these, and then no more: two looks
at the rest took a twentieth of all imports, for 0.06 MB. cloudcore's goes on, as its libraries leave 0.8 MB.

A node's agent makes few objects after its start, and goes on with the usual thresholds. cloudcore goes on rarely: with
the usual ones, while 1,000 nodes with 20 pods each connected and reported, the collector took 1.9 s of processor time,
up to 0.15 s at a time, and with 5,000 nodes up to 0.6 s at a time, for some thousand objects that it found. With ten
times as many new objects it takes 0.7 s, never goes through all objects meanwhile, and the memory is the same
(docs/performance.md).
"""

import gc
from typing import Final

_usual: Final = gc.get_threshold()

_MANY: Final = max(10_000, 10 * _usual[0])
"""New objects before the collector looks at them, of a process that makes many: ten times as many as usual (700, and
2,000 with Python 3.13)."""

_STARTING: Final = (3 * _MANY, 1000)
"""New objects before the collector looks at them, and such looks before it looks at the older ones: three looks in all,
and none at older ones."""

_MORE_THAN_A_START: Final = (30 * _MANY, 1000)
"""The same, where a start is to end without another look: it makes a third of so many objects."""


def collect_new_rarely() -> None:
    """Let the collector run less often from now on, and leave out older objects. A command that ends soon leaves it at
    that.
    """
    gc.set_threshold(*_STARTING)


def collect_once() -> None:
    """Let the collector look at the new objects now, and then at none until the process has started."""
    gc.collect(0)
    gc.set_threshold(*_MORE_THAN_A_START)


def collect_rarely() -> None:
    """Let the collector run less often than usual, and leave out all present objects: they live as long as the
    process.
    """
    gc.freeze()
    gc.set_threshold(_MANY, *_usual[1:])


def collect_as_usual() -> None:
    """Let the collector run as often as usual, and leave out all present objects."""
    gc.freeze()
    gc.set_threshold(*_usual)
