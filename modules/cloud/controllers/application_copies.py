"""What an EdgeApplication makes of its manifests: a Deployment for each target, and everything else once."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Final, NamedTuple

import msgspec

from modules.apimachinery.kinds import JsonObject, key_of
from modules.apimachinery.validation.causes import Cause, duplicate, forbidden, invalid, required, too_many, unsupported
from modules.cloud.applications import BELONGING_TO, RANGE_NODE_GROUP, TOPOLOGY, kind_of
from modules.cloud.controllers.overriders import fixed_part, override

MADE: Final = (
    "ConfigMap", "CronJob", "DaemonSet", "Deployment", "Job", "PersistentVolumeClaim", "PodDisruptionBudget", "Service",
    "StatefulSet",
)  # fmt: skip
"""The kinds of manifests. With other ones, whoever may write EdgeApplications could give themselves rights, and whoever
may read them would read Secrets."""
_COPIED: Final = "Deployment"
_MOST: Final = 1000
"""Objects of one EdgeApplication."""
_MOST_BYTES: Final = 2 * 1024 * 1024
"""Of the Deployments of one EdgeApplication: they are computed at each of its changes, which takes 50 ms then."""
_MANIFESTS: Final = "spec.workloadTemplate.manifests"
_OVERRIDERS: Final = ("envOverriders", "commandOverriders", "argsOverriders", "resourcesOverriders")
_GARBLED: Final = "a part of it has the wrong type"


class Copy(NamedTuple):
    """An object that an EdgeApplication wants."""

    ordinal: int
    """The position of the manifest."""
    obj: JsonObject


class _Target(NamedTuple):
    suffix: str
    where: str
    overriders: JsonObject
    place: Callable[[JsonObject], None]
    """Has the pods of a specification run on the nodes of the target."""


def copies_of(application: JsonObject) -> tuple[list[Copy], list[Cause]]:
    """Return the objects that an EdgeApplication wants, in the order of its manifests and targets, and its faults."""
    manifests, targets = _manifests(application), list(_targets(application))
    causes = list(_faults_of_targets(targets))
    number = sum(len(targets) if each.get("kind") == _COPIED else 1 for each in manifests)
    if number > _MOST:
        causes.append(too_many(_MANIFESTS, number, _MOST))
    elif _size(manifests, targets) > _MOST_BYTES:
        why = f"Too long: the Deployments of all targets may not be more than {_MOST_BYTES} bytes"
        causes.append(Cause(_MANIFESTS, why, "FieldValueTooLong"))
    if causes:
        return [], causes
    copies: list[Copy] = []
    names = set[object]()
    for ordinal, manifest in enumerate(manifests):
        where = f"{_MANIFESTS}[{ordinal}]"
        faults = list(_faults_of_manifest(application, manifest, where))
        try:
            made = [] if faults else list(_made(application, manifest, targets, faults))
        except (AttributeError, KeyError, TypeError, ValueError):
            made, faults = [], [invalid(where, manifest.get("kind"), _GARBLED)]
        causes += faults
        for obj in made:
            key = key_of(obj)
            if key in names:
                causes.append(duplicate(f"{where}.metadata.name", key.name))
            names.add(key)
        copies += [Copy(ordinal, obj) for obj in made]
    causes += _faults_of_containers(manifests, targets)
    return copies, causes


def _size(manifests: Sequence[JsonObject], targets: Sequence[_Target]) -> int:
    """Return how many bytes of JSON the Deployments may have: each container may get all that a target overrides."""
    overriders = sum(len(msgspec.json.encode(each.overriders)) for each in targets)
    return sum(
        len(msgspec.json.encode(each)) * len(targets) + _containers(each) * overriders
        for each in manifests
        if each.get("kind") == _COPIED
    )


def _containers(manifest: JsonObject) -> int:
    try:
        return len(manifest["spec"]["template"]["spec"]["containers"])
    except (KeyError, TypeError):
        return 0


def _manifests(application: JsonObject) -> list[JsonObject]:
    return list((application["spec"].get("workloadTemplate") or {}).get("manifests") or ())


def _targets(application: JsonObject) -> Iterator[_Target]:
    scope = application["spec"].get("workloadScope") or {}
    for at, each in enumerate(scope.get("targetNodeGroups") or ()):
        where = f"spec.workloadScope.targetNodeGroups[{at}]"
        yield _Target(each["name"], where, each.get("overriders") or {}, _in_group(each["name"]))
    for at, each in enumerate(scope.get("targetNodeLabels") or ()):
        where, selector = f"spec.workloadScope.targetNodeLabels[{at}]", each.get("labelSelector") or {}
        yield _Target(_suffix_of(selector), where, each.get("overriders") or {}, _by_labels(selector))


def _in_group(group: str) -> Callable[[JsonObject], None]:
    def place(pod: JsonObject) -> None:
        pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), BELONGING_TO: group}

    return place


def _by_labels(selector: JsonObject) -> Callable[[JsonObject], None]:
    wanted = [{"key": key, "operator": "In", "values": [value]} for key, value in _match_labels(selector)]
    wanted += selector.get("matchExpressions") or ()

    def place(pod: JsonObject) -> None:
        by_node = pod.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        needed = by_node.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
        terms = needed.get("nodeSelectorTerms") or [{}]
        needed["nodeSelectorTerms"] = [
            {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), *wanted]} for term in terms
        ]

    return place


def _match_labels(selector: JsonObject) -> list[tuple[str, str]]:
    return sorted((selector.get("matchLabels") or {}).items())


def _suffix_of(selector: JsonObject) -> str:
    """Return the end of the names of a selector's objects; with labels only it is KubeEdge's."""
    text = "".join(key + value for key, value in _match_labels(selector)).encode()
    if expressions := selector.get("matchExpressions"):
        text += msgspec.json.encode(expressions, order="sorted")
    return f"ls-{hashlib.sha256(text).hexdigest()[:8]}" if text else ""


def _faults_of_targets(targets: Sequence[_Target]) -> Iterator[Cause]:
    seen = set[str]()
    for each in targets:
        if not each.suffix:
            field = "name" if "targetNodeGroups" in each.where else "labelSelector"
            yield required(f"{each.where}.{field}")
        elif each.suffix in seen:
            yield duplicate(each.where, each.suffix)
        seen.add(each.suffix)


def _faults_of_manifest(application: JsonObject, manifest: JsonObject, where: str) -> Iterator[Cause]:
    kind = manifest.get("kind")
    if kind not in MADE:
        yield unsupported(f"{where}.kind", kind, MADE)
        return
    if manifest.get("apiVersion") != (known := kind_of({"kind": kind}).api_version):
        yield unsupported(f"{where}.apiVersion", manifest.get("apiVersion"), (known,))
        return
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        yield required(f"{where}.metadata.name")
        return
    namespace = application["metadata"].get("namespace")
    if metadata.get("namespace") not in (None, "", namespace):
        yield invalid(f"{where}.metadata.namespace", metadata["namespace"], f"must be {namespace}, the application's")
    spec = manifest.get("spec")
    if isinstance(spec, dict) and spec.get("externalIPs"):
        yield forbidden(f"{where}.spec.externalIPs", "an EdgeApplication may not take addresses")


def _faults_of_containers(manifests: Sequence[JsonObject], targets: Sequence[_Target]) -> Iterator[Cause]:
    """Yield the overriders of containers that no Deployment has; called when nothing has the wrong type."""
    try:
        names = {
            container.get("name")
            for each in manifests
            if each.get("kind") == _COPIED
            for container in each["spec"]["template"]["spec"]["containers"]
        }
    except (AttributeError, KeyError, TypeError):
        return
    for target in targets:
        for kind in _OVERRIDERS:
            for at, each in enumerate(target.overriders.get(kind) or ()):
                if each["containerName"] not in names:
                    where = f"{target.where}.overriders.{kind}[{at}].containerName"
                    yield invalid(where, each["containerName"], "no Deployment has a container of this name")


def _made(
    application: JsonObject, manifest: JsonObject, targets: Sequence[_Target], faults: list[Cause]
) -> Iterator[JsonObject]:
    """Yield the objects that a manifest makes; faults of overriders are added to `faults`."""
    base = _in_namespace(manifest, application)
    if manifest["kind"] != _COPIED:
        scope = application["spec"].get("workloadScope") or {}
        if manifest["kind"] == "Service" and scope.get("targetNodeGroups"):
            base["metadata"]["annotations"] = {**base["metadata"].get("annotations", {}), TOPOLOGY: RANGE_NODE_GROUP}
        yield base
        return
    for target in targets:
        planned = {**base, "metadata": {**base["metadata"], "name": f"{base['metadata']['name']}-{target.suffix}"}}
        made, where = deepcopy(planned), f"{target.where}.overriders"
        faults += override(made, target.overriders, where)
        if fixed_part(made) != fixed_part(planned):
            faults.append(forbidden(where, "an overrider changes a Deployment's replicas and its pods only"))
        target.place(made["spec"]["template"]["spec"])
        yield made


def _in_namespace(manifest: JsonObject, application: JsonObject) -> JsonObject:
    """Return a manifest in the namespace of its application, without what only the API server gives."""
    metadata = {name: manifest["metadata"][name] for name in ("name", "labels", "annotations")
                if manifest["metadata"].get(name)}  # fmt: skip
    made = {name: value for name, value in manifest.items() if name != "status"}
    return deepcopy({**made, "metadata": {**metadata, "namespace": application["metadata"]["namespace"]}})
