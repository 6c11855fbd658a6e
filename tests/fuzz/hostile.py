"""Target of the cloud as a whole: a node with a valid certificate that sends random frames.

A case is a script of frames: mutated lines of JSON, and well-formed random requests with names of its own and its
neighbour's objects. The cloud's modules are the real ones.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from beehive.testing import Harness
from tests.fuzz.target import Target, must
from tests.support.hostile import GOLD, Field, made_up

_FRAMES: Final = 12


def _scripts() -> Sequence[bytes]:
    random = Random("scripts")
    return [b"\n".join(made_up(random) for _ in range(4)) for _ in range(200)]


def _check(data: bytes, random: Random) -> None:
    with Harness() as bee:
        field = Field(bee)
        before = field.foreign()
        for frame in [*data.split(b"\n"), *(made_up(random) for _ in range(_FRAMES))]:
            field.says(frame)
        must(field.foreign() == before, "nothing of others is made, changed or deleted")
        told = b"".join(field.evil.frames)
        must(not any(gold in told for gold in GOLD), "nothing of others is read")
        must(not any(bee.hive.restarts().values()), "no module of the cloud is started again")
        must(field.honest_is_served(), "the other node is served")


TARGETS: Final = (Target("hostile-node", _scripts, _check, 0.02),)
