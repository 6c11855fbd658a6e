"""Validation of objects: the part of Kubernetes' rules that protects an edge.

Names become directories on the edge, so they are checked as strictly as by an API server. Pods are checked for the
usual mistakes in manifests; the edge defends itself against the rest.
"""

import re
from collections.abc import Sequence
from typing import Any

from edged.api import Container, Pod, QuantityError, parse_quantity
from modules.cloud.apiserver.conversion import convert, validate_schema
from modules.cloud.apiserver.errors import BadRequestError, InvalidError
from modules.cloud.apiserver.kinds import LAST_APPLIED, JsonObject, Kind, kind_named
from modules.cloud.apiserver.limits import ANNOTATION_BYTES, DATA_BYTES

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")


def validate_metadata(obj: Any, kind: Kind | None = None) -> JsonObject:
    """Return the object, after checking kind, apiVersion, name and namespace.

    Args:
        obj: the object.
        kind: its kind, when it is a custom one.

    Raises:
        BadRequestError: it is not an object with kind and metadata.
        UnknownKindError: the API server stores no such objects.
        InvalidError: its name, namespace or apiVersion is wrong.
    """
    if not isinstance(obj, dict) or not isinstance(obj.get("kind"), str):
        raise BadRequestError("an object with apiVersion, kind and metadata is wanted")
    kind = kind or kind_named(obj["kind"])
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


def validate_object(obj: JsonObject) -> None:
    """Check an object by the schema and the rules of its kind.

    Raises:
        BadRequestError: it does not have its kind's schema.
        InvalidError: it breaks a rule.
    """
    validate_schema(obj)
    _check_annotations(obj)
    if obj["kind"] == "Pod":
        _check_pod(obj)
    elif obj["kind"] in ("ConfigMap", "Secret"):
        _check_data(obj)


def _check_annotations(obj: JsonObject) -> None:
    annotations = obj["metadata"].get("annotations") or {}
    counted = [text for name, text in annotations.items() if name != LAST_APPLIED]
    if sum(_bytes_of(text) for text in (*annotations, *counted)) > ANNOTATION_BYTES:
        raise _invalid(obj, "metadata.annotations", f"Too long: must have at most {ANNOTATION_BYTES} bytes")


def _bytes_of(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _check_data(obj: JsonObject) -> None:
    encoded = obj["kind"] == "Secret"
    total = 0
    for field in ("data", "binaryData", "stringData"):
        is_base64 = field == "binaryData" or (encoded and field == "data")
        sizes = map(_bytes_of, (obj.get(field) or {}).values())
        total += sum(size // 4 * 3 if is_base64 else size for size in sizes)
    if total > DATA_BYTES:
        raise _invalid(obj, "data" if encoded else "[]", f"Too long: must have at most {DATA_BYTES} bytes")
    for field in ("data", "binaryData", "stringData"):
        for key in obj.get(field) or {}:
            if not _DATA_KEY.fullmatch(key) or key in (".", ".."):
                raise _invalid(obj, f"{field}[{key[:50]}]", "a key consists of letters, digits, '-', '_' and '.'")


def _check_pod(obj: JsonObject) -> None:
    pod = convert(obj, Pod, "Pod")
    spec = pod.spec
    if not spec.containers:
        raise _invalid(obj, "spec.containers", "Required value")
    if (spec.restart_policy or "Always") not in _RESTART_POLICIES:
        raise _invalid(obj, "spec.restartPolicy", "supported values: " + ", ".join(_RESTART_POLICIES))
    if (spec.termination_grace_period_seconds or 0) < 0:
        raise _invalid(obj, "spec.terminationGracePeriodSeconds", "a number of seconds, 0 or more, is wanted")
    _check_names(obj, "spec.volumes", [volume.name for volume in spec.volumes])
    fields = {"initContainers": spec.init_containers, "containers": spec.containers}
    paths = {f"spec.{field}[{i}]": container for field, of in fields.items() for i, container in enumerate(of)}
    _check_names(obj, "spec.containers", [container.name for container in paths.values()])
    volumes = {volume.name for volume in spec.volumes}
    for path, container in paths.items():
        _check_container(obj, path, container, volumes)


def _check_container(obj: JsonObject, path: str, container: Container, volumes: set[str]) -> None:
    if not container.image.strip():
        raise _invalid(obj, f"{path}.image", "Required value")
    for mount in container.volume_mounts:
        if mount.name not in volumes:
            raise _invalid(obj, f"{path}.volumeMounts", f"Not found: volume {mount.name!r}")
        if not mount.mount_path:
            raise _invalid(obj, f"{path}.volumeMounts", "mountPath: Required value")
    for quantity in (*container.resources.limits.values(), *container.resources.requests.values()):
        try:
            parse_quantity(quantity)
        except QuantityError as error:
            raise _invalid(obj, f"{path}.resources", str(error)) from error


def _check_names(obj: JsonObject, path: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if not _LABEL.fullmatch(name):
            raise _invalid(obj, f"{path}[{index}].name", "a lowercase RFC 1123 label is wanted")
        if name in seen:
            raise _invalid(obj, f"{path}[{index}].name", f"Duplicate value: {name}")
        seen.add(name)


def _invalid(obj: JsonObject, field: str, why: str) -> InvalidError:
    group = str(obj.get("apiVersion") or "").rpartition("/")[0]
    return InvalidError(obj["kind"], obj["metadata"]["name"], field, why, group)
