"""All that is fuzzed."""

from typing import Final

from tests.fuzz import cloud, hostile, node, wire
from tests.fuzz.target import Target

TARGETS: Final[dict[str, Target]] = {
    target.name: target for target in (*wire.TARGETS, *cloud.TARGETS, *hostile.TARGETS, *node.TARGETS)
}
