"""The defaults that an API server sets in a new pod, and that edged relies on.

From Kubernetes' defaulting of core/v1 (SetDefaults_PodSpec, _Container, _Probe and others). The fields of admission
plug-ins are not set here: the service account's token volume, tolerations, priority.
"""

from collections.abc import Mapping
from typing import Any

from modules.apimachinery.conversion import convert, copied
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.pods.qos import qos_class
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.apimachinery.types import Pod

_SPEC = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_MODE_0644 = 0o644
_VOLUMES_WITH_MODE = ("configMap", "secret", "downwardAPI", "projected")
_TOKEN_SECONDS = 3600
_NETWORK_VOLUMES: Mapping[str, JsonObject] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
"""The defaults of volume types, in pods and in PersistentVolumes."""


def with_pod_defaults(pod: JsonObject) -> JsonObject:
    """Return a copy of the pod with an API server's defaults, and a status."""
    pod = copied(pod)
    spec = pod.setdefault("spec", {})
    complete_pod_spec(spec)
    status = pod.setdefault("status", {})
    status.setdefault("phase", "Pending")
    status.setdefault("qosClass", qos_class(convert(pod, Pod, "Pod")).value)
    return pod


def with_service_account(pod: JsonObject) -> JsonObject:
    """Return a new pod with the service account of its namespace if it names none, also by the field's former name; a
    mirror pod has none.
    """
    if CONFIG_MIRROR in (pod["metadata"].get("annotations") or {}):
        return pod
    spec = pod["spec"]
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    return {**pod, "spec": {**spec, "serviceAccountName": name, "serviceAccount": name}}


def complete_pod_spec(spec: JsonObject) -> None:
    """Set the defaults in the spec of a pod, with the requests of its containers (SetDefaults_Pod); in place. A
    negative grace period becomes one second, which that of a template does not.
    """
    complete_template_spec(spec)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("enableServiceLinks", True)
    for container in [*spec.get("containers", []), *spec.get("initContainers", [])]:
        limits = container["resources"].get("limits")
        if limits:
            container["resources"]["requests"] = {**limits, **(container["resources"].get("requests") or {})}
        if spec.get("hostNetwork"):
            for port in container.get("ports", []):
                port.setdefault("hostPort", port.get("containerPort"))


def complete_template_spec(spec: JsonObject) -> None:
    """Set the defaults that the spec of a pod and of a template have (SetDefaults_PodSpec), and the name of its
    service account by both names of the field; in place.
    """
    for name, value in _SPEC.items():
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in [*spec.get("containers", []), *spec.get("initContainers", [])]:
        _complete_container(container)
    for container in spec.get("ephemeralContainers", []):
        _complete_ephemeral(container)
    for volume in spec.get("volumes", []):
        _complete_volume(volume)


def pull_policy(image: str) -> str:
    """Return the default pull policy: Always for the tag `latest`, also beside a digest, and for neither of the two,
    otherwise IfNotPresent.
    """
    name, at, _ = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or not (tag or at) else "IfNotPresent"


def _complete_ephemeral(container: JsonObject) -> None:
    for name, value in _CONTAINER.items():
        container.setdefault(name, value)
    container.setdefault("imagePullPolicy", pull_policy(container.get("image", "")))


def _complete_container(container: JsonObject) -> None:
    _complete_ephemeral(container)
    container.setdefault("resources", {})
    for port in container.get("ports", []):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", []):
        _complete_field_ref((variable.get("valueFrom") or {}).get("fieldRef"))
    for name in _PROBES:
        if container.get(name):
            _complete_probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        _complete_http_get(hook)


def _complete_probe(probe: JsonObject) -> None:
    for name, value in _PROBE.items():
        probe.setdefault(name, value)
    if isinstance(probe.get("grpc"), dict):
        probe["grpc"].setdefault("service", "")
    _complete_http_get(probe)


def _complete_http_get(handler: JsonObject) -> None:
    if isinstance(handler, dict) and handler.get("httpGet"):
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def _complete_volume(volume: JsonObject) -> None:
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}
    for name in _VOLUMES_WITH_MODE:
        if isinstance(volume.get(name), dict):
            volume[name].setdefault("defaultMode", _MODE_0644)
    complete_volume_source(volume)
    claim = ((volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}).get("spec")
    if isinstance(claim, dict):
        claim.setdefault("volumeMode", "Filesystem")
    projections = [volume.get("downwardAPI") or {}]
    for source in (volume.get("projected") or {}).get("sources", []):
        projections.append(source.get("downwardAPI") or {})
        if source.get("serviceAccountToken"):
            source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_SECONDS)
    for item in (item for projection in projections for item in projection.get("items", [])):
        _complete_field_ref(item.get("fieldRef"))


def complete_volume_source(source: JsonObject) -> None:
    """Set the defaults that a volume source has in a pod and in a PersistentVolume; in place."""
    if isinstance(source.get("hostPath"), dict):
        source["hostPath"].setdefault("type", "")
    for name, defaults in _NETWORK_VOLUMES.items():
        if isinstance(source.get(name), dict):
            source[name] = {**defaults, **source[name]}


def _complete_field_ref(reference: Any) -> None:
    if isinstance(reference, dict):
        reference.setdefault("apiVersion", "v1")
