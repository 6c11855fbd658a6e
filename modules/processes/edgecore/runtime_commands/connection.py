"""The connection of commands to the node's container runtime; one inside edgecore must run for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from edged.cri.client import CriClient
from modules.processes.edgecore.location import node_location

if TYPE_CHECKING:
    import argparse

    from modules.processes.edgecore.config import EdgeCoreConfig

_REQUEST_SECONDS: Final = 600.0
"""The import of a large archive takes its time."""


def config_of(chosen: argparse.Namespace) -> EdgeCoreConfig:
    """Return the node's configuration. Raises ConfigError."""
    return node_location(chosen).load().config


@contextmanager
def connected(config: EdgeCoreConfig) -> Iterator[CriClient]:
    """Connect to the runtime for the time of the context."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    client = CriClient(config.runtime_endpoint, config.image_endpoint, request_timeout=_REQUEST_SECONDS)
    try:
        yield client
    finally:
        client.close()
