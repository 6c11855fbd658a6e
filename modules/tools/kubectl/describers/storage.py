"""Descriptions of PersistentVolumeClaims and PersistentVolumes."""

from typing import Final

from modules.tools.kubectl.describers.common import (
    Related,
    canonical,
    events_table,
    finalizers,
    labels_and_annotations,
    moment,
    name_and_namespace,
    terminating,
)
from modules.tools.kubectl.describers.pod_volumes import volume_source
from modules.tools.kubectl.describers.writer import NONE, AlignedWriter
from modules.tools.printing.fields import JsonObject, list_at, map_at, objects_at, text_at, value_at

_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def describe_claim(claim: JsonObject, related: Related, now: float) -> str:
    """Return the description of a PersistentVolumeClaim."""
    out = AlignedWriter()
    volume, name = text_at(claim, "spec.volumeName"), text_at(claim, "metadata.name")
    name_and_namespace(out, claim)
    out.field(0, "StorageClass", text_at(claim, "spec.storageClassName"))
    out.field(0, "Status", terminating(claim, now) or text_at(claim, "status.phase"))
    out.field(0, "Volume", volume)
    labels_and_annotations(out, claim)
    out.field(0, "Finalizers", finalizers(claim))
    out.field(0, "Capacity", canonical(text_at(claim, "status.capacity.storage")) if volume else "")
    out.field(0, "Access Modes", _modes(claim, "status.accessModes") if volume else "")
    if text_at(claim, "spec.volumeMode"):
        out.field(0, "VolumeMode", text_at(claim, "spec.volumeMode"))
    users = [text_at(pod, "metadata.name") for pod in related.pods if name in _claims_of(pod)]
    out.values(0, "Used By", sorted(users))
    _conditions(out, claim)
    events_table(out, related.events, now)
    return out.text()


def describe_volume(volume: JsonObject, related: Related, now: float) -> str:
    """Return the description of a PersistentVolume."""
    out = AlignedWriter()
    out.field(0, "Name", text_at(volume, "metadata.name"))
    labels_and_annotations(out, volume)
    out.field(0, "Finalizers", finalizers(volume))
    out.field(0, "StorageClass", text_at(volume, "spec.storageClassName"))
    out.field(0, "Status", terminating(volume, now) or text_at(volume, "status.phase"))
    claim = map_at(volume, "spec.claimRef")
    out.field(0, "Claim", f"{text_at(claim, 'namespace')}/{text_at(claim, 'name')}" if claim else "")
    out.field(0, "Reclaim Policy", text_at(volume, "spec.persistentVolumeReclaimPolicy"))
    out.field(0, "Access Modes", _modes(volume, "spec.accessModes"))
    if text_at(volume, "spec.volumeMode"):
        out.field(0, "VolumeMode", text_at(volume, "spec.volumeMode"))
    out.field(0, "Capacity", canonical(text_at(volume, "spec.capacity.storage")))
    _affinity(out, volume)
    out.field(0, "Message", text_at(volume, "status.message"))
    out.row(0, "Source:")
    volume_source(out, _with_type(map_at(volume, "spec")))
    events_table(out, related.events, now)
    return out.text()


def _modes(obj: JsonObject, path: str) -> str:
    return ",".join(_MODES.get(str(mode), str(mode)) for mode in list_at(obj, path))


def _claims_of(pod: JsonObject) -> list[str]:
    return [text_at(each, "persistentVolumeClaim.claimName") for each in objects_at(pod, "spec.volumes")]


def _conditions(out: AlignedWriter, claim: JsonObject) -> None:
    conditions = objects_at(claim, "status.conditions")
    if not conditions:
        return
    titles = ("Type", "Status", "LastProbeTime", "LastTransitionTime", "Reason", "Message")
    out.row(0, "Conditions:")
    out.row(1, *titles)
    out.row(1, "----", *("-" * len(title) for title in titles[1:]))
    for condition in conditions:
        times = (moment(text_at(condition, key)) for key in ("lastProbeTime", "lastTransitionTime"))
        kind, status, reason = (text_at(condition, key) for key in ("type", "status", "reason"))
        out.row(1, *(f"{cell} " for cell in (kind, status, *times, reason)), text_at(condition, "message"))


def _affinity(out: AlignedWriter, volume: JsonObject) -> None:
    if not map_at(volume, "spec.nodeAffinity"):
        out.field(0, "Node Affinity", NONE)
        return
    out.field(0, "Node Affinity", "")
    terms = objects_at(volume, "spec.nodeAffinity.required.nodeSelectorTerms")
    out.field(1, "Required Terms", "" if terms else NONE)
    for place, term in enumerate(terms):
        out.values(2, f"Term {place}", map(_expression, objects_at(term, "matchExpressions")))


def _expression(expression: JsonObject) -> str:
    values = ", ".join(map(str, list_at(expression, "values")))
    text = f"{text_at(expression, 'key')} {text_at(expression, 'operator').lower()}"
    return f"{text} [{values}]" if values else text


def _with_type(spec: JsonObject) -> JsonObject:
    """Return the volume's fields; the type of a hostPath is always set in a PersistentVolume."""
    if value_at(spec, "hostPath") is None:
        return spec
    return spec | {"hostPath": {"type": ""} | map_at(spec, "hostPath")}
