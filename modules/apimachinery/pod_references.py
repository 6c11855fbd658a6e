"""The objects that a pod's spec refers to (Kubernetes' `pkg/api/v1/pod`).

Beyond KubeEdge, they include references of init containers, and secrets in projected volumes.
"""

from collections.abc import Iterator

from modules.apimachinery.generated_names import ephemeral_claim_name
from modules.apimachinery.kinds import JsonObject, ObjectKey, uid_of
from modules.apimachinery.unvalidated import member_of

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
    found += claims_of(pod)
    for volume in spec.get("volumes") or []:
        found += [ObjectKey("Secret", namespace, name) for name in _secrets_of_source(volume)]
    return list(dict.fromkeys(found))


def claims_of(pod: JsonObject) -> Iterator[ObjectKey]:
    """Yield the keys of the claims of a pod's volumes: those that it names, and those made for it."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        name = member_of(volume, "persistentVolumeClaim").get("claimName")
        if name:
            yield _claim(pod, str(name))
        elif volume.get("ephemeral"):
            yield _made_claim(pod, volume)


def ephemeral_volumes_of(pod: JsonObject) -> Iterator[tuple[ObjectKey, JsonObject]]:
    """Yield the generic ephemeral volumes of a pod, each with the key of the claim that is made for it."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if volume.get("ephemeral"):
            yield _made_claim(pod, volume), volume


def why_not_for(pod: JsonObject, claim: JsonObject) -> str:
    """Return why an ephemeral volume of a pod cannot have a claim, as it was not made for the pod; "" if it was
    (Kubernetes' `VolumeIsForPod`).
    """
    references = claim["metadata"].get("ownerReferences") or ()
    owner = next((each for each in references if isinstance(each, dict) and each.get("controller")), {})
    if owner.get("uid") == uid_of(pod):
        return ""
    namespace = claim["metadata"].get("namespace")
    pair = f"PVC {namespace}/{claim['metadata']['name']} was not created for pod {namespace}/{pod['metadata']['name']}"
    return f"{pair} (pod is not owner)"


def _made_claim(pod: JsonObject, volume: JsonObject) -> ObjectKey:
    return _claim(pod, ephemeral_claim_name(str(pod["metadata"].get("name")), str(volume.get("name"))))


def _claim(pod: JsonObject, name: str) -> ObjectKey:
    return ObjectKey("PersistentVolumeClaim", str(pod["metadata"].get("namespace") or "default"), name)


def _secrets_of_source(volume: JsonObject) -> Iterator[str]:
    """Yield the secrets in a volume's source: `secretRef.name`, `nodePublishSecretRef.name`, `azureFile.secretName`."""
    for kind, source in volume.items():
        if not isinstance(source, dict) or kind == "secret":
            continue
        names = [source.get("secretName"), *(member_of(source, field).get("name") for field in _SECRET_FIELDS)]
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
    yield "ConfigMap", member_of(volume, "configMap").get("name", "")
    yield "Secret", member_of(volume, "secret").get("secretName", "")
    for source in member_of(volume, "projected").get("sources") or []:
        yield "ConfigMap", member_of(source, "configMap").get("name", "")
        yield "Secret", member_of(source, "secret").get("name", "")


def _named_in_container(container: JsonObject) -> Iterator[tuple[str, str]]:
    for source in container.get("envFrom") or []:
        yield "ConfigMap", member_of(source, "configMapRef").get("name", "")
        yield "Secret", member_of(source, "secretRef").get("name", "")
    for variable in container.get("env") or []:
        if "valueFrom" in variable:
            value = member_of(variable, "valueFrom")
            yield "ConfigMap", member_of(value, "configMapKeyRef").get("name", "")
            yield "Secret", member_of(value, "secretKeyRef").get("name", "")
