"""The rules of PersistentVolumes, their claims, and CSI's kinds."""

from collections.abc import Mapping
from posixpath import normpath
from typing import Any, Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.causes import (
    Causes,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)
from modules.apimachinery.validation.labels import label_key, label_selector, node_selector
from modules.apimachinery.validation.metadata import bytes_of, immutable, namespace_name
from modules.apimachinery.validation.resources import amount_of
from modules.apimachinery.validation.rules import (
    Fields,
    Rule,
    Union,
    needed,
    no_backsteps,
    non_negative,
    one_of,
    or_zero,
    pointer,
    quantity,
)
from modules.apimachinery.validation.volumes import (
    NETWORK_TYPES,
    NO_TYPE,
    ONE_TYPE,
    access_modes,
    claim_spec,
    driver_name,
    host_path,
    positive_amount,
    subdomain,
    token_seconds,
)

_LONGEST_NODE_ID: Final = 256
_MOST_PARAMETERS: Final = 512
_FOR_EXPANSION: Final = "controllerExpandSecretRef"
_CLASS: Final = "storageClassName"
_LONGEST_PARAMETERS: Final = 256 * 1024

_SECRET: Final = Fields({"name": needed(subdomain), "namespace": needed(namespace_name)})
_SECRETS: Final = (
    "controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef",
)  # fmt: skip
_CSI: Final = Fields({"driver": or_zero(driver_name, ""), "volumeHandle": needed(), **dict.fromkeys(_SECRETS, _SECRET)})
_AFFINITY: Final = Fields({"required": needed(node_selector, "must specify required node constraints")})
_SOURCES: Final = {
    "hostPath": host_path,
    **NETWORK_TYPES,
    "local": Fields({"path": needed(no_backsteps)}),
    "csi": _CSI,
}


def _capacity(value: Mapping[str, Any], path: str, found: Causes) -> None:
    capacity, where = value.get("capacity") or {}, f"{path}.capacity"
    if not capacity:
        found.append(required(where))
    if list(capacity) != ["storage"]:
        found.append(unsupported(where, capacity, ["storage"]))
    for name, amount in capacity.items():
        positive_amount(amount, f"{where}[{name[:253]}]", found)


def _of_source(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the fields that belong to a volume's source."""
    if value.get("local") is not None and value.get("nodeAffinity") is None:
        found.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    on_node = (value.get("hostPath") or {}).get("path") or ""
    if on_node and normpath(on_node) == "/" and value.get("persistentVolumeReclaimPolicy") == "Recycle":
        why = "may not be 'recycle' for a hostPath mount of '/'"
        found.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", why))


persistent_volume = Fields(
    {
        "spec": or_zero(
            Fields(
                {
                    "accessModes": needed(access_modes),
                    "persistentVolumeReclaimPolicy": one_of("Delete", "Recycle", "Retain"),
                    "nodeAffinity": _AFFINITY,
                    "storageClassName": subdomain,
                    "volumeMode": pointer(one_of("Block", "Filesystem")),
                },
                _capacity,
                Union(_SOURCES, ONE_TYPE, NO_TYPE),
                _of_source,
            ),
            {},
        )
    }
)
persistent_volume_claim = Fields({"spec": or_zero(claim_spec, {})})


def volume_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a volume keeps its source, its mode, and the nodes that reach it."""
    wanted, before = new.get("spec") or {}, live.get("spec") or {}
    if any(_source(wanted, name, before) != before.get(name) for name in _SOURCES):
        found.append(
            forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
        )
    immutable(wanted.get("volumeMode"), before.get("volumeMode"), "volumeMode", found)
    if before.get("nodeAffinity") is not None and wanted.get("nodeAffinity") != before["nodeAffinity"]:
        why = "field is immutable, except for updating from beta label to GA"
        found.append(invalid("nodeAffinity", wanted.get("nodeAffinity"), why))


def _source(spec: JsonObject, name: str, before: JsonObject) -> Any:
    """Return a source without the secret for its expansion, if it had none before."""
    source = spec.get(name)
    if name != "csi" or not source or (before.get(name) or {}).get(_FOR_EXPANSION) is not None:
        return source
    return {key: value for key, value in source.items() if key != _FOR_EXPANSION}


def claim_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a claim keeps its spec: it may be bound, and a bound one may ask for more."""
    wanted, before = dict(new.get("spec") or {}), dict(live.get("spec") or {})
    one, other = _size(wanted), _size(before)
    if not before.get("volumeName"):
        wanted.pop("volumeName", None)
    if before.get(_CLASS) is None:
        wanted.pop(_CLASS, None)
    if (live.get("status") or {}).get("phase") == "Bound":
        wanted["resources"], before["resources"] = map(_without_storage, (wanted, before))
    if _given(wanted) != _given(before):
        of = "resources.requests and volumeAttributesClassName for bound claims"
        found.append(forbidden("spec", f"spec is immutable after creation except {of}"))
    if one is not None and other is not None and one < other:
        capacity = amount_of(((live.get("status") or {}).get("capacity") or {}).get("storage", "0"))
        if capacity is None or one <= capacity:
            why = "field can not be less than status.capacity"
            found.append(forbidden("spec.resources.requests.storage", why))

    immutable((new.get("spec") or {}).get("volumeMode"), before.get("volumeMode"), "volumeMode", found)


def _given(spec: JsonObject) -> JsonObject:
    """Return the members of a claim's spec that say something: an empty class is one, and none is the default one."""
    return {name: value for name, value in spec.items() if value or (name == _CLASS and value is not None)}


def _without_storage(spec: JsonObject) -> JsonObject:
    """Return the resources of a claim without the size that it asks for."""
    resources = spec.get("resources") or {}
    requests = {name: amount for name, amount in (resources.get("requests") or {}).items() if name != "storage"}
    others = {name: value for name, value in resources.items() if name != "requests"}
    return {**others, "requests": requests} if requests else others


def _size(spec: JsonObject) -> Any:
    return amount_of(((spec.get("resources") or {}).get("requests") or {}).get("storage", "0"))


def _token_requests(value: Any, path: str, found: Causes) -> None:
    """Check the tokens that a driver gets: each is for another audience."""
    seen = set[str]()
    for index, each in enumerate(value):
        audience = str(each.get("audience") or "")
        if audience in seen:
            found.append(duplicate(f"{path}[{index}].audience", audience))
        else:
            _TOKEN_REQUEST(each, f"{path}[{index}]", found)
        seen.add(audience)


def _lifecycle_modes(value: Any, path: str, found: Causes) -> None:
    for mode in value:
        one_of("Persistent", "Ephemeral")(mode, path, found)


_TOKEN_REQUEST: Final = Fields({"expirationSeconds": pointer(token_seconds)})
csi_driver = Fields(
    {
        "spec": Fields(
            {
                "fsGroupPolicy": pointer(one_of("File", "None", "ReadWriteOnceWithFSType")),
                "tokenRequests": _token_requests,
                "volumeLifecycleModes": _lifecycle_modes,
            }
        )
    }
)


def _attached(value: Mapping[str, Any], path: str, found: Causes) -> None:
    name, inline = value.get("persistentVolumeName"), value.get("inlineVolumeSpec")
    why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if name is None and inline is None:
        found.append(required(path, why))
    elif name is not None and inline is not None:
        found.append(forbidden(path, why))
    elif name == "":
        found.append(required(f"{path}.persistentVolumeName", "must specify non empty persistentVolumeName"))


def _attachment_names(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check what only v1 asks of an attachment (ValidateVolumeAttachmentV1)."""
    driver_name(spec.get("attacher") or "", f"{path}.attacher", found)
    name = (spec.get("source") or {}).get("persistentVolumeName")
    if name is not None:
        subdomain(name, f"{path}.source.persistentVolumeName", found)


_attachment_spec: Rule = Fields(
    {"attacher": needed(), "source": or_zero(Fields({}, _attached), {}), "nodeName": or_zero(subdomain, "")},
    _attachment_names,
)
volume_attachment = Fields({"spec": or_zero(_attachment_spec, {})})


def attachment_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that an attachment keeps its spec."""
    immutable(new.get("spec"), live.get("spec"), "spec", found)


def _provisioner(value: str, path: str, found: Causes) -> None:
    label_key(value.lower(), path, found)


def _topologies(value: Any, path: str, found: Causes) -> None:
    """Check the places of new volumes: each term is another one."""
    seen: list[dict[str, set[str]]] = []
    for index, term in enumerate(value):
        where, keys = f"{path}[{index}].matchLabelExpressions", dict[str, set[str]]()
        for number, expression in enumerate(term.get("matchLabelExpressions") or ()):
            _TOPOLOGY(expression, f"{where}[{number}]", found)
            key = str(expression.get("key") or "")
            if key in keys:
                found.append(duplicate(f"{where}[{number}].key", key))
            keys[key] = set(expression.get("values") or ())
        if keys in seen:
            found.append(duplicate(where, ""))
        seen.append(keys)


def _values(value: Any, path: str, found: Causes) -> None:
    seen = set[str]()
    for index, text in enumerate(value):
        if text in seen:
            found.append(duplicate(f"{path}[{index}]", text))
        seen.add(text)


def _parameters(value: Mapping[str, str], path: str, found: Causes) -> None:
    if len(value) > _MOST_PARAMETERS:
        found.append(too_long(path, _MOST_PARAMETERS))
        return
    if "" in value:
        found.append(invalid(path, "", "field can not be empty."))
    if sum(bytes_of(key) + bytes_of(text) for key, text in value.items()) > _LONGEST_PARAMETERS:
        found.append(too_long(path, _LONGEST_PARAMETERS))


_TOPOLOGY: Final = Fields({"values": needed(_values), "key": or_zero(label_key, "")})
storage_class = Fields(
    {
        "provisioner": needed(_provisioner),
        "parameters": _parameters,
        "reclaimPolicy": pointer(one_of("Delete", "Retain")),
        "volumeBindingMode": pointer(one_of("Immediate", "WaitForFirstConsumer")),
        "allowedTopologies": _topologies,
    }
)


def storage_class_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a StorageClass keeps how it makes volumes."""
    for field in ("parameters", "provisioner", "reclaimPolicy"):
        if (new.get(field) or None) != (live.get(field) or None):
            found.append(forbidden(field, f"updates to {field} are forbidden."))
    immutable(new.get("volumeBindingMode"), live.get("volumeBindingMode"), "volumeBindingMode", found)


def csi_driver_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a CSIDriver keeps how its volumes are attached and who makes them."""
    wanted, before = new.get("spec") or {}, live.get("spec") or {}
    for field, told in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")):
        immutable(wanted.get(field), before.get(field), f"spec.{told}", found)


def _drivers(value: Any, path: str, found: Causes) -> None:
    seen = set[str]()
    for index, driver in enumerate(value):
        where, name = f"{path}[{index}]", str(driver.get("name") or "")
        _DRIVER(driver, where, found)
        if name in seen:
            found.append(duplicate(f"{where}.name", name))
        seen.add(name)
        _topology_keys(driver, where, found)


def _node_id(value: str, path: str, found: Causes) -> None:
    if bytes_of(value) > _LONGEST_NODE_ID:
        found.append(invalid(path, value, f"must be {_LONGEST_NODE_ID} characters or less"))


def _topology_keys(driver: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the labels of a driver's places, which Kubernetes tells at the driver."""
    seen = set[str]()
    for key in driver.get("topologyKeys") or ():
        if not key:
            found.append(required(path))
        if key in seen:
            found.append(duplicate(path, key))
        seen.add(key)
        label_key(key, path, found)


_DRIVER: Final = Fields(
    {
        "name": or_zero(driver_name, ""),
        "nodeID": needed(_node_id),
        "allocatable": Fields({"count": pointer(non_negative)}),
    }
)
csi_node = Fields({"spec": Fields({"drivers": _drivers})})


def csi_node_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that the drivers of a CSINode come and go, and do not change."""
    before = {each.get("name"): each for each in (live.get("spec") or {}).get("drivers") or ()}
    drivers = (new.get("spec") or {}).get("drivers") or []
    for driver in drivers:
        if before.get(driver.get("name"), driver) != driver:
            found.append(invalid("CSINodeDriver", driver, "field is immutable"))


csi_storage_capacity = Fields(
    {"nodeTopology": label_selector, "storageClassName": or_zero(subdomain, ""), "capacity": quantity}
)


def csi_storage_capacity_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that an update does not move a CSIStorageCapacity to another topology or storage class."""
    for field in ("nodeTopology", "storageClassName"):
        immutable(new.get(field), live.get(field), field, found)
