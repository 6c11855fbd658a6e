"""The kinds of Kubernetes objects that the cloud stub keeps, and their several names.

A kind has a name in manifests (`Pod`), in API errors (`pods`), in listers' errors and resource strings
(`pod`), and on the command line (`po`). Everything that differs from kind to kind without being behaviour is
here.
"""

from typing import Any, NamedTuple

import msgspec

from beehive.resource import NULL_NAMESPACE
from modules.edgecontroller.errors import UnknownKindError

JsonObject = dict[str, Any]
"""A Kubernetes object as plain JSON: what the stub does not know of is kept untouched."""


class Kind(msgspec.Struct, frozen=True):
    """One kind and its names."""

    name: str
    """As in manifests: `Pod`."""
    api_version: str
    plural: str
    """As the API server names it in errors and paths: `pods`."""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    counts_generations: bool = False
    """The API server increases metadata.generation when the spec changes (pods: since Kubernetes 1.33)."""

    @property
    def singular(self) -> str:
        """As in resource strings and in errors of KubeEdge's listers: `pod`."""
        return self.name.lower()

    @property
    def api_group(self) -> str:
        """Empty for the core group."""
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""


class ObjectKey(NamedTuple):
    """What an object is found by. The namespace is empty for a cluster-scoped object."""

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
    Kind("CSIDriver", "storage.k8s.io/v1", "csidrivers", namespaced=False),
    Kind("Lease", "coordination.k8s.io/v1", "leases"),
    Kind(
        "CertificateSigningRequest",
        "certificates.k8s.io/v1",
        "certificatesigningrequests",
        namespaced=False,
        short_names=("csr",),
    ),
)

_BY_NAME = {kind.name: kind for kind in KINDS}
_BY_ANY_NAME = {name: kind for kind in KINDS for name in (kind.singular, kind.plural, *kind.short_names)}


def kind_named(name: str) -> Kind:
    """The kind by its manifest name, exactly.

    Raises:
        UnknownKindError: the stub keeps no such objects.
    """
    kind = _BY_NAME.get(name)
    if kind is None:
        raise UnknownKindError(name, sorted(_BY_NAME))
    return kind


def kind_called(word: str) -> Kind:
    """The kind by any of its names in any case, as a person types it: `Pod`, `pods`, `po`.

    Raises:
        UnknownKindError: the stub keeps no such objects.
    """
    kind = _BY_ANY_NAME.get(word.lower())
    if kind is None:
        raise UnknownKindError(word, sorted(_BY_NAME))
    return kind


def key_for(kind: Kind, namespace: str, name: str) -> ObjectKey:
    """The key of an object; a cluster-scoped one has no namespace, whatever the caller says."""
    return ObjectKey(kind.name, (namespace or "default") if kind.namespaced else "", name)


def key_of(obj: JsonObject) -> ObjectKey:
    """The key of an object that names its kind."""
    meta = obj["metadata"]
    return key_for(kind_named(obj["kind"]), meta.get("namespace", ""), meta["name"])


def wire_namespace(key: ObjectKey) -> str:
    """The namespace token of a resource string; KubeEdge writes `null` for cluster-scoped objects."""
    return key.namespace or NULL_NAMESPACE


def metadata_of(obj: JsonObject) -> JsonObject:
    """The object's metadata, or an empty one."""
    return obj.get("metadata") or {}


def uid_of(obj: JsonObject) -> str:
    """The object's uid; empty when it has none."""
    return str(metadata_of(obj).get("uid") or "")


def version_of(obj: JsonObject) -> str:
    """The object's resourceVersion; empty when it has none."""
    return str(metadata_of(obj).get("resourceVersion") or "")


def is_being_deleted(obj: JsonObject) -> bool:
    """A deletion with a grace period has begun."""
    return bool(metadata_of(obj).get("deletionTimestamp"))


def reporter_of(event: JsonObject) -> str:
    """The node that has reported an Event; empty when it does not say."""
    source = event.get("source")
    host = source.get("host") if isinstance(source, dict) else None
    return str(host or event.get("reportingInstance") or "")
