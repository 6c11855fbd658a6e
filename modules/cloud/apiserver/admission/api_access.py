"""The volume that lets containers of a pod reach the API server: a token, the certificate authority and the namespace.

It is the part of the admission plug-in ServiceAccount that kube-apiserver calls `mountServiceAccountToken`.
"""

from typing import Final

from modules.apimachinery.generated_names import suffix_of
from modules.apimachinery.kinds import JsonObject

ROOT_CERTIFICATE: Final = "kube-root-ca.crt"
"""The ConfigMap of each namespace with the certificate authority of the API server."""
MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS: Final = 3607
"""Seconds that a token is valid; kubelet's number, which others recognize."""
_PREFIX: Final = "kube-api-access-"
_CONTAINERS: Final = ("initContainers", "containers")


def with_api_access(pod: JsonObject, account: JsonObject | None) -> JsonObject:
    """Return a new pod whose containers mount the volume, unless the pod, or else its account, wants none.

    Args:
        pod: it is not changed.
        account: its service account; None while the account is being made.
    """
    spec = pod["spec"]
    wanted = spec.get("automountServiceAccountToken")
    if wanted is None:
        wanted = (account or {}).get("automountServiceAccountToken")
    if wanted is False:
        return pod
    volumes = spec.get("volumes") or []
    own = _name_of(volumes)
    name = own or _PREFIX + suffix_of(f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}")
    changed = {
        field: [_mounting(container, name) for container in spec[field]] for field in _CONTAINERS if spec.get(field)
    }
    if all(changed[field] == spec[field] for field in changed):
        return pod
    return {**pod, "spec": {**spec, **changed, "volumes": volumes if own else [*volumes, _volume(name)]}}


def with_kept_api_access(pod: JsonObject, live: JsonObject) -> JsonObject:
    """Return a pod of a manifest, which does not have the volume, with the volume and the mounts of the stored pod."""
    spec = pod.get("spec") or {}
    kept = _name_of((live.get("spec") or {}).get("volumes") or [])
    if not kept:
        return pod
    changed = {
        field: _keeping(spec[field], live["spec"].get(field) or [], kept) for field in _CONTAINERS if spec.get(field)
    }
    volumes = spec.get("volumes") or []
    if not _name_of(volumes):
        volumes = [*volumes, *(volume for volume in live["spec"]["volumes"] if volume["name"] == kept)]
    return {**pod, "spec": {**spec, **changed, "volumes": volumes}}


def _keeping(containers: list[JsonObject], live: list[JsonObject], volume: str) -> list[JsonObject]:
    """Return containers that mount the volume where the stored pod's containers do."""
    mounting = {
        each["name"] for each in live if any(mount.get("name") == volume for mount in each.get("volumeMounts") or [])
    }
    return [_mounting(each, volume) if each.get("name") in mounting else each for each in containers]


def _name_of(volumes: list[JsonObject]) -> str:
    """Return the name that the volume has in a pod; "" if it is not there."""
    return next((each["name"] for each in volumes if str(each.get("name")).startswith(_PREFIX)), "")


def _mounting(container: JsonObject, volume: str) -> JsonObject:
    """Return a container that mounts the volume, unless it mounts something in its place."""
    mounts = container.get("volumeMounts") or []
    if any(mount.get("mountPath") == MOUNT_PATH for mount in mounts):
        return container
    return {**container, "volumeMounts": [*mounts, {"name": volume, "readOnly": True, "mountPath": MOUNT_PATH}]}


def _volume(name: str) -> JsonObject:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": ROOT_CERTIFICATE, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 0o644}}
