"""Which configmaps and secrets a pod needs, and where they have to be sent (KubeEdge's LocationCache).

Beyond KubeEdge, init containers are looked at too, as are secrets that a projected volume names.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from modules.edgecontroller.kinds import JsonObject, ObjectKey

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_SECRET_FIELDS = ("secretRef", "nodePublishSecretRef")


def references_of(pod: JsonObject) -> list[ObjectKey]:
    """The configmaps and secrets that a pod's spec names, each once, in the order of their appearance."""
    namespace = pod["metadata"].get("namespace", "default")
    found = (ObjectKey(kind, namespace, name) for kind, name in _named_in(pod.get("spec") or {}) if name)
    return list(dict.fromkeys(found))


def other_references_of(pod: JsonObject) -> list[ObjectKey]:
    """What else a pod's node may read for it: claims, the service account, secrets of volumes (Kubernetes'
    VisitPodSecretNames); nobody pushes these.
    """
    meta, spec = pod["metadata"], pod.get("spec") or {}
    namespace = meta.get("namespace", "default")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    found = [ObjectKey("ServiceAccount", namespace, account)]
    for volume in spec.get("volumes") or []:
        claim = _part(volume, "persistentVolumeClaim").get("claimName")
        if not claim and volume.get("ephemeral"):
            claim = f"{meta.get('name')}-{volume.get('name')}"
        if claim:
            found.append(ObjectKey("PersistentVolumeClaim", namespace, claim))
        found += [ObjectKey("Secret", namespace, name) for name in _secrets_of_source(volume)]
    return list(dict.fromkeys(found))


def _secrets_of_source(volume: JsonObject) -> Iterator[str]:
    """By whatever source of the volume: `secretRef.name`, `nodePublishSecretRef.name`, `azureFile.secretName`."""
    for kind, source in volume.items():
        if not isinstance(source, dict) or kind == "secret":
            continue
        names = [source.get("secretName"), *(_part(source, field).get("name") for field in _SECRET_FIELDS)]
        yield from (name for name in names if isinstance(name, str) and name)


def _named_in(spec: JsonObject) -> Iterator[tuple[str, str]]:
    for volume in spec.get("volumes") or []:
        yield from _named_in_volume(volume)
    for field in _CONTAINERS:
        for container in spec.get(field) or []:
            yield from _named_in_container(container)
    for secret in spec.get("imagePullSecrets") or []:
        yield "Secret", secret.get("name", "")


def _named_in_volume(volume: JsonObject) -> Iterator[tuple[str, str]]:
    yield "ConfigMap", _part(volume, "configMap").get("name", "")
    yield "Secret", _part(volume, "secret").get("secretName", "")
    for source in _part(volume, "projected").get("sources") or []:
        yield "ConfigMap", _part(source, "configMap").get("name", "")
        yield "Secret", _part(source, "secret").get("name", "")


def _named_in_container(container: JsonObject) -> Iterator[tuple[str, str]]:
    for source in container.get("envFrom") or []:
        yield "ConfigMap", _part(source, "configMapRef").get("name", "")
        yield "Secret", _part(source, "secretRef").get("name", "")
    for variable in container.get("env") or []:
        value = _part(variable, "valueFrom")
        yield "ConfigMap", _part(value, "configMapKeyRef").get("name", "")
        yield "Secret", _part(value, "secretKeyRef").get("name", "")


def _part(obj: Any, name: str) -> JsonObject:
    part = obj.get(name)
    return part if isinstance(part, dict) else {}


class LocationCache:
    """Which nodes have been given, or asked to use, a configmap or secret.

    A node is not taken off when its last pod goes: its store keeps the object, so it must go on hearing of changes. The
    entry goes with the object (KubeEdge's rule); nodes whose pods still name it must be learnt anew, or they would not
    hear of its successor (which KubeEdge forgets).
    """

    def __init__(self) -> None:
        self._nodes: dict[ObjectKey, dict[str, None]] = {}
        self._keys: defaultdict[str, dict[ObjectKey, None]] = defaultdict(dict)
        """The same, by node."""

    def learn(self, pod: JsonObject) -> list[ObjectKey]:
        """Notes what a pod needs on its node; gives the references."""
        references = references_of(pod)
        node = (pod.get("spec") or {}).get("nodeName")
        if node:
            for key in references:
                self.note(key, node)
        return references

    def note(self, key: ObjectKey, node: str) -> None:
        """Notes that a node holds an object."""
        self._nodes.setdefault(key, {})[node] = None
        self._keys[node][key] = None

    def count(self, node: str) -> int:
        """How many objects a node holds or waits for."""
        return len(self._keys.get(node, ()))

    def nodes_of(self, key: ObjectKey) -> list[str]:
        """The nodes that must hear of changes of an object."""
        return list(self._nodes.get(key, ()))

    def on_node(self, node: str) -> list[ObjectKey]:
        """The objects that a node holds."""
        return list(self._keys.get(node, ()))

    def forget_node(self, node: str) -> None:
        """Drops what is noted of a node."""
        for key in self._keys.pop(node, {}):
            nodes = self._nodes[key]
            del nodes[node]
            if not nodes:
                del self._nodes[key]

    def forget(self, key: ObjectKey) -> bool:
        """Drops the entry of a deleted object, after its deletion has been sent; whether there was one."""
        nodes = self._nodes.pop(key, {})
        for node in nodes:
            keys = self._keys[node]
            del keys[key]
            if not keys:
                del self._keys[node]
        return bool(nodes)
