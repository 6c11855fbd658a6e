"""The warnings in the answers to requests."""

from typing import Final

from modules.apimachinery.computed import computed
from modules.apimachinery.kinds import JsonObject, Kind, key_for, key_kind, kind_named
from modules.apimachinery.resources import SCALE
from modules.apimachinery.strategic_merge import merge_json
from modules.apimachinery.structural_schema.rules import has_validations
from modules.apimachinery.structural_schema.values import unknown_fields
from modules.cloud.apiextensions.kinds import CustomKind, ServedKinds
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.created_subresources import CREATED
from modules.cloud.apiserver.fields.bodies import SCALE as OF_SCALE
from modules.cloud.apiserver.fields.types import decoded
from modules.cloud.apiserver.fields.validation import (
    IGNORE,
    STRICT,
    WARN,
    FieldFaults,
    check_faults,
    faults_of_object,
    objects_of_patch,
    operation_faults,
    unknown_metadata,
    unknown_paths,
    untyped_faults,
)
from modules.cloud.apiserver.pod_scheduled import waits_because
from modules.cloud.apiserver.verbs.patching import is_managed_apply, shown_patch
from modules.cloud.apiserver.verbs.requests import WITH_OBJECT, is_of, kind_of
from modules.cloud.client.calls import APPLY, JSON_PATCH, ApiCall, ApiResult

_POD: Final = "Pod"
_DEFINITION: Final = "CustomResourceDefinition"
_HALF_SERVED: Final = {
    ("v1", "services"): "only nodes with a proxy of services answer at its address and its name (hostPort or "
    "hostNetwork of a pod opens a port of its node)",
    ("v1", "podtemplates"): "nothing here acts on a PodTemplate (a Deployment has its template in itself)",
    **dict.fromkeys(
        (("networking.k8s.io/v1", "ingresses"), ("networking.k8s.io/v1", "ingressclasses")),
        "nothing here acts on an Ingress: run a controller for them that answers on a node's port",
    ),
    ("networking.k8s.io/v1", "networkpolicies"): "nothing enforces it here: every pod may still reach every other (a "
    "cluster's network plug-in, or a firewall of the node, keeps them apart)",
    ("autoscaling/v2", "horizontalpodautoscalers"): "nothing here scales by it: the replicas stay as they are set "
    "(`kubectl scale` sets them)",
    **dict.fromkeys(
        (("flowcontrol.apiserver.k8s.io/v1", plural) for plural in ("flowschemas", "prioritylevelconfigurations")),
        "nothing here acts on it: requests are limited by this API server's own rules",
    ),
    ("storage.k8s.io/v1", "storageclasses"): "no volumes are provisioned (a PersistentVolume is bound to claims of "
    "its storageClassName)",
    ("resource.k8s.io/v1", "resourceclaims"): "no devices are allocated (device plug-ins give extended resources)",
}
"""The kinds that are only stored, each with its warning to clients."""
_NODE: Final = kind_named("Node")
_METADATA: Final = "metadata."
"""The beginning of the paths of fields that come first, of those of a custom resource that no schema has."""


def placement_warnings(cluster: Cluster, request: ApiCall, result: ApiResult) -> tuple[str, ...]:
    """Return the warning that a new or applied pod has no node yet, or a node that has never registered."""
    obj = result.object
    is_asked = request.verb == "create" or request.patch_type == APPLY
    if not is_asked or obj is None or key_kind(obj) != _POD:
        return ()
    node = obj["spec"].get("nodeName")
    if node and cluster.storage.find(key_for(_NODE, "", node)) is None:
        return (f"pod {obj['metadata']['name']}: there is no node {node} (it waits until one of that name registers)",)
    why = waits_because(obj)
    advice = "it waits; spec.nodeName, or `cloudcore run --node NAME`, names a node"
    return (f"pod {obj['metadata']['name']}: {why} ({advice})",) if why else ()


def definition_warnings(request: ApiCall, result: ApiResult) -> tuple[str, ...]:
    """Return the warning that a written definition has rules that are not evaluated."""
    obj, is_write = result.object, request.verb in ("create", "update", "patch") and not request.subresource
    if not is_write or obj is None or key_kind(obj) != _DEFINITION or not has_validations(obj):
        return ()
    why = "its rules in CEL (x-kubernetes-validations) are stored and not evaluated: objects that break them are taken"
    return (f"customresourcedefinition {obj['metadata']['name']}: {why}",)


def kind_warnings(cluster: Cluster, request: ApiCall, result: ApiResult) -> tuple[str, ...]:
    """Return the warning that nobody acts on a written object of its kind, or on a new or applied one no node."""
    about = _HALF_SERVED.get((request.api_version, request.plural))
    if about is None or request.verb not in WITH_OBJECT or result.object is None or request.subresource:
        return ()
    if request.plural == "services":
        if request.verb != "create" and request.patch_type != APPLY:
            return ()
        if any(map(_has_proxy, cluster.storage.list(_NODE))):
            number = result.object["spec"].get("healthCheckNodePort")
            about = f"no node answers at its healthCheckNodePort {number}" if number else ""
    return (f"{result.object['kind'].lower()} {result.object['metadata']['name']}: {about}",) if about else ()


def _has_proxy(node: JsonObject) -> bool:
    """Return whether a node answers for Services, as it reports."""
    return bool(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeProxyVersion"))


def deletion_warnings(request: ApiCall, result: ApiResult) -> tuple[str, ...]:
    """Return the warning that a node that is alive registers again."""
    if request.verb != "delete" or not is_of(request, _NODE) or result.refusal is not None:
        return ()
    return (
        f"node {request.name} registers again if it is alive: `cloudcore revoke node {request.name}` locks it out, and "
        f"`cloudcore allow node {request.name}` ends that",
    )


def field_warnings(kinds: ServedKinds, request: ApiCall) -> tuple[str, ...]:
    """Return the warnings about the fields of a request's body. A node gets none unless it asks.

    Raises:
        BadRequestError, InvalidError: the request is strict, and there are some.
    """
    mode = str(request.options.get("fieldValidation") or (IGNORE if request.node else WARN))
    if mode == IGNORE or request.verb not in WITH_OBJECT:
        return ()
    if is_managed_apply(request):
        return () if mode == STRICT else request.duplicates  # `apply` refuses them, after unknown fields
    kind, is_whole = _kind_of_body(kinds, request), request.verb in ("create", "update")
    custom = kinds.custom().get((kind.api_version, kind.plural))
    faults = computed(_faults_of_body, kind, custom, request, is_whole=is_whole)
    if faults.told and is_whole and custom is None and isinstance(request.body, dict):
        computed(decoded, kind, request.body)  # a wrong type is reported, and nothing else
    if mode == STRICT:
        check_faults(kind, faults, None if is_whole else shown_patch(request))
    return faults.told


def _kind_of_body(kinds: ServedKinds, request: ApiCall) -> Kind:
    """Return the kind of the object in a request's body: some subresources have one of their own."""
    if request.subresource == SCALE:
        return OF_SCALE
    creates = CREATED.get((request.api_version, request.plural, request.subresource))
    return kind_of(kinds, request) if creates is None else creates[0]


def _faults_of_body(kind: Kind, custom: CustomKind | None, request: ApiCall, *, is_whole: bool) -> FieldFaults:
    duplicates, bodies = request.duplicates, [request.body]
    if request.patch_type == JSON_PATCH:
        duplicates, bodies = operation_faults(request.body, request.document), objects_of_patch(request.body)
    elif not is_whole:
        bodies = [merge_json({}, request.body)] if isinstance(request.body, dict) else []  # nulls are gone
    found = [each for each in bodies if isinstance(each, dict)]
    if custom is None and is_whole and found:
        return faults_of_object(kind, found[0], request.document, duplicates)
    unknown = {
        path
        for body in found
        for path in (
            unknown_paths(kind, body) if custom is None else unknown_fields(body, custom.schema, unknown_metadata)
        )
        if not path.rpartition(".")[2].startswith("$")  # directives of a strategic merge patch
    }
    return untyped_faults(duplicates, sorted(unknown, key=lambda path: (custom is None or path[:9] != _METADATA, path)))
