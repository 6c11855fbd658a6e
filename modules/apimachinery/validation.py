"""Validation of objects: the part of Kubernetes' rules that protects an edge.

Names become directories on the edge, so they are checked as strictly as by an API server. Pods are checked for the
usual mistakes in manifests; the edge defends itself against the rest.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from edged.api import Container, Pod, QuantityError, parse_quantity
from edged.validation.causes import Cause, invalid, required, shown, unsupported
from edged.validation.names import faults_of_data_key, faults_of_label, faults_of_subdomain
from modules.apimachinery.api_errors import BadRequestError, InvalidError
from modules.apimachinery.conversion import convert, validate_schema
from modules.apimachinery.kinds import LAST_APPLIED, JsonObject, Kind, kind_named
from modules.apimachinery.limits import ANNOTATION_BYTES, DATA_BYTES
from modules.apimachinery.structural_schema.causes import MOST, InvalidFieldsError

_DATA: Final = ("data", "binaryData", "stringData")
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_SHOWN: Final = 253
"""Characters of a name in a refusal."""


def validate_metadata(obj: Any, kind: Kind | None = None) -> JsonObject:
    """Return the object, after checking kind, apiVersion, name and namespace.

    Args:
        obj: the object.
        kind: its kind, when it is a custom one.

    Raises:
        BadRequestError: it is not an object with kind and metadata.
        UnknownKindError: the API server stores no such objects.
        InvalidError, InvalidFieldsError: its name, namespace or apiVersion is wrong.
    """
    if not isinstance(obj, dict) or not isinstance(obj.get("kind"), str):
        raise BadRequestError("an object with apiVersion, kind and metadata is wanted")
    kind = kind or kind_named(obj["kind"])
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise BadRequestError(f"{kind.name}: metadata.name is missing")
    if obj.get("apiVersion", kind.api_version) != kind.api_version:
        why = f"{kind.api_version} is wanted"
        raise InvalidError(kind.name, meta["name"], "apiVersion", why, kind.api_group)
    faults = list(_metadata_faults(meta, kind))
    if faults:
        raise _invalid(obj, kind.api_group, [*faults, *_further_faults(obj)])
    return obj


def validate_object(obj: JsonObject) -> None:
    """Check an object by the schema and the rules of its kind; the error names all faults.

    Raises:
        BadRequestError: it does not have its kind's schema.
        InvalidFieldsError: it breaks a rule.
    """
    validate_schema(obj)
    faults = list(islice(_faults(obj), MOST))
    if faults:
        raise _invalid(obj, str(obj.get("apiVersion") or "").rpartition("/")[0], faults)


def _invalid(obj: JsonObject, group: str, faults: list[Cause]) -> InvalidFieldsError:
    return InvalidFieldsError(obj["kind"], group, obj["metadata"]["name"][:_SHOWN], faults[:MOST])


def _faults(obj: JsonObject) -> Iterator[Cause]:
    yield from _annotation_faults(obj)
    if obj["kind"] == "Pod":
        yield from _pod_faults(convert(obj, Pod, "Pod"))
    elif obj["kind"] in ("ConfigMap", "Secret"):
        yield from _data_faults(obj)


def _further_faults(obj: JsonObject) -> Iterator[Cause]:
    """Yield the faults beside those of the metadata, of an object that has its kind's schema."""
    try:
        validate_schema(obj)
    except BadRequestError:
        return
    yield from islice(_faults(obj), MOST)


def _metadata_faults(meta: JsonObject, kind: Kind) -> Iterator[Cause]:
    name, namespace = meta["name"], meta.get("namespace", "default")
    yield from (invalid("metadata.name", name, why) for why in faults_of_subdomain(name))
    if kind.namespaced and not isinstance(namespace, str):
        yield invalid("metadata.namespace", namespace, "a text is wanted")
    elif kind.namespaced:
        yield from (invalid("metadata.namespace", namespace, why) for why in faults_of_label(namespace))


def _annotation_faults(obj: JsonObject) -> Iterator[Cause]:
    annotations = obj["metadata"].get("annotations") or {}
    counted = [text for name, text in annotations.items() if name != LAST_APPLIED]
    if sum(_bytes_of(text) for text in (*annotations, *counted)) > ANNOTATION_BYTES:
        yield _too_long("metadata.annotations", ANNOTATION_BYTES)


def _bytes_of(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _data_faults(obj: JsonObject) -> Iterator[Cause]:
    encoded = obj["kind"] == "Secret"
    total = 0
    for field in _DATA:
        is_base64 = field == "binaryData" or (encoded and field == "data")
        sizes = map(_bytes_of, (obj.get(field) or {}).values())
        total += sum(size // 4 * 3 if is_base64 else size for size in sizes)
    if total > DATA_BYTES:
        yield _too_long("data" if encoded else "[]", DATA_BYTES)
    for field in _DATA:
        for key in obj.get(field) or {}:
            yield from (invalid(f"{field}[{key[:_SHOWN]}]", key, why) for why in faults_of_data_key(key))


def _pod_faults(pod: Pod) -> Iterator[Cause]:
    spec = pod.spec
    yield from _name_faults("spec.volumes", [volume.name for volume in spec.volumes])
    if not spec.containers:
        yield required("spec.containers")
    volumes, seen = {volume.name for volume in spec.volumes}, list[str]()
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        yield from _name_faults(f"spec.{field}", [container.name for container in containers], seen)
        seen += [container.name for container in containers]
        for index, container in enumerate(containers):
            yield from _container_faults(f"spec.{field}[{index}]", container, volumes)
    if (spec.restart_policy or "Always") not in _RESTART_POLICIES:
        yield unsupported("spec.restartPolicy", spec.restart_policy, list(_RESTART_POLICIES))
    grace = spec.termination_grace_period_seconds or 0
    if grace < 0:
        yield invalid("spec.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0")


def _container_faults(path: str, container: Container, volumes: set[str]) -> Iterator[Cause]:
    if not container.image.strip():
        yield required(f"{path}.image")
    for index, mount in enumerate(container.volume_mounts):
        where = f"{path}.volumeMounts[{index}]"
        if mount.name not in volumes:
            yield Cause(f"{where}.name", f"Not found: {shown(mount.name)}", "FieldValueNotFound")
        if not mount.mount_path:
            yield required(f"{where}.mountPath")
    for of in ("limits", "requests"):
        for name, quantity in getattr(container.resources, of).items():
            try:
                parse_quantity(quantity)
            except QuantityError as error:
                yield invalid(f"{path}.resources.{of}[{name[:_SHOWN]}]", str(quantity), str(error))


def _name_faults(path: str, names: Sequence[str], others: Sequence[str] = ()) -> Iterator[Cause]:
    seen = set(others)
    for index, name in enumerate(names):
        field = f"{path}[{index}].name"
        if not name:
            yield required(field)
        elif name in seen:
            yield Cause(field, f"Duplicate value: {shown(str(name))}", "FieldValueDuplicate")
        else:
            yield from (invalid(field, name, why) for why in faults_of_label(name))
        seen.add(name)


def _too_long(field: str, most: int) -> Cause:
    return Cause(field, f"Too long: may not be more than {most} bytes", "FieldValueTooLong")
