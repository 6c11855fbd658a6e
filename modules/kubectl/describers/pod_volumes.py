"""Volumes in descriptions of Pods and PersistentVolumes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from modules.apimachinery.printing.fields import JsonObject, map_at, objects_at, text_at
from modules.apimachinery.types.quantity import canonical_quantity
from modules.kubectl.describers.common import UNSET, amount
from modules.kubectl.describers.writer import NONE, AlignedWriter

_Fields = Iterator[tuple[str, str]]


def volumes_of(out: AlignedWriter, volumes: Sequence[JsonObject]) -> None:
    """Add the volumes of a Pod."""
    if not volumes:
        out.field(0, "Volumes", NONE)
        return
    out.row(0, "Volumes:")
    for volume in volumes:
        out.row(1, f"{text_at(volume, 'name')}:")
        volume_source(out, volume)


def volume_source(out: AlignedWriter, volume: JsonObject) -> None:
    """Add the one source that a volume has; `<unknown>` for a kind of volume that is not known."""
    kind = next((kind for kind in _KINDS if kind in volume), None)
    if kind is None:
        out.row(1, "<unknown>")
        return
    source = map_at(volume, kind)
    text, fields = _KINDS[kind]
    out.field(2, "Type", text)
    out.fields(2, fields(source))
    if kind == "downwardAPI":
        out.row(2, "Items:")
        for item in objects_at(source, "items"):
            where = text_at(item, "fieldRef.fieldPath") or text_at(item, "resourceFieldRef.resource")
            out.row(3, f"{where} -> {text_at(item, 'path')}")
    attributes = map_at(source, "volumeAttributes")
    title = "VolumeAttributes:"
    for key in sorted(attributes):
        out.row(2, title, f"    {key}={attributes[key]}")
        title = "    "
    if kind == "csi" and not attributes:
        out.field(2, "VolumeAttributes", NONE)


def _flag(source: JsonObject, key: str) -> str:
    return str(bool(source.get(key))).lower()


def _fields(*rows: tuple[str, str]) -> Callable[[JsonObject], _Fields]:
    """Return a reader of fields: names and keys; a key with a question mark is a flag."""

    def fields(source: JsonObject) -> _Fields:
        for name, key in rows:
            yield name, _flag(source, key[:-1]) if key.endswith("?") else text_at(source, key)

    return fields


def _host_path(source: JsonObject) -> _Fields:
    yield "Path", text_at(source, "path")
    yield "HostPathType", NONE if source.get("type") is None else text_at(source, "type")


def _empty_dir(source: JsonObject) -> _Fields:
    limit = source.get("sizeLimit")
    yield "Medium", text_at(source, "medium")
    yield "SizeLimit", canonical_quantity(str(limit)) if amount(limit) > 0 else UNSET


def _csi(source: JsonObject) -> _Fields:
    yield "Driver", text_at(source, "driver")
    yield "FSType", text_at(source, "fsType")
    if "volumeHandle" in source:
        yield "VolumeHandle", text_at(source, "volumeHandle")
    yield "ReadOnly", _flag(source, "readOnly")


def _projected(volume: JsonObject) -> _Fields:
    for source in objects_at(volume, "sources"):
        if "secret" in source:
            yield "SecretName", text_at(source, "secret.name")
            yield "Optional", _flag(map_at(source, "secret"), "optional")
        elif "downwardAPI" in source:
            yield "DownwardAPI", "true"
        elif "configMap" in source:
            yield "ConfigMapName", text_at(source, "configMap.name")
            yield "Optional", _flag(map_at(source, "configMap"), "optional")
        elif "serviceAccountToken" in source:
            yield "TokenExpirationSeconds", text_at(source, "serviceAccountToken.expirationSeconds") or "3600"


_OPTIONAL: Final = ("Optional", "optional?")
_READ_ONLY: Final = ("ReadOnly", "readOnly?")
_KINDS: Final[dict[str, tuple[str, Callable[[JsonObject], _Fields]]]] = {
    "hostPath": ("HostPath (bare host directory volume)", _host_path),
    "emptyDir": ("EmptyDir (a temporary directory that shares a pod's lifetime)", _empty_dir),
    "configMap": (
        "ConfigMap (a volume populated by a ConfigMap)",
        _fields(("Name", "name"), _OPTIONAL),
    ),
    "secret": (
        "Secret (a volume populated by a Secret)",
        _fields(("SecretName", "secretName"), _OPTIONAL),
    ),
    "persistentVolumeClaim": (
        "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)",
        _fields(("ClaimName", "claimName"), _READ_ONLY),
    ),
    "downwardAPI": ("DownwardAPI (a volume populated by information about the pod)", _fields()),
    "projected": ("Projected (a volume that contains injected data from multiple sources)", _projected),
    "csi": ("CSI (a Container Storage Interface (CSI) volume source)", _csi),
    "nfs": (
        "NFS (an NFS mount that lasts the lifetime of a pod)",
        _fields(("Server", "server"), ("Path", "path"), _READ_ONLY),
    ),
    "local": ("LocalVolume (a persistent volume backed by local storage on a node)", _fields(("Path", "path"))),
    "image": (
        "Image (a container image or OCI artifact)",
        _fields(("Reference", "reference"), ("PullPolicy", "pullPolicy")),
    ),
}
