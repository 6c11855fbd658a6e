"""All targets of the fuzzer."""

from typing import Final

from tests.fuzz import cloud, hostile, hostile_pods, node, wire
from tests.fuzz.target import Target

_ALL: Final = (*wire.TARGETS, *cloud.TARGETS, *hostile.TARGETS, *node.TARGETS, *hostile_pods.TARGETS)
TARGETS: Final[dict[str, Target]] = {target.name: target for target in _ALL}
