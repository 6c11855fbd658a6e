"""The rules by kind."""

from collections.abc import Callable
from typing import Final, NamedTuple

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation import (
    autoscaling,
    certificates,
    classes,
    cluster,
    data,
    flow_control,
    limit_ranges,
    networking,
    pods,
    quotas,
    rbac,
    services,
    storage,
    workloads,
)
from modules.apimachinery.validation.causes import Causes
from modules.apimachinery.validation.metadata import immutable, namespace_name, path_segment, subdomain
from modules.apimachinery.validation.names import faults_of_dns_1035_label, faults_of_label
from modules.apimachinery.validation.rules import Fields, Rule, named

Update = Callable[[JsonObject, JsonObject, Causes], None]
"""A rule of changes: the object after and before, and the causes to append to."""

Creation = Callable[[JsonObject, Causes], None]
"""A rule of new objects."""


class KindRules(NamedTuple):
    """The rules of a kind, without the rules of metadata. Objects have their defaults by then."""

    rule: Rule = Fields({})
    """Of an object as a whole, at the path ""."""
    update: Update | None = None
    create: Creation | None = None
    """Rules of new objects beyond the rules of all."""
    name: Rule = subdomain


def _resource_claim_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that an update does not change the requests of a ResourceClaim."""
    immutable(new.get("spec"), live.get("spec"), "spec", found)


def _resource_slice_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a ResourceSlice keeps its driver, its node and its pool."""
    wanted, before = new.get("spec") or {}, live.get("spec") or {}
    for field in ("driver", "nodeName"):
        immutable(wanted.get(field), before.get(field), f"spec.{field}", found)
    pool, old_pool = wanted.get("pool") or {}, before.get("pool") or {}
    immutable(pool.get("name"), old_pool.get("name"), "spec.pool.name", found)


RULES: Final[dict[str, KindRules]] = {
    "Pod": KindRules(pods.pod, pods.pod_update, pods.pod_creation),
    "ConfigMap": KindRules(data.config_map, data.data_update),
    "Secret": KindRules(data.secret, data.data_update),
    "Node": KindRules(cluster.node, cluster.node_update),
    "Namespace": KindRules(cluster.namespace, name=namespace_name),
    "Event": KindRules(cluster.event, name=path_segment),
    "PersistentVolume": KindRules(storage.persistent_volume, storage.volume_update),
    "PersistentVolumeClaim": KindRules(storage.persistent_volume_claim, storage.claim_update),
    "VolumeAttachment": KindRules(storage.volume_attachment, storage.attachment_update),
    "CSIDriver": KindRules(storage.csi_driver, storage.csi_driver_update),
    "StorageClass": KindRules(storage.storage_class, storage.storage_class_update),
    "CSINode": KindRules(storage.csi_node, storage.csi_node_update),
    "CSIStorageCapacity": KindRules(storage.csi_storage_capacity, storage.csi_storage_capacity_update),
    "ResourceClaim": KindRules(update=_resource_claim_update),
    "ResourceSlice": KindRules(update=_resource_slice_update),
    "Service": KindRules(services.service, services.service_update, name=named(faults_of_dns_1035_label)),
    "Endpoints": KindRules(services.endpoints),
    "EndpointSlice": KindRules(services.endpoint_slice, services.slice_update),
    "Lease": KindRules(cluster.lease),
    "CertificateSigningRequest": KindRules(certificates.certificate_request, name=path_segment),
    "Deployment": KindRules(workloads.deployment, workloads.keeping("selector")),
    "ReplicaSet": KindRules(workloads.replica_set, workloads.keeping("selector")),
    "DaemonSet": KindRules(workloads.daemon_set, workloads.keeping("selector")),
    "StatefulSet": KindRules(workloads.stateful_set, workloads.stateful_set_update, name=named(faults_of_label)),
    "Job": KindRules(workloads.job, workloads.job_update, workloads.job_creation),
    "CronJob": KindRules(workloads.cron_job, create=workloads.cron_job_creation),
    "ReplicationController": KindRules(workloads.replication_controller),
    "ControllerRevision": KindRules(workloads.controller_revision, workloads.controller_revision_update),
    "PodDisruptionBudget": KindRules(workloads.pod_disruption_budget, name=path_segment),
    "ResourceQuota": KindRules(quotas.resource_quota, quotas.resource_quota_update),
    "LimitRange": KindRules(limit_ranges.limit_range),
    "PodTemplate": KindRules(workloads.pod_template),
    "Ingress": KindRules(networking.ingress, create=networking.ingress_creation),
    "IngressClass": KindRules(networking.ingress_class, networking.ingress_class_update),
    "NetworkPolicy": KindRules(networking.network_policy),
    "HorizontalPodAutoscaler": KindRules(autoscaling.autoscaler),
    "FlowSchema": KindRules(flow_control.flow_schema),
    "PriorityLevelConfiguration": KindRules(flow_control.priority_level),
    "PriorityClass": KindRules(classes.priority_class, classes.priority_class_update),
    "RuntimeClass": KindRules(classes.runtime_class, classes.runtime_class_update),
    "Role": KindRules(rbac.role, name=path_segment),
    "ClusterRole": KindRules(rbac.cluster_role, name=path_segment),
    "RoleBinding": KindRules(rbac.role_binding, rbac.binding_update, name=path_segment),
    "ClusterRoleBinding": KindRules(rbac.cluster_role_binding, rbac.binding_update, name=path_segment),
}
"""By kind. Kinds that are not here have the rules of metadata only."""
