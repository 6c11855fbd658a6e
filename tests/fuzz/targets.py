"""All targets of the fuzzer."""

from typing import Final

from tests.fuzz import cloud, hostile, hostile_pods, images, mqtt, node, oci_spec, streams, tunnel, wire
from tests.fuzz.target import Target

_ALL: Final = (
    *wire.TARGETS,
    *cloud.TARGETS,
    *hostile.TARGETS,
    *node.TARGETS,
    *mqtt.TARGETS,
    *hostile_pods.TARGETS,
    *oci_spec.TARGETS,
    *streams.TARGETS,
    *tunnel.TARGETS,
    *images.TARGETS,
)
TARGETS: Final[dict[str, Target]] = {target.name: target for target in _ALL}
