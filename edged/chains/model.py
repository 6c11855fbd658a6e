"""A step of a pod, and its chain: bounded in steps and in bytes."""

from typing import Final

import msgspec

MOST_STEPS: Final = 32
"""Steps of a pod."""
MOST_BYTES: Final = 4096
"""Bytes of a pod's steps, as they are in the file."""
FIRST_STEPS: Final = 8
"""Steps from the beginning that are kept while there is room: the first failure explains the later ones."""
LONGEST_TEXT: Final = 400
"""Characters of a step's text."""


class ChainStep(msgspec.Struct, omit_defaults=True):
    """A step on the way of a pod. A repeated step is counted, not kept twice."""

    at: float
    """When it came for the first time, in seconds since 1970."""
    reason: str
    """A word, such as the reason of an Event."""
    text: str
    container: str = ""
    is_warning: bool = False
    count: int = 1
    last: float = 0.0
    """When it came for the last time, if it came again."""


class Chain(msgspec.Struct, omit_defaults=True):
    """The steps of a pod, by their first occurrence."""

    uid: str
    namespace: str
    name: str
    steps: list[ChainStep] = []
    left_out: int = 0
    """Steps left out for want of room, after the first ones."""

    def add(self, step: ChainStep) -> bool:
        """Add a step; return False if it is a repetition, which is only counted."""
        for known in reversed(self.steps):
            if (known.reason, known.text, known.container) == (step.reason, step.text, step.container):
                known.count += 1
                known.last = step.at
                return False
        self.steps.append(step)
        sizes = [len(msgspec.json.encode(each)) + 1 for each in self.steps]
        total = sum(sizes)
        while len(self.steps) > 1 and (len(self.steps) > MOST_STEPS or total > MOST_BYTES):
            place = min(FIRST_STEPS, len(self.steps) - 2)
            del self.steps[place]
            total -= sizes.pop(place)
            self.left_out += 1
        return True
