"""The objects that a pod's spec refers to (Kubernetes' `pkg/api/v1/pod`).

Beyond KubeEdge, they include references of init containers, and secrets in projected volumes.
"""

from collections.abc import Iterator
from typing import Any

from modules.apimachinery.kinds import JsonObject, ObjectKey

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_SECRET_FIELDS = ("secretRef", "nodePublishSecretRef")


def references_of(pod: JsonObject) -> list[ObjectKey]:
    """Return the configmaps and secrets that a pod's spec names, each once, in order of appearance."""
    namespace = pod["metadata"].get("namespace", "default")
    found = (ObjectKey(kind, namespace, name) for kind, name in _named_in(pod.get("spec") or {}) if name)
    return list(dict.fromkeys(found))


def other_references_of(pod: JsonObject) -> list[ObjectKey]:
    """Return the other objects that a pod's node may read: claims, the service account, secrets of volumes (Kubernetes'
    VisitPodSecretNames). They are not sent to the node.
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
    """Yield the secrets in a volume's source: `secretRef.name`, `nodePublishSecretRef.name`, `azureFile.secretName`."""
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
        if "valueFrom" in variable:
            value = _part(variable, "valueFrom")
            yield "ConfigMap", _part(value, "configMapKeyRef").get("name", "")
            yield "Secret", _part(value, "secretKeyRef").get("name", "")


def _part(obj: Any, name: str) -> JsonObject:
    part = obj.get(name)
    return part if isinstance(part, dict) else {}
