"""The CustomResourceDefinitions of NodeGroups and EdgeApplications, with the fields of KubeEdge's v1alpha1 and counts
for their tables, and their admission.
"""

from collections.abc import Mapping
from typing import Any, Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.causes import Cause, too_long
from modules.cloud.apiextensions.admission import CustomAdmission, Find
from modules.cloud.apiextensions.definition_objects import AGE, definition_of
from modules.cloud.applications import EDGE_APPLICATION, NODE_GROUP
from modules.cloud.controllers.application_copies import copies_of

_STRING: Final = {"type": "string"}
_TEXTS: Final = {"type": "object", "additionalProperties": _STRING}
_WORDS: Final = {"type": "array", "items": _STRING}
_KEEP: Final = {"x-kubernetes-preserve-unknown-fields": True}
_LONGEST: Final = 63
"""Characters of the value of a label."""


def _object(*required: str, **members: Any) -> JsonObject:
    made: JsonObject = {"type": "object", "properties": members}
    return {**made, "required": list(required)} if required else made


def _list(items: JsonObject, most: int = 0) -> JsonObject:
    return {"type": "array", "items": items, **({"maxItems": most} if most else {})}


def _choice(*values: str) -> JsonObject:
    return {"type": "string", "enum": list(values)}


_AMOUNTS: Final = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
_OF_WORDS: Final = _list(
    _object("containerName", "operator", containerName=_STRING, operator=_choice("add", "remove"), value=_WORDS), 100
)
_VARIABLE: Final = _object("name", name=_STRING, value=_STRING, valueFrom={"type": "object", **_KEEP})
_OPERATOR: Final = _choice("add", "remove", "replace")
_IMAGE: Final = _object(
    "component", "operator",
    component=_choice("Registry", "Repository", "Tag"),
    operator=_OPERATOR,
    value=_STRING,
    predicate=_object("path", path=_STRING),
)  # fmt: skip
_ENVIRONMENT: Final = _object(
    "containerName", "operator", containerName=_STRING, operator=_OPERATOR, value=_list(_VARIABLE, 1000)
)
_RESOURCES: Final = _object(
    "containerName", "value", containerName=_STRING, value=_object(limits=_AMOUNTS, requests=_AMOUNTS)
)
_OVERRIDERS: Final = _object(
    replicas={"type": "integer", "format": "int32", "minimum": 0},
    imageOverriders=_list(_IMAGE, 100),
    envOverriders=_list(_ENVIRONMENT, 100),
    commandOverriders=_OF_WORDS,
    argsOverriders=_OF_WORDS,
    resourcesOverriders=_list(_RESOURCES, 100),
)
_EXPRESSION: Final = _object(
    "key", "operator", key=_STRING, operator=_choice("In", "NotIn", "Exists", "DoesNotExist"), values=_WORDS
)
_SELECTOR: Final = _object(matchLabels=_TEXTS, matchExpressions=_list(_EXPRESSION, 100))
_APPLICATION_SPEC: Final = _object(
    "workloadScope",
    workloadTemplate=_object(manifests=_list({"type": "object", **_KEEP}, 100)),
    workloadScope=_object(
        targetNodeGroups=_list(_object("name", name=_STRING, overriders=_OVERRIDERS), 1000),
        targetNodeLabels=_list(_object("labelSelector", labelSelector=_SELECTOR, overriders=_OVERRIDERS), 1000),
    ),
)
_IDENTIFIER: Final = _object(
    "ordinal",
    ordinal={"type": "integer", "minimum": 0},
    **dict.fromkeys(("group", "version", "kind", "resource", "namespace", "name"), _STRING),
)
_WORKLOAD: Final = _object("identifier", identifier=_IDENTIFIER, conditions=_choice("Processing", "Available"))
_NODE_STATUS: Final = _object(
    "nodeName", "readyStatus", "selectionStatus",
    **dict.fromkeys(("nodeName", "readyStatus", "selectionStatus", "selectionStatusReason"), _STRING),
)  # fmt: skip


def definitions() -> list[JsonObject]:
    """Return the definitions of NodeGroups and EdgeApplications."""
    group = {
        "spec": _object(nodes=_WORDS, matchLabels=_TEXTS, topologyEnabled={"type": "boolean"}),
        "status": _object(nodeStatuses=_list(_NODE_STATUS), ready=_STRING),
    }
    application = {
        "spec": _APPLICATION_SPEC,
        "status": _object(workloadStatus=_list(_WORKLOAD), available=_STRING),
    }
    return [
        definition_of(kind, members, column, AGE, has_status=True, needs_spec=True)
        for kind, members, column in (
            (NODE_GROUP, group, ("Ready", "string", ".status.ready")),
            (EDGE_APPLICATION, application, ("Available", "string", ".status.available")),
        )
    ]


def _application_causes(new: JsonObject, live: JsonObject | None, _find: Find) -> list[Cause]:
    """Return the rules that a requested EdgeApplication breaks; its labels can be changed whatever is stored."""
    return [] if live is not None and live.get("spec") == new.get("spec") else copies_of(new)[1]


def _group_causes(new: JsonObject, _live: JsonObject | None, _find: Find) -> list[Cause]:
    """Return the rule that a NodeGroup's name may break: it is the value of a label."""
    return [too_long("metadata.name", _LONGEST)] if len(new["metadata"]["name"]) > _LONGEST else []


ADMISSIONS: Final[Mapping[str, CustomAdmission]] = {
    EDGE_APPLICATION.key_name: _application_causes,
    NODE_GROUP.key_name: _group_causes,
}
"""The admission of these kinds, for the embedded API server."""
