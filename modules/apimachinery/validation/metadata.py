"""The rules of metadata, which all kinds share (apimachinery's `ValidateObjectMeta`)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from beehive.http.request import MAX_PART
from modules.apimachinery.kinds import LAST_APPLIED
from modules.apimachinery.limits import ANNOTATION_BYTES
from modules.apimachinery.times import format_rfc3339, parse_rfc3339
from modules.apimachinery.validation.causes import Cause, Causes, invalid, required, shown, too_long
from modules.apimachinery.validation.labels import labels
from modules.apimachinery.validation.names import faults_of_label, faults_of_label_key, faults_of_subdomain
from modules.apimachinery.validation.rules import Fields, Rule, named

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_STANDARD_FINALIZERS: Final = ("kubernetes", ORPHAN, FOREGROUND)
IMMUTABLE: Final = "field is immutable"
_LONGEST_TIME: Final = 40

subdomain = named(faults_of_subdomain)
namespace_name = named(faults_of_label)


def _faults_of_segment(text: str) -> Iterator[str]:
    """Yield why a text cannot be a part of a path: no request could name its object, and no database keep it."""
    if len(text) > MAX_PART:
        yield f"must be no more than {MAX_PART} characters"
    if not text.isprintable():
        yield "may not contain characters that cannot be printed"
    if text in (".", ".."):
        yield f"may not be '{text}'"
    for part in "/%":
        if part in text:
            yield f"may not contain '{part}'"


path_segment = named(_faults_of_segment)
"""The rule of the names of kinds without a rule of their own, such as roles: `system:node` is one, too."""


def bytes_of(text: str) -> int:
    """Return the length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def annotations(value: Mapping[str, str], path: str, found: Causes) -> None:
    """Check the keys of annotations, and their size."""
    total = 0
    for key, text in value.items():
        total += bytes_of(key) + (bytes_of(text) if key != LAST_APPLIED else 0)
        for why in faults_of_label_key(key.lower()):
            found.append(invalid(path, key, why))
    if total > ANNOTATION_BYTES:
        found.append(too_long(path, ANNOTATION_BYTES))


def _owner_references(value: Any, path: str, found: Causes) -> None:
    """Check the owners, each told at the path of all, as in Kubernetes."""
    controller = ""
    for owner in value:
        version, kind, name = (str(owner.get(field) or "") for field in ("apiVersion", "kind", "name"))
        if not version.rpartition("/")[2]:
            found.append(invalid(f"{path}.apiVersion", version, "version must not be empty"))
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                found.append(invalid(f"{path}.{field}", "", f"{field} must not be empty"))
        if (version, kind) == ("v1", "Event"):
            found.append(invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            if controller:
                both = f'Found "true" in references for {controller} and {kind}/{name}'
                why = f"Only one reference can have Controller set to true. {both}"
                found.append(invalid(path, value, why))
            controller = controller or f"{kind}/{name}"


def finalizers(value: Any, path: str, found: Causes) -> None:
    """Check finalizers: each is one of Kubernetes' own or has a domain, and they do not contradict each other."""
    for index, name in enumerate(value):
        _known_or_qualified(name, f"{path}[{index}]", found)
    lenient_finalizers(value, path, found)


def content_finalizers(value: Any, found: Causes) -> None:
    """Check the finalizers in the spec of a namespace, each for itself."""
    for index, name in enumerate(value):
        for why in faults_of_label_key(name):
            found.append(invalid(f"spec.finalizers[{index}]", name, why))
        _known_or_qualified(name, f"spec.finalizers[{index}]", found)


def _known_or_qualified(name: str, path: str, found: Causes) -> None:
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        found.append(invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified"))


def lenient_finalizers(value: Any, path: str, found: Causes) -> None:
    """Check finalizers that need no domain."""
    for name in value:
        for why in faults_of_label_key(name):
            found.append(invalid(path, name, why))
    if ORPHAN in value and FOREGROUND in value:
        found.append(invalid(path, value, f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"))


_METADATA, _LENIENT = (
    Fields({"labels": labels, "annotations": annotations, "ownerReferences": _owner_references, "finalizers": rule})
    for rule in (finalizers, lenient_finalizers)
)
template_metadata = Fields({"labels": labels, "annotations": annotations})
"""The metadata of a template, such as a Deployment's pod template."""


def check_metadata(
    metadata: Mapping[str, Any], name: Rule, found: Causes, *, is_namespaced: bool, is_lenient: bool = False
) -> None:
    """Check the metadata of an object.

    Args:
        metadata: the metadata.
        name: the rule of names of its kind.
        found: the list of causes to append to.
        is_namespaced: whether its kind is.
        is_lenient: whether finalizers of its kind need no domain.
    """
    if prefix := metadata.get("generateName"):
        _generate_name(prefix, name, found)
    if text := metadata.get("name"):
        name(text, "metadata.name", found)
    else:
        found.append(required("metadata.name", "name or generateName is required"))
    if is_namespaced:
        namespace_name(metadata.get("namespace") or "default", "metadata.namespace", found)
    (_LENIENT if is_lenient else _METADATA)(metadata, "metadata", found)


def check_embedded_metadata(metadata: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the metadata of an object inside another one, which needs no name.

    Args:
        metadata: the metadata, of the types of their fields.
        path: their path.
        found: takes the faults.
    """
    for field in ("name", "generateName"):
        if text := metadata.get(field):
            path_segment(text, f"{path}.{field}", found)
    if namespace := metadata.get("namespace"):
        namespace_name(namespace, f"{path}.namespace", found)
    if (generation := metadata.get("generation") or 0) < 0:
        found.append(invalid(f"{path}.generation", generation, "must be greater than or equal to 0"))
    _LENIENT(metadata, path, found)
    for index, entry in enumerate(metadata.get("managedFields") or ()):
        if (operation := entry.get("operation") or "") not in ("Apply", "Update"):
            found.append(invalid(f"{path}.managedFields[{index}].operation", operation, "must be `Apply` or `Update`"))


def _generate_name(prefix: str, name: Rule, found: Causes) -> None:
    """Check the prefix of generated names: in place of a dash at its end, a letter follows (maskTrailingDash)."""
    begin, faults = f"{prefix[:-2]}a" if prefix.endswith("-") and len(prefix) > 1 else prefix, Causes()
    name(begin, "metadata.generateName", faults)
    for fault in faults:
        found.append(msgspec.structs.replace(fault, message=fault.message.replace(shown(begin), shown(prefix), 1)))


def deletion_faults(metadata: Mapping[str, Any], live: Mapping[str, Any]) -> Causes:
    """Return what an update would change of an object's deletion: DELETE alone begins it, and sets its grace period."""
    found, begin, grace = Causes(), metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if begin and not live.get("deletionTimestamp"):
        moment = parse_rfc3339(begin) if isinstance(begin, str) else None
        told = str(begin) if moment is None else format_rfc3339(moment).replace("T", " ").replace("Z", " +0000 UTC")
        found.append(Cause("metadata.deletionTimestamp", f"Invalid value: {told[:_LONGEST_TIME]}: {IMMUTABLE}"))
    if grace is not None and grace != live.get("deletionGracePeriodSeconds"):
        found.append(invalid("metadata.deletionGracePeriodSeconds", grace, IMMUTABLE))
    return found


def immutable(value: Any, before: Any, path: str, found: Causes) -> None:
    """Check that a value has not changed. Null and empty values are the same."""
    if value != before and (value or before):
        found.append(invalid(path, value, IMMUTABLE))
