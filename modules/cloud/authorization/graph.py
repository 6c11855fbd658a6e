"""The node authorizer's graph."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from beehive.clock import Clock
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of, kind_named, metadata_of
from modules.apimachinery.lister import Lister
from modules.apimachinery.pod_references import other_references_of, references_of
from modules.apimachinery.pods.objects import is_mirror
from modules.apimachinery.reference_index import ReferenceIndex
from modules.apimachinery.unvalidated import member_of
from modules.cloud.authorization.node_accounts import NodeAccounts
from modules.cloud.authorization.node_metadata import HOSTNAME
from modules.cloud.storage.object_storage import EventType, ObjectEvent

_REQUEST: Final = kind_named("CertificateSigningRequest")
_NODE: Final = "Node"
_VOLUME: Final = "PersistentVolume"
_CLAIM: Final = "PersistentVolumeClaim"
_SECRET: Final = "Secret"  # noqa: S105 - a kind, not a password
_PULL: Final = "ImagePrePullJob.operations.kubeedge.io"
_PULL_TYPES: Final = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")
_NAMESPACE: Final = "default"


class NodeGraph:
    """The objects that each node's pods refer to, and the secrets that volumes and jobs name.

    An update costs as much as the object has references; a query takes one or two lookups, for any number of pods.

    Args:
        store: the objects.
        clock: see `NodeAccounts`.
    """

    def __init__(self, store: Lister, clock: Clock) -> None:
        self._store = store
        self.accounts = NodeAccounts(clock)
        """The bytes that each node has written."""
        self._references = ReferenceIndex()
        """References of all pods."""
        self._named: defaultdict[ObjectKey, dict[ObjectKey, None]] = defaultdict(dict)
        """By secret, the volumes and the ImagePrePullJobs that name it."""
        self._hostnames: defaultdict[str, set[str]] = defaultdict(set)
        """By hostname, the Nodes with this label."""

    def add_objects(self, objects: Iterable[JsonObject]) -> None:
        """Add stored objects."""
        for obj in objects:
            self._put(key_of(obj), None, obj)
            self.accounts.put(key_of(obj), obj)

    def handle_event(self, event: ObjectEvent) -> None:
        """Update the graph with a change."""
        if event.is_of_status:
            self.accounts.put_status(event.key, event.new)
            return
        self.accounts.put(event.key, None if event.type is EventType.DELETED else event.new)
        if not (event.keeps_spec and self._references.of(event.key)):
            self._put(event.key, event.old, None if event.type is EventType.DELETED else event.new)

    def roll_back(self, event: ObjectEvent) -> None:
        """Undo a change."""
        self.accounts.put(event.key, event.old)
        self._put(event.key, None if event.type is EventType.DELETED else event.new, event.old)

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return a stored object, or None."""
        return self._store.find(key)

    def requests_of(self, user: str) -> int:
        """Return the number of certificate signing requests of a user; the mirror of a cluster has none."""
        return sum(member_of(each, "spec").get("username") == user for each in self._store.list(_REQUEST))

    def is_hostname_in_use(self, hostname: str, node: str) -> bool:
        """Return whether a hostname is another Node's, by its name or its label. A node's own name is never."""
        if hostname == node:
            return False
        named = self._store.find(ObjectKey(_NODE, "", hostname)) is not None
        return named or bool(self._hostnames.get(hostname, set()) - {node})

    def refers(self, node: str, key: ObjectKey) -> bool:
        """Return whether a pod of a node refers to an object: directly, to a volume by its claim, or to a secret by
        such a volume; or whether the object is the pull secret of a job that this node carries out.
        """
        if self._references.refers(node, key):
            return True
        if key.kind == _VOLUME:
            return self._by_claim(node, key.name)
        return key.kind == _SECRET and any(
            self._by_claim(node, named.name) if named.kind == _VOLUME else self._pulls(node, named, key)
            for named in self._named.get(key, ())
        )

    def _pulls(self, node: str, job: ObjectKey, secret: ObjectKey) -> bool:
        """Return whether a job is under way on a node, by its status, which no node writes, and names a pull secret:
        whoever makes jobs gives nodes no others.
        """
        if (self._store.find(secret) or {}).get("type") not in _PULL_TYPES:
            return False
        tasks = member_of(self._store.find(job) or {}, "status").get("nodeStatus") or ()
        return any(task.get("nodeName") == node and task.get("phase") == "InProgress" for task in tasks)

    def _by_claim(self, node: str, volume: str) -> bool:
        """Return whether a volume is bound to the claim of a pod; the volume must name the claim, as a claim may name
        any volume.
        """
        obj = self._store.find(ObjectKey(_VOLUME, "", volume))
        claim = (member_of(obj, "spec") if obj else {}).get("claimRef")
        if not isinstance(claim, dict):
            return False
        key = ObjectKey(_CLAIM, str(claim.get("namespace") or _NAMESPACE), str(claim.get("name")))
        return self._references.refers(node, key)

    def _put(self, key: ObjectKey, old: JsonObject | None, new: JsonObject | None) -> None:
        if key.kind == "Pod":
            self._put_pod(key, new)
        elif key.kind == _NODE:
            before, after = (_hostname_of(each) for each in (old, new))
            if before != after:
                self._put_hostname(key.name, before, after)
        elif (secrets_of := {_VOLUME: _secrets_of, _PULL: _pull_secret_of}.get(key.kind)) is not None:
            for secret in secrets_of(old or {}):
                self._named[secret].pop(key, None)
                if not self._named[secret]:
                    del self._named[secret]
            for secret in secrets_of(new or {}):
                self._named[secret][key] = None

    def _put_hostname(self, node: str, before: str, after: str) -> None:
        self._hostnames[before].discard(node)
        if not self._hostnames[before]:
            del self._hostnames[before]
        if after:
            self._hostnames[after].add(node)

    def _put_pod(self, key: ObjectKey, pod: JsonObject | None) -> None:
        """Take over a pod. A mirror pod refers to nothing: its node has made it (Kubernetes' `Graph.AddPod`)."""
        if pod is None or is_mirror(pod):
            self._references.remove(key)
        else:
            references = dict.fromkeys([*references_of(pod), *other_references_of(pod)])
            self._references.put(key, str(member_of(pod, "spec").get("nodeName") or ""), references)


def _hostname_of(node: JsonObject | None) -> str:
    return str((metadata_of(node or {}).get("labels") or {}).get(HOSTNAME) or "")


def _pull_secret_of(job: JsonObject) -> Iterator[ObjectKey]:
    """Yield the secret of a job's pulls, if it names one."""
    named = member_of(member_of(job, "spec"), "imagePrePullTemplate").get("imageSecrets")
    namespace, _, name = str(named or "").partition("/")
    if name:
        yield ObjectKey(_SECRET, namespace, name)


def _secrets_of(volume: JsonObject) -> Iterator[ObjectKey]:
    """Yield the secrets that a volume's source names (Kubernetes' VisitPersistentVolumeSecretNames)."""
    spec = member_of(volume, "spec")
    claim = spec.get("claimRef")
    own = str(claim.get("namespace") or _NAMESPACE) if isinstance(claim, dict) else _NAMESPACE
    for source in spec.values():
        if not isinstance(source, dict):
            continue
        if isinstance(source.get("secretName"), str):
            yield ObjectKey(_SECRET, str(source.get("secretNamespace") or own), source["secretName"])
        for field, reference in source.items():
            if field.lower().endswith("secretref") and isinstance(reference, dict) and reference.get("name"):
                yield ObjectKey(_SECRET, str(reference.get("namespace") or own), str(reference["name"]))
