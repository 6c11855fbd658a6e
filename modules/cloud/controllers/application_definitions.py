"""The CustomResourceDefinitions of NodeGroups and EdgeApplications, with the fields of KubeEdge's v1alpha1 and counts
for their tables, and their admission.
"""

from collections.abc import Mapping
from typing import Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.causes import Cause, too_long
from modules.cloud.apiextensions.admission import CustomAdmission, Find
from modules.cloud.apiextensions.definition_objects import AGE, choice_of, definition_of, list_of, schema_of
from modules.cloud.applications import EDGE_APPLICATION, NODE_GROUP
from modules.cloud.controllers.application_copies import copies_of

_STRING: Final = {"type": "string"}
_TEXTS: Final = {"type": "object", "additionalProperties": _STRING}
_WORDS: Final = {"type": "array", "items": _STRING}
_KEEP: Final = {"x-kubernetes-preserve-unknown-fields": True}
_LONGEST: Final = 63
"""Characters of the value of a label."""


_AMOUNTS: Final = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
_OF_WORDS: Final = list_of(
    schema_of("containerName", "operator", containerName=_STRING, operator=choice_of("add", "remove"), value=_WORDS),
    100,
)
_VARIABLE: Final = schema_of("name", name=_STRING, value=_STRING, valueFrom={"type": "object", **_KEEP})
_OPERATOR: Final = choice_of("add", "remove", "replace")
_IMAGE: Final = schema_of(
    "component", "operator",
    component=choice_of("Registry", "Repository", "Tag"),
    operator=_OPERATOR,
    value=_STRING,
    predicate=schema_of("path", path=_STRING),
)  # fmt: skip
_ENVIRONMENT: Final = schema_of(
    "containerName", "operator", containerName=_STRING, operator=_OPERATOR, value=list_of(_VARIABLE, 1000)
)
_RESOURCES: Final = schema_of(
    "containerName", "value", containerName=_STRING, value=schema_of(limits=_AMOUNTS, requests=_AMOUNTS)
)
_OVERRIDERS: Final = schema_of(
    replicas={"type": "integer", "format": "int32", "minimum": 0},
    imageOverriders=list_of(_IMAGE, 100),
    envOverriders=list_of(_ENVIRONMENT, 100),
    commandOverriders=_OF_WORDS,
    argsOverriders=_OF_WORDS,
    resourcesOverriders=list_of(_RESOURCES, 100),
)
_EXPRESSION: Final = schema_of(
    "key", "operator", key=_STRING, operator=choice_of("In", "NotIn", "Exists", "DoesNotExist"), values=_WORDS
)
_SELECTOR: Final = schema_of(matchLabels=_TEXTS, matchExpressions=list_of(_EXPRESSION, 100))
_APPLICATION_SPEC: Final = schema_of(
    "workloadScope",
    workloadTemplate=schema_of(manifests=list_of({"type": "object", **_KEEP}, 100)),
    workloadScope=schema_of(
        targetNodeGroups=list_of(schema_of("name", name=_STRING, overriders=_OVERRIDERS), 1000),
        targetNodeLabels=list_of(schema_of("labelSelector", labelSelector=_SELECTOR, overriders=_OVERRIDERS), 1000),
    ),
)
_IDENTIFIER: Final = schema_of(
    "ordinal",
    ordinal={"type": "integer", "minimum": 0},
    **dict.fromkeys(("group", "version", "kind", "resource", "namespace", "name"), _STRING),
)
_WORKLOAD: Final = schema_of("identifier", identifier=_IDENTIFIER, conditions=choice_of("Processing", "Available"))
_NODE_STATUS: Final = schema_of(
    "nodeName", "readyStatus", "selectionStatus",
    **dict.fromkeys(("nodeName", "readyStatus", "selectionStatus", "selectionStatusReason"), _STRING),
)  # fmt: skip


def definitions() -> list[JsonObject]:
    """Return the definitions of NodeGroups and EdgeApplications."""
    group = {
        "spec": schema_of(nodes=_WORDS, matchLabels=_TEXTS, topologyEnabled={"type": "boolean"}),
        "status": schema_of(nodeStatuses=list_of(_NODE_STATUS), ready=_STRING),
    }
    application = {
        "spec": _APPLICATION_SPEC,
        "status": schema_of(workloadStatus=list_of(_WORKLOAD), available=_STRING),
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
