"""Controllers of kube-controller-manager that a cloud without a cluster needs: the pod garbage collector, the
protection of volumes and claims in use, `root-ca-cert-publisher` and the default service accounts.
"""

from collections.abc import Callable, Sequence
from typing import Final

from modules.apimachinery.graceful_deletion import finalizers_of
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_for, key_of, kind_named
from modules.apimachinery.pods.objects import node_of
from modules.cloud.apiserver.admission.api_access import ROOT_CERTIFICATE
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.namespaces import SYSTEM_NAMESPACE
from modules.cloud.apiserver.reconciler import Attempt, Reconciler
from modules.cloud.apiserver.system_roles import CLIENT_AUTHORITY
from modules.cloud.apiserver.volume_protection import FINALIZERS, released
from modules.cloud.storage.object_storage import EventType, ObjectEvent

_NODE, _POD = kind_named("Node"), kind_named("Pod")

_NAMESPACE, _CONFIG_MAP = kind_named("Namespace"), kind_named("ConfigMap")
_DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)

_ACCOUNT = kind_named("ServiceAccount")
_DEFAULT: Final = "default"


class OrphanedPods(Reconciler):
    """The reconciler that removes pods that are being deleted from nodes that do not exist: no node will ever report
    their end. All cloudcores of a database do this, and the first one does it.

    Args:
        cluster: the objects.
    """

    name = "pod-garbage-collector-controller"
    kinds = (_POD.key_name,)
    is_of_statuses = False
    is_due = False

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._storage = cluster.storage
        self._ending: set[ObjectKey] = set()
        """The pods that are being deleted, and others until the next look."""

    def load(self) -> None:
        """Have all pods looked at, once."""
        self._ending = {key for node in self._storage.nodes_of_pods() for key in self._storage.pods_of(node)}

    def handle_event(self, event: ObjectEvent) -> None:
        """Note a pod that is being deleted."""
        if is_being_deleted(event.new):
            self._ending.add(event.key)

    def roll_back(self, event: ObjectEvent) -> None:
        """Have the pod looked at."""
        if event.key.kind == _POD.key_name:
            self._ending.add(event.key)

    def reconcile(self, attempt: Attempt, *, is_turn: bool) -> bool:  # noqa: ARG002 - a node may come back
        """Do nothing: orphans are removed some seconds later."""
        return False

    def overdue(self) -> Callable[[], None] | None:
        """Return the removal of orphaned pods, if there are any."""
        return self.remove if self.orphans() else None

    def orphans(self) -> Sequence[ObjectKey]:
        """Return the orphaned pods in order."""
        pods = {key: pod for key in self._ending if (pod := self._storage.find(key)) and is_being_deleted(pod)}
        self._ending = set(pods)
        return sorted(key for key, pod in pods.items() if self._is_lost(pod))

    def _is_lost(self, pod: JsonObject) -> bool:
        node = node_of(pod)
        return bool(node) and not finalizers_of(pod) and self._storage.find(key_for(_NODE, "", node)) is None

    def remove(self) -> None:
        """Remove the orphaned pods."""
        for key in self.orphans():
            self._cluster.delete(key, grace=0)


def release_volumes(cluster: Cluster) -> None:
    """Let go of claims that are being deleted and are not used any more, and then of volumes, which they have left."""
    for kind in FINALIZERS:
        unused = list(released(cluster.storage, kind))
        for each in unused:
            with cluster.one_of_many(key_of(each)):
                cluster.replace(each)
        if unused:
            cluster.update_volume_phases()


def may_lack_certificate(event: ObjectEvent) -> bool:
    """Return whether a namespace may lack one of the ConfigMaps after a change, or have another one."""
    if event.key.kind == _NAMESPACE.name:
        return event.type is EventType.ADDED
    return event.key.kind == _CONFIG_MAP.name and event.key.name in (ROOT_CERTIFICATE, CLIENT_AUTHORITY)


def keep_root_certificates(cluster: Cluster, authority: str, *, repairs: bool) -> None:
    """Make the ConfigMap in each namespace that lacks it, and in kube-system the one by which another server
    authenticates the clients of this one (kube-apiserver's cluster authentication trust controller).

    Args:
        cluster: the objects.
        authority: the certificate authority, PEM.
        repairs: whether one with another content is changed: another controller may keep them, with another authority.
    """
    annotations = {"kubernetes.io/description": _DESCRIPTION}
    for namespace in cluster.storage.list(_NAMESPACE):
        if is_being_deleted(namespace):
            continue
        metadata = {"name": ROOT_CERTIFICATE, "namespace": namespace["metadata"]["name"], "annotations": annotations}
        _keep_config_map(cluster, metadata, {"ca.crt": authority}, repairs=repairs)
        if metadata["namespace"] == SYSTEM_NAMESPACE:
            metadata = {"name": CLIENT_AUTHORITY, "namespace": SYSTEM_NAMESPACE}
            _keep_config_map(cluster, metadata, {"client-ca-file": authority}, repairs=repairs)


def _keep_config_map(cluster: Cluster, metadata: JsonObject, data: dict[str, str], *, repairs: bool) -> None:
    key = key_for(_CONFIG_MAP, metadata["namespace"], metadata["name"])
    found = cluster.storage.find(key)
    with cluster.one_of_many(key):
        if found is None:
            made = {"kind": _CONFIG_MAP.name, "apiVersion": _CONFIG_MAP.api_version, "metadata": metadata, "data": data}
            cluster.create(made)
        elif repairs and found.get("data") != data:
            cluster.replace({**found, "data": data})


def may_lack_account(event: ObjectEvent) -> bool:
    """Return whether a namespace may lack its account after a change: it is new, or the account was deleted."""
    if event.key.kind == _NAMESPACE.name:
        return event.type is EventType.ADDED
    is_account = (event.key.kind, event.key.name) == (_ACCOUNT.name, _DEFAULT)
    return is_account and event.type is EventType.DELETED


def make_default_accounts(cluster: Cluster) -> None:
    """Make the account `default` in each namespace that lacks it. A namespace without an object has no account."""
    for namespace in cluster.storage.list(_NAMESPACE):
        name = namespace["metadata"]["name"]
        key = key_for(_ACCOUNT, name, _DEFAULT)
        if not is_being_deleted(namespace) and cluster.storage.find(key) is None:
            metadata = {"name": _DEFAULT, "namespace": name}
            with cluster.one_of_many(key):
                cluster.create({"kind": _ACCOUNT.name, "apiVersion": _ACCOUNT.api_version, "metadata": metadata})
