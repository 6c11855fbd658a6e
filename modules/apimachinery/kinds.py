"""The kinds of objects that the API server stores, and their names.

A kind has a name in manifests (`Pod`), in API errors (`pods`), in listers' errors and resource strings (`pod`), and on
the command line (`po`).
"""

from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from beehive.resource import NULL_NAMESPACE
from modules.apimachinery.api_errors import UnknownKindError

JsonObject = dict[str, Any]
"""A Kubernetes object as plain JSON; unknown fields are kept."""


class Kind(msgspec.Struct, frozen=True, dict=True):
    """One kind and its names."""

    name: str
    """As in manifests: `Pod`."""
    api_version: str
    plural: str
    """As in the API server's errors and paths: `pods`."""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    counts_generations: bool = False
    """Whether metadata.generation increases when the spec changes (pods: since Kubernetes 1.33)."""
    is_custom: bool = False
    """Whether a CustomResourceDefinition defines it."""

    @cached_property
    def singular(self) -> str:
        """As in resource strings and in errors of KubeEdge's listers: `pod`."""
        return self.name.lower()

    @cached_property
    def api_group(self) -> str:
        """The API group; empty for the core group."""
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""

    @cached_property
    def key_name(self) -> str:
        """The kind in keys: `Pod`, and `Device.devices.kubeedge.io` for a custom kind."""
        return f"{self.name}.{self.api_group}" if self.is_custom else self.name


_new_key = tuple.__new__
"""Makes a key in C: the constructor of a NamedTuple is a function in Python, and each request makes several."""


class ObjectKey(NamedTuple):
    """Kind, namespace and name of an object. The namespace is empty for a cluster-scoped object."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in (self.kind.lower(), self.namespace, self.name) if part)


KINDS = (
    Kind("Pod", "v1", "pods", short_names=("po",), counts_generations=True),
    Kind("ConfigMap", "v1", "configmaps", short_names=("cm",)),
    Kind("Secret", "v1", "secrets"),
    Kind("Node", "v1", "nodes", namespaced=False, short_names=("no",)),
    Kind("Namespace", "v1", "namespaces", namespaced=False, short_names=("ns",)),
    Kind("Event", "v1", "events", short_names=("ev",)),
    Kind("ServiceAccount", "v1", "serviceaccounts", short_names=("sa",)),
    Kind("PersistentVolume", "v1", "persistentvolumes", namespaced=False, short_names=("pv",)),
    Kind("PersistentVolumeClaim", "v1", "persistentvolumeclaims", short_names=("pvc",)),
    Kind("VolumeAttachment", "storage.k8s.io/v1", "volumeattachments", namespaced=False),
    Kind("CSIDriver", "storage.k8s.io/v1", "csidrivers", namespaced=False, counts_generations=True),
    Kind("Service", "v1", "services", short_names=("svc",)),
    Kind("Endpoints", "v1", "endpoints", short_names=("ep",)),
    Kind("EndpointSlice", "discovery.k8s.io/v1", "endpointslices", counts_generations=True),
    Kind("Lease", "coordination.k8s.io/v1", "leases"),
    Kind(
        "CertificateSigningRequest",
        "certificates.k8s.io/v1",
        "certificatesigningrequests",
        namespaced=False,
        short_names=("csr",),
    ),
    Kind(
        "CustomResourceDefinition",
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        namespaced=False,
        short_names=("crd", "crds"),
        counts_generations=True,
    ),
    Kind("Deployment", "apps/v1", "deployments", short_names=("deploy",), counts_generations=True),
    Kind("ReplicaSet", "apps/v1", "replicasets", short_names=("rs",), counts_generations=True),
    Kind("DaemonSet", "apps/v1", "daemonsets", short_names=("ds",), counts_generations=True),
    Kind("StatefulSet", "apps/v1", "statefulsets", short_names=("sts",), counts_generations=True),
    Kind("ControllerRevision", "apps/v1", "controllerrevisions"),
    Kind("Job", "batch/v1", "jobs", counts_generations=True),
    Kind("CronJob", "batch/v1", "cronjobs", short_names=("cj",), counts_generations=True),
    Kind("ReplicationController", "v1", "replicationcontrollers", short_names=("rc",), counts_generations=True),
    Kind("PodTemplate", "v1", "podtemplates", counts_generations=True),
    Kind("ResourceQuota", "v1", "resourcequotas", short_names=("quota",)),
    Kind("LimitRange", "v1", "limitranges", short_names=("limits",)),
    Kind("StorageClass", "storage.k8s.io/v1", "storageclasses", namespaced=False, short_names=("sc",)),
    Kind("CSINode", "storage.k8s.io/v1", "csinodes", namespaced=False),
    Kind("CSIStorageCapacity", "storage.k8s.io/v1", "csistoragecapacities"),
    Kind("ResourceClaim", "resource.k8s.io/v1", "resourceclaims"),
    Kind("ResourceSlice", "resource.k8s.io/v1", "resourceslices", namespaced=False, counts_generations=True),
    Kind("DeviceClass", "resource.k8s.io/v1", "deviceclasses", namespaced=False, counts_generations=True),
    Kind("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", short_names=("pdb",), counts_generations=True),
    Kind(
        "PriorityClass",
        "scheduling.k8s.io/v1",
        "priorityclasses",
        namespaced=False,
        short_names=("pc",),
        counts_generations=True,
    ),
    Kind("Ingress", "networking.k8s.io/v1", "ingresses", short_names=("ing",), counts_generations=True),
    Kind("IngressClass", "networking.k8s.io/v1", "ingressclasses", namespaced=False, counts_generations=True),
    Kind("NetworkPolicy", "networking.k8s.io/v1", "networkpolicies", short_names=("netpol",), counts_generations=True),
    Kind("HorizontalPodAutoscaler", "autoscaling/v2", "horizontalpodautoscalers", short_names=("hpa",)),
    Kind("FlowSchema", "flowcontrol.apiserver.k8s.io/v1", "flowschemas", namespaced=False, counts_generations=True),
    Kind(
        "PriorityLevelConfiguration",
        "flowcontrol.apiserver.k8s.io/v1",
        "prioritylevelconfigurations",
        namespaced=False,
        counts_generations=True,
    ),
    Kind("RuntimeClass", "node.k8s.io/v1", "runtimeclasses", namespaced=False),
    Kind("Role", "rbac.authorization.k8s.io/v1", "roles"),
    Kind("RoleBinding", "rbac.authorization.k8s.io/v1", "rolebindings"),
    Kind("ClusterRole", "rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False),
    Kind("ClusterRoleBinding", "rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False),
)

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's annotation with the manifest that was applied last. A large manifest's doubles the object, so it does not
count as one of the annotations whose size is limited."""

_BY_NAME = {kind.name: kind for kind in KINDS}
_BY_ANY_NAME = {name: kind for kind in KINDS for name in (kind.singular, kind.plural, *kind.short_names)}


def kind_named(name: str) -> Kind:
    """Return a kind by its name in manifests.

    Raises:
        UnknownKindError: the API server stores no such objects.
    """
    kind = _BY_NAME.get(name)
    if kind is None:
        raise UnknownKindError(name, sorted(_BY_NAME))
    return kind


def kind_called(word: str) -> Kind:
    """Return a kind by any of its names in any case: `Pod`, `pods`, `po`.

    Raises:
        UnknownKindError: the API server stores no such objects.
    """
    kind = _BY_ANY_NAME.get(word.lower())
    if kind is None:
        raise UnknownKindError(word, sorted(_BY_NAME))
    return kind


def key_for(kind: Kind, namespace: str, name: str) -> ObjectKey:
    """Return the key of an object; for a cluster-scoped kind, the namespace is ignored."""
    return _new_key(ObjectKey, (kind.key_name, (namespace or "default") if kind.namespaced else "", name))


def key_of(obj: JsonObject) -> ObjectKey:
    """Return the key of an object, which must have `kind`, and `apiVersion` if the kind is a custom one."""
    meta = obj["metadata"]
    kind = _BY_NAME.get(obj["kind"])
    if kind is not None and kind.api_version == obj.get("apiVersion"):
        namespace = (meta.get("namespace") or "default") if kind.namespaced else ""
        return _new_key(ObjectKey, (kind.name, namespace, meta["name"]))
    if is_custom(obj):
        return ObjectKey(key_kind(obj), meta.get("namespace") or "", meta["name"])
    return key_for(kind_named(obj["kind"]), meta.get("namespace", ""), meta["name"])


def key_kind(obj: JsonObject) -> str:
    """Return the kind of an object, or of a reference to one, as in keys: `Service`, and `Service.serving.knative.dev`
    for a custom kind. Whatever depends on the kind of an object asks for this and not for `obj["kind"]`, which is the
    same for both.
    """
    kind = str(obj.get("kind") or "")
    own = _BY_NAME.get(kind)
    if own is not None and obj.get("apiVersion") == own.api_version:
        return kind
    return f"{kind}.{str(obj['apiVersion']).partition('/')[0]}" if is_custom(obj) else kind


def is_custom(obj: JsonObject) -> bool:
    """Return whether an object's kind is not the API server's own, but may be a custom one. A custom kind may have
    the name of a kind in another group: `Job` of batch.volcano.sh, `Service` of serving.knative.dev.
    """
    version = str(obj.get("apiVersion") or "")
    own = _BY_NAME.get(str(obj.get("kind") or ""))
    return "/" in version and (own is None or own.api_group != version.partition("/")[0])


def wire_namespace(key: ObjectKey) -> str:
    """Return the namespace in a resource string; KubeEdge writes `null` for cluster-scoped objects."""
    return key.namespace or NULL_NAMESPACE


def metadata_of(obj: JsonObject) -> JsonObject:
    """Return the object's metadata, or an empty dictionary."""
    return obj.get("metadata") or {}


def uid_of(obj: JsonObject) -> str:
    """Return the object's uid, or ""."""
    return str((obj.get("metadata") or {}).get("uid") or "")


def version_of(obj: JsonObject) -> str:
    """Return the object's resourceVersion, or "". No object has 0, which an update names that is for any version."""
    version = str((obj.get("metadata") or {}).get("resourceVersion") or "")
    return "" if version == "0" else version


def is_being_deleted(obj: JsonObject) -> bool:
    """Return whether a graceful deletion has begun."""
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))


def reporter_of(event: JsonObject) -> str:
    """Return the node that has reported an Event, or ""."""
    source = event.get("source")
    host = source.get("host") if isinstance(source, dict) else None
    return str(host or event.get("reportingInstance") or "")
