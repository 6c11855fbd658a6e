"""The controllers that cloudcore runs, by the kind whose objects they look at."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from modules.cloud.controllers import deployment, replica_set
from modules.cloud.controllers.engine import Reconcile

CONTROLLERS: Final[Mapping[str, Reconcile]] = MappingProxyType(
    {
        "Deployment": deployment.reconcile,
        "ReplicaSet": replica_set.reconcile,
    }
)
MADE: Final = ("Pod", "Node")
"""The kinds that are read beside those with controllers, once there is an object with one."""
