"""All targets of the fuzzer."""

import os
from typing import Final

from tests.fuzz import (
    cloud,
    docker,
    hostile,
    hostile_pods,
    identity_provider,
    images,
    mqtt,
    node,
    oci_spec,
    page,
    streams,
    tunnel,
    unpacking,
    wire,
)
from tests.fuzz.target import Target

_ALL: Final = (
    *wire.TARGETS,
    *cloud.TARGETS,
    *identity_provider.TARGETS,
    *hostile.TARGETS,
    *node.TARGETS,
    *mqtt.TARGETS,
    *hostile_pods.TARGETS,
    *oci_spec.TARGETS,
    *streams.TARGETS,
    *tunnel.TARGETS,
    *page.TARGETS,
    *images.TARGETS,
    *docker.TARGETS,
    *(unpacking.TARGETS if os.geteuid() == 0 else ()),  # layers have owners and devices
)
TARGETS: Final[dict[str, Target]] = {target.name: target for target in _ALL}
