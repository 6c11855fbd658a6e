"""The rules of pods at their creation, and of their changes (Kubernetes' ValidatePodCreate and ValidatePodUpdate)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.apimachinery.validation.causes import Causes, forbidden, invalid
from modules.apimachinery.validation.names import faults_of_subdomain
from modules.apimachinery.validation.pod_spec import only_of_pods, pod_spec
from modules.apimachinery.validation.rules import Fields, both

_UPDATABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only"
    " additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was"
    " previously negative)"
)
_OF_CONTAINERS: Final = ("containers", "initContainers")
_LARGEST_INT32: Final = 2**31 - 1
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_READ_INT32: Final = re.compile(r"0|-?[1-9][0-9]{0,9}|-0")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _mirror(obj: Mapping[str, Any], path: str, found: Causes) -> None:
    annotations = obj["metadata"].get("annotations") or {}
    if CONFIG_MIRROR in annotations and not (obj.get("spec") or {}).get("nodeName"):
        why = "must set spec.nodeName if mirror pod annotation is set"
        found.append(invalid(f"{path}.metadata.annotations[{CONFIG_MIRROR}]", annotations[CONFIG_MIRROR], why))


def _deletion_cost(obj: Mapping[str, Any], path: str, found: Causes) -> None:
    given = (obj["metadata"].get("annotations") or {}).get(_DELETION_COST)
    if given is not None and (not _READ_INT32.fullmatch(given) or not -(2**31) <= int(given) <= _LARGEST_INT32):
        found.append(invalid(f"{path}.metadata.annotations[{_DELETION_COST}]", given, "must be a 32bit integer"))


def _ephemeral_claims(obj: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the names of the claims that are made for a pod's volumes; none of its other volumes is such a claim."""
    volumes = (obj.get("spec") or {}).get("volumes") or ()
    made = set[str]()
    for index, volume in enumerate(volumes):
        if volume.get("ephemeral") is None:
            continue
        name = f"{obj['metadata']['name']}-{volume.get('name') or ''}"
        made.add(name)
        for why in faults_of_subdomain(name):
            text = f'PVC name "{name}": {why}'
            found.append(invalid(f"{path}.spec.volumes[{index}].name", volume.get("name") or "", text))
    for index, volume in enumerate(volumes if made else ()):
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in made:
            why = "must not reference a PVC that gets created for an ephemeral volume"
            found.append(invalid(f"{path}.spec.volumes[{index}].persistentVolumeClaim.claimName", claim, why))


pod = Fields({"spec": both(pod_spec, only_of_pods)}, _mirror, _deletion_cost, _ephemeral_claims)


def pod_creation(obj: JsonObject, found: Causes) -> None:
    """Check that a new pod has no ephemeral containers, and no node while it is gated."""
    spec = obj["spec"]
    if spec.get("ephemeralContainers"):
        found.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        why = "cannot be set until all schedulingGates have been cleared"
        found.append(forbidden("spec.nodeName", why))


def pod_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a pod changes only in what Kubernetes allows. Its node is set by a Binding alone."""
    annotation_updates(new, live, found)
    wanted, before = new["spec"], live["spec"]
    for field in _OF_CONTAINERS:
        if len(wanted.get(field) or ()) != len(before.get(field) or ()):
            found.append(forbidden(f"spec.{field}", "pod updates may not add or remove containers"))
            return
    _deadline(wanted.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"), found)
    _tolerations(wanted.get("tolerations") or (), before.get("tolerations") or (), found)
    _scheduling_gates(wanted.get("schedulingGates") or (), before.get("schedulingGates") or (), found)
    if before.get("schedulingGates"):
        _placing_while_gated(wanted, before, found)
    changed = changed_fields(wanted, before)
    if changed:
        advice = "delete the pod and create it again"
        told = f"changed: spec.{', spec.'.join(changed)}; {advice}"
        found.append(forbidden("spec", f"pod updates may not change fields other than {_UPDATABLE}\n{told}"))


def ephemeral_containers_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that ephemeral containers are only added, and not to a static pod."""
    if CONFIG_MIRROR in (live["metadata"].get("annotations") or {}):
        found.append(forbidden("", "static pods do not support ephemeral containers"))
        return
    path = "spec.ephemeralContainers"
    wanted = {each.get("name"): each for each in new["spec"].get("ephemeralContainers") or ()}
    for each in live["spec"].get("ephemeralContainers") or ():
        name = each.get("name")
        if name not in wanted:
            found.append(forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif wanted[name] != each:
            found.append(forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n'))


def changed_fields(wanted: JsonObject, before: JsonObject) -> list[str]:
    """Return the names of the fields of a spec that have changed and may not."""
    one, other = _comparable(wanted), _comparable(before)
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and wanted.get("terminationGracePeriodSeconds") == 1:
        one["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    free: tuple[str, ...] = ()
    if before.get("schedulingGates"):
        free = ("nodeSelector",)
        for each in (one, other):
            each["affinity"] = {
                name: value for name, value in (each.get("affinity") or {}).items() if name != "nodeAffinity"
            }
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name) and name not in free]


def _comparable(spec: JsonObject) -> JsonObject:
    """Return a spec without what may change and has rules of its own."""
    left_out = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
    made = {name: value for name, value in spec.items() if name not in left_out and value not in (None, [], {}, "")}
    for field in _OF_CONTAINERS:
        if made.get(field):
            made[field] = [{**each, "image": ""} for each in made[field]]
    return made


def _placing_while_gated(wanted: JsonObject, before: JsonObject, found: Causes) -> None:
    """Check that what chooses the node of a gated pod is only narrowed."""
    selector = wanted.get("nodeSelector") or {}
    if any(selector.get(name) != value for name, value in (before.get("nodeSelector") or {}).items()):
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        found.append(invalid("spec.nodeSelector", selector, why))
    terms, old = (_required_terms(spec) for spec in (wanted, before))
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if old and len(terms) != len(old):
        why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        found.append(invalid(path, terms, why))
        return
    for index, term in enumerate(old):
        if not _only_adds(terms[index], term):
            why = "only additions are allowed (no mutations or deletions)"
            found.append(invalid(f"{path}[{index}]", terms[index], why))


def _required_terms(spec: JsonObject) -> list[JsonObject]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    found: list[JsonObject] = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    return found


def _only_adds(term: JsonObject, before: JsonObject) -> bool:
    """Return whether a term only adds requirements at the end of the old term; a term that matches nothing stays so."""
    names = ("matchExpressions", "matchFields")
    if not any(before.get(name) for name in names):
        return not any(term.get(name) for name in names)
    pairs = ((term.get(name) or [], before.get(name) or []) for name in names)
    return all(new[: len(old)] == old for new, old in pairs)


def annotation_updates(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a mirror pod stays one, and that no other pod becomes one."""
    wanted = (new["metadata"].get("annotations") or {}).get(CONFIG_MIRROR)
    before = (live["metadata"].get("annotations") or {}).get(CONFIG_MIRROR)
    if wanted != before:
        why = (
            "may not add mirror pod annotation" if before is None else "may not remove or update mirror pod annotation"
        )
        found.append(forbidden(f"metadata.annotations[{CONFIG_MIRROR}]", why))


def _deadline(wanted: int | None, before: int | None, found: Causes) -> None:
    path = "spec.activeDeadlineSeconds"
    if wanted is None and before is not None:
        found.append(invalid(path, None, "must not update from a positive integer to nil value"))
    elif wanted is not None and not 0 <= wanted <= _LARGEST_INT32:
        found.append(invalid(path, wanted, f"must be between 0 and {_LARGEST_INT32}, inclusive"))
    elif wanted is not None and before is not None and before < wanted:
        found.append(invalid(path, wanted, "must be less than or equal to previous value"))


def _tolerations(wanted: Sequence[JsonObject], before: Sequence[JsonObject], found: Causes) -> None:
    kept = {_without_seconds(each) for each in wanted}
    if any(_without_seconds(each) not in kept for each in before):
        why = "existing toleration can not be modified except its tolerationSeconds"
        found.append(forbidden("spec.tolerations", why))


def _without_seconds(toleration: JsonObject) -> tuple[str, ...]:
    return tuple(str(toleration.get(name) or "") for name in ("key", "operator", "value", "effect"))


def _scheduling_gates(wanted: Sequence[JsonObject], before: Sequence[JsonObject], found: Causes) -> None:
    known = {each.get("name") for each in before}
    for index, gate in enumerate(wanted):
        if (name := gate.get("name")) not in known:
            why = f"only deletion is allowed, but found new scheduling gate '{name}'"
            found.append(forbidden(f"spec.schedulingGates[{index}].name", why))
