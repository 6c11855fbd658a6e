"""The connection of commands to the node's container runtime; one inside edgecore must run for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from edged.cri import UnavailableError
from edged.cri.client import CriClient
from edged.errors import EdgedError
from modules.processes.common.pod_commands.client import NOT_RUNNING
from modules.processes.edgecore.config.names import INSIDE
from modules.processes.edgecore.location import node_location
from modules.processes.edgecore.runtime_kinds import RuntimeKind, of_kind

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from modules.processes.edgecore.config import EdgeCoreConfig

_REQUEST_SECONDS: Final = 600.0
"""The import of a large archive takes its time."""


def config_of(chosen: argparse.Namespace) -> EdgeCoreConfig:
    """Return the node's configuration, with the kind and the socket of another runtime if they are given: that of
    `edgecore runtime`. Raises ConfigError.
    """
    config = node_location(chosen).load().config
    if chosen.kind:
        config = of_kind(config, RuntimeKind(chosen.kind))
    return config


@contextmanager
def connected(config: EdgeCoreConfig, socket: Path | None) -> Iterator[CriClient]:
    """Connect to the runtime for the time of the context, at another socket than the configured one if there is one.

    Raises:
        EdgedError: no runtime answers there.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    runtime, images = (
        (f"unix://{socket.absolute()}",) * 2 if socket else (config.runtime_endpoint, config.image_endpoint)
    )
    with closing(CriClient(runtime, images, request_timeout=_REQUEST_SECONDS)) as client:
        try:
            yield client
        except UnavailableError as error:
            if error.operation != "Version":
                raise
            is_inside = config.modules.edged.tailored_kubelet_config.container_runtime_endpoint in INSIDE
            hint = NOT_RUNNING if is_inside and not socket else error.hint
            reason = error.details.rpartition("error: ")[2]
            raise EdgedError("cannot reach the container runtime", f"{runtime}: {reason}", hint) from error
