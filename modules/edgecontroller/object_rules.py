"""What an object must be to be accepted: the part of Kubernetes' validation that keeps an edge out of
trouble.

Names become directories on the edge, so they are checked as strictly as an API server does. Of pods, the
mistakes are caught that a person makes in a manifest; the rest is left to the edge, which must defend itself
anyway.
"""

import re
from typing import Any

from modules.edgecontroller.errors import BadRequestError, InvalidError
from modules.edgecontroller.kinds import JsonObject, kind_named
from modules.edgecontroller.qos import qos_class

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")


def check_shape(obj: Any) -> JsonObject:
    """The object, known to have a kind that the stub keeps, metadata and a good name.

    Raises:
        BadRequestError: it is not an object of the API's form.
        UnknownKindError: the stub keeps no such objects.
        InvalidError: its name, namespace or apiVersion is wrong.
    """
    if not isinstance(obj, dict) or not isinstance(obj.get("kind"), str):
        raise BadRequestError("an object with apiVersion, kind and metadata is wanted")
    kind = kind_named(obj["kind"])
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise BadRequestError(f"{kind.name}: metadata.name is missing")
    name = meta["name"]
    if obj.get("apiVersion", kind.api_version) != kind.api_version:
        raise InvalidError(kind.name, name, "apiVersion", f"{kind.api_version} is wanted", kind.api_group)
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        why = "a lowercase RFC 1123 subdomain is wanted: letters, digits, '-' and '.'"
        raise InvalidError(kind.name, name[:100], "metadata.name", why, kind.api_group)
    namespace = meta.get("namespace", "default")
    if kind.namespaced and not (isinstance(namespace, str) and _LABEL.fullmatch(namespace)):
        why = "a lowercase RFC 1123 label is wanted"
        raise InvalidError(kind.name, name, "metadata.namespace", why, kind.api_group)
    return obj


def check_rules(obj: JsonObject) -> None:
    """Checks the rules of the object's kind.

    Raises:
        InvalidError: it breaks one.
    """
    if obj["kind"] == "Pod":
        _check_pod(obj)
    elif obj["kind"] in ("ConfigMap", "Secret"):
        _check_data(obj)


def _check_data(obj: JsonObject) -> None:
    for field in ("data", "binaryData"):
        data = obj.get(field) or {}
        if not isinstance(data, dict):
            raise _invalid(obj, field, "a map of keys to values is wanted")
        for key, value in data.items():
            if not isinstance(key, str) or not _DATA_KEY.fullmatch(key) or key in (".", ".."):
                raise _invalid(obj, f"{field}[{str(key)[:50]}]", "a key consists of letters, digits, '-', '_' and '.'")
            if not isinstance(value, str):
                raise _invalid(obj, f"{field}[{key}]", "a string is wanted; quote numbers and booleans")


def _check_pod(pod: JsonObject) -> None:
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        raise _invalid(pod, "spec", "Required value")
    if not spec.get("containers"):
        raise _invalid(pod, "spec.containers", "Required value")
    if spec.get("restartPolicy", "Always") not in _RESTART_POLICIES:
        raise _invalid(pod, "spec.restartPolicy", "supported values: " + ", ".join(_RESTART_POLICIES))
    grace = spec.get("terminationGracePeriodSeconds", 30)
    if not isinstance(grace, int) or isinstance(grace, bool) or grace < 0:
        raise _invalid(pod, "spec.terminationGracePeriodSeconds", "a number of seconds, 0 or more, is wanted")
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        _check_containers(pod, field, seen)
    _check_volumes(pod)
    try:
        qos_class(spec)
    except (ValueError, AttributeError) as error:
        raise _invalid(pod, "spec.containers[*].resources", str(error)) from error


def _check_containers(pod: JsonObject, field: str, seen: set[str]) -> None:
    for index, container in enumerate(_list(pod, "spec", field)):
        path = f"spec.{field}[{index}]"
        name = container.get("name")
        if not isinstance(name, str) or not _LABEL.fullmatch(name):
            raise _invalid(pod, f"{path}.name", "a lowercase RFC 1123 label is wanted")
        if name in seen:
            raise _invalid(pod, f"{path}.name", f"Duplicate value: {name}")
        seen.add(name)
        if not isinstance(container.get("image"), str) or not container["image"].strip():
            raise _invalid(pod, f"{path}.image", "Required value")
        volumes = {volume.get("name") for volume in _list(pod, "spec", "volumes")}
        for mount in container.get("volumeMounts") or []:
            if mount.get("name") not in volumes:
                raise _invalid(pod, f"{path}.volumeMounts", f"Not found: volume {mount.get('name')!r}")
            if not mount.get("mountPath"):
                raise _invalid(pod, f"{path}.volumeMounts", "mountPath: Required value")


def _check_volumes(pod: JsonObject) -> None:
    seen = set()
    for index, volume in enumerate(_list(pod, "spec", "volumes")):
        name = volume.get("name")
        if not isinstance(name, str) or not _LABEL.fullmatch(name):
            raise _invalid(pod, f"spec.volumes[{index}].name", "a lowercase RFC 1123 label is wanted")
        if name in seen:
            raise _invalid(pod, f"spec.volumes[{index}].name", f"Duplicate value: {name}")
        seen.add(name)


def _list(obj: JsonObject, part: str, field: str) -> list[JsonObject]:
    value = obj[part].get(field) or []
    if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
        raise _invalid(obj, f"{part}.{field}", "a list of objects is wanted")
    return value


def _invalid(obj: JsonObject, field: str, why: str) -> InvalidError:
    kind = kind_named(obj["kind"])
    return InvalidError(kind.name, obj["metadata"]["name"], field, why, kind.api_group)
