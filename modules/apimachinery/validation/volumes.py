"""The rules of a pod's volumes, and of claims for volumes."""

from collections.abc import Mapping
from typing import Any, Final

from modules.apimachinery.validation.causes import Causes, forbidden, invalid, required, too_long, unsupported
from modules.apimachinery.validation.containers import downward_api_file, plain_path
from modules.apimachinery.validation.labels import label_selector, labels
from modules.apimachinery.validation.names import faults_of_label, faults_of_subdomain
from modules.apimachinery.validation.resources import amount_of
from modules.apimachinery.validation.rules import (
    Each,
    Fields,
    Row,
    Rule,
    Union,
    between,
    file_mode,
    named,
    needed,
    no_backsteps,
    on_nodes,
    one_of,
    only_on_nodes,
    or_zero,
    pointer,
    quantity,
    relative_path,
    unreserved_path,
)

ONE_TYPE: Final = "may not specify more than 1 volume type"
NO_TYPE: Final = "must specify a volume type"
ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_LEAST_TOKEN_SECONDS: Final = 600
_MOST_TOKEN_SECONDS: Final = 1 << 32
_LONGEST_DRIVER: Final = 63

subdomain = named(faults_of_subdomain)
host_path = Fields(
    {
        "path": on_nodes(needed(no_backsteps), plain_path),
        "type": one_of(
            "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"
        ),
    }
)


def _absolute(value: Mapping[str, Any], path: str, found: Causes) -> None:
    if not (value.get("path") or "").startswith("/"):
        found.append(invalid(f"{path}.path", value.get("path") or "", "must be an absolute path"))


nfs = Fields({"server": needed(), "path": needed()}, _absolute)


def _size_limit(value: Any, path: str, found: Causes) -> None:
    amount = amount_of(value)
    if amount is None:
        quantity(value, path, found)
    elif amount < 0:
        found.append(forbidden(path, "SizeLimit field must be a valid resource quantity"))


_MODE: Final = on_nodes(pointer(file_mode))
_PATH: Final = on_nodes(needed(unreserved_path), plain_path)
_ITEMS: Final = Each(Fields({"key": needed(), "path": _PATH, "mode": _MODE}))
_FILES: Final = Each(Fields({"path": _PATH, **downward_api_file.rows}, *downward_api_file.also), is_indexed=False)


def token_seconds(value: Any, path: str, found: Causes) -> None:
    """Check for how long a token is wanted."""
    if value < _LEAST_TOKEN_SECONDS:
        found.append(invalid(path, value, "may not specify a duration less than 10 minutes"))
    elif value > _MOST_TOKEN_SECONDS:
        found.append(invalid(path, value, "may not specify a duration larger than 2^32 seconds"))


def _token_path(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check a token's path, which is reported at the volume, as in Kubernetes."""
    where, text = f"{path.rpartition('.sources[')[0]}.path", value.get("path") or ""
    if not text:
        found.append(required(where))
    else:
        unreserved_path(text, where, found)


_PROJECTIONS: Final[dict[str, Rule]] = {
    "secret": Fields({"name": needed(), "items": _ITEMS}),
    "configMap": Fields({"name": needed(), "items": _ITEMS}),
    "downwardAPI": Fields({"items": _FILES}),
    "serviceAccountToken": Fields(
        {"expirationSeconds": on_nodes(pointer(token_seconds)), "path": only_on_nodes(plain_path)}, _token_path
    ),
    "clusterTrustBundle": Fields({"path": _PATH}),
}


def _one_projection(value: Mapping[str, Any], path: str, found: Causes) -> None:
    if sum(value.get(name) is not None for name in _PROJECTIONS) > 1:
        found.append(forbidden(path, "may not specify more than 1 volume type per source"))


def _paths_of_projections(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check that no two sources have a file of the same path; tokens are left out, as in Kubernetes."""
    seen = set[str]()
    for source in value.get("sources") or ():
        for name in ("secret", "configMap", "downwardAPI"):
            projection = source.get(name) or {}
            for item in projection.get("items") or ():
                where = item.get("path") or ""
                if where and where in seen:
                    told = projection.get("name") or where
                    found.append(invalid(path, told, "conflicting duplicate paths"))
                seen.add(where)


def driver_name(value: Any, path: str, found: Causes) -> None:
    """Check the name of a CSI driver, which must be there: an empty one is also reported as no name."""
    if not value:
        found.append(required(path))
    if len(value) > _LONGEST_DRIVER:
        found.append(too_long(path, _LONGEST_DRIVER))
    for why in faults_of_subdomain(value.lower()):
        found.append(invalid(path, value, why))


def access_modes(value: Any, path: str, found: Causes) -> None:
    """Check the access modes of a volume or claim."""
    for mode in value:
        if mode not in ACCESS_MODES:
            found.append(unsupported(path, mode, ACCESS_MODES))
    others = [mode for mode in value if mode in ACCESS_MODES and mode != ACCESS_MODES[-1]]
    if others and ACCESS_MODES[-1] in value:
        found.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))


def positive_amount(value: Any, path: str, found: Causes) -> None:
    """Check an amount that is greater than zero."""
    amount = amount_of(value)
    if amount is None:
        quantity(value, path, found)
    elif amount <= 0:
        found.append(invalid(path, str(value), "must be greater than zero"))


def _storage(value: Mapping[str, Any], path: str, found: Causes) -> None:
    requests = (value.get("resources") or {}).get("requests") or {}
    where = f"{path}.resources[storage]"
    if "storage" not in requests:
        found.append(required(where))
    else:
        positive_amount(requests["storage"], where, found)


def _data_source(value: Mapping[str, Any], path: str, found: Causes) -> None:
    group, kind = value.get("apiGroup") or "", value.get("kind") or ""
    if group:
        subdomain(group, f"{path}.apiGroup", found)
    elif kind != "PersistentVolumeClaim":
        why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        found.append(invalid(path, kind, why))


def _same_sources(value: Mapping[str, Any], path: str, found: Causes) -> None:
    source, reference = value.get("dataSource"), value.get("dataSourceRef") or {}
    if source and reference and not reference.get("namespace") and source != reference:
        found.append(invalid(path, source, "must match dataSourceRef"))


_SOURCE: Final = Fields({"name": needed(), "kind": needed()}, _data_source)
claim_spec = Fields(
    {
        "accessModes": needed(access_modes, "at least 1 access mode is required"),
        "selector": label_selector,
        "storageClassName": subdomain,
        "volumeMode": pointer(one_of("Block", "Filesystem")),
        "dataSource": _SOURCE,
        "dataSourceRef": _SOURCE,
    },
    _same_sources,
    _storage,
)
_OF_CLAIMS: Final = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields",
)  # fmt: skip
"""The metadata that the claim of an ephemeral volume gets from elsewhere."""


def _template_metadata(value: Mapping[str, Any], path: str, found: Causes) -> None:
    for name in filter(value.get, _OF_CLAIMS):
        found.append(forbidden(f"{path}.{name}", "cannot be set"))


_CLAIM_TEMPLATE: Final = Fields(
    {"metadata": Fields({"labels": labels}, _template_metadata), "spec": or_zero(claim_spec, {})}
)

_PARTITION: Final = between(0, 255, "must be between 1 and 255, inclusive")
_LUN: Final = between(0, 255)
_KUBERNETES: Final = (".kubernetes.io", ".k8s.io")


def _flex_options(value: Any, path: str, found: Causes) -> None:
    for key in value:
        if f".{key.partition('/')[0].lower()}".endswith(_KUBERNETES):
            why = "kubernetes.io and k8s.io namespaces are reserved"
            found.append(invalid(f"{path}[{key[:253]}]", key, why))


def _fibre_channel(value: Mapping[str, Any], path: str, found: Causes) -> None:
    names, ids = value.get("targetWWNs"), value.get("wwids")
    if not names and not ids:
        found.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    elif names and ids:
        why = "targetWWNs and wwids can not be specified simultaneously"
        found.append(invalid(f"{path}.targetWWNs", names, why))
    if names and value.get("lun") is None:
        found.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))


def _of(*names: str) -> Fields:
    """Return the rule of a volume type that needs some members and is checked no further: no node of ours has it."""
    return Fields({name: needed() for name in names})


NETWORK_TYPES: Final[dict[str, Row | Rule]] = {
    "gcePersistentDisk": Fields({"pdName": needed(), "partition": _PARTITION}),
    "awsElasticBlockStore": Fields({"volumeID": needed(), "partition": _PARTITION}),
    "nfs": nfs,
    "iscsi": Fields({"targetPortal": needed(), "iqn": needed(), "lun": _LUN}),
    "glusterfs": _of("endpoints", "path"),
    "flocker": Fields({}),
    "rbd": _of("monitors", "image"),
    "cinder": _of("volumeID"),
    "cephfs": _of("monitors"),
    "quobyte": _of("registry", "volume"),
    "fc": Fields({"lun": pointer(_LUN)}, _fibre_channel),
    "flexVolume": Fields({"driver": needed(), "options": _flex_options}),
    "azureFile": _of("secretName", "shareName"),
    "vsphereVolume": _of("volumePath"),
    "photonPersistentDisk": _of("pdID"),
    "portworxVolume": _of("volumeID"),
    "azureDisk": _of("diskName", "diskURI"),
    "storageos": _of("volumeName"),
    "scaleIO": _of("gateway", "system", "volumeName"),
}
"""The types that pods and PersistentVolumes have in common."""
_TYPES: Final[dict[str, Row | Rule]] = {
    "emptyDir": Fields({"sizeLimit": on_nodes(_size_limit)}),
    "hostPath": host_path,
    "gitRepo": Fields({"repository": needed(), "directory": relative_path}),
    "secret": Fields({"secretName": needed(), "defaultMode": _MODE, "items": _ITEMS}),
    "persistentVolumeClaim": Fields({"claimName": needed()}),
    "downwardAPI": Fields({"defaultMode": _MODE, "items": _FILES}),
    "configMap": Fields({"name": needed(), "defaultMode": _MODE, "items": _ITEMS}),
    "projected": Fields(
        {"defaultMode": _MODE, "sources": Each(Fields(_PROJECTIONS, _one_projection))}, _paths_of_projections
    ),
    "csi": Fields({"driver": or_zero(driver_name, "")}),
    "ephemeral": Fields({"volumeClaimTemplate": needed(_CLAIM_TEMPLATE)}),
    "image": Fields({"pullPolicy": one_of("Always", "IfNotPresent", "Never")}),
    **NETWORK_TYPES,
}
_ORDER: Final = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
"""The types as Kubernetes checks them: of several, the first counts."""
_VOLUME: Final = Fields(
    {"name": on_nodes(needed(named(faults_of_label)))},
    Union({name: _TYPES[name] for name in _ORDER}, ONE_TYPE, NO_TYPE),
)


volumes = Each(_VOLUME)
