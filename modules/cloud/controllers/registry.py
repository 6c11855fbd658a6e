"""The controllers that cloudcore runs, by the kind whose objects they look at."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from modules.cloud.applications import EDGE_APPLICATION, NODE_GROUP
from modules.cloud.controllers import (
    cluster_role,
    cron_job,
    daemon_set,
    deployment,
    disruption,
    edge_application,
    job,
    node_group,
    node_pods,
    replica_set,
    service,
    stateful_set,
)
from modules.cloud.controllers.engine import Reconcile

CONTROLLERS: Final[Mapping[str, Reconcile]] = MappingProxyType(
    {
        "Deployment": deployment.reconcile,
        **dict.fromkeys(("ReplicaSet", "ReplicationController"), replica_set.reconcile),
        "DaemonSet": daemon_set.reconcile,
        "StatefulSet": stateful_set.reconcile,
        "Job": job.reconcile,
        "CronJob": cron_job.reconcile,
        "Service": service.reconcile,
        "PodDisruptionBudget": disruption.reconcile,
        NODE_GROUP.key_name: node_group.reconcile,
        EDGE_APPLICATION.key_name: edge_application.reconcile,
    }
)
ALONE: Final[Mapping[str, Reconcile]] = MappingProxyType({cluster_role.KIND: cluster_role.reconcile})
"""Those that read no other kind than their own; they run although nothing else is read."""
ALL: Final[Mapping[str, Reconcile]] = MappingProxyType({**ALONE, **CONTROLLERS, "Node": node_pods.reconcile})
"""All of them; Nodes are read only when there is an object with one of `CONTROLLERS`."""
MADE: Final = (
    "Pod", "Node", "ControllerRevision", "PersistentVolumeClaim", "EndpointSlice", "Endpoints", "ConfigMap",
    "CustomResourceDefinition",
)  # fmt: skip
"""The kinds that are read beside those of `CONTROLLERS`, once there is an object of these."""
