"""The CustomResourceDefinitions of rules, with the fields of KubeEdge's v1, and conditions."""

from typing import Final

from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiextensions.definition_objects import AGE, definition_of, schema_of
from modules.cloud.rules import RULE, RULE_ENDPOINT

_STRING: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "format": "int64"}
_TEXTS: Final = {"type": "object", "additionalProperties": _STRING}


_CONDITION: Final = schema_of(type=_STRING, status=_STRING, reason=_STRING, message=_STRING, lastTransitionTime=_STRING)
_RULE_SPEC: Final = schema_of(
    "source", "sourceResource", "target", "targetResource",
    source=_STRING, sourceResource=_TEXTS, target=_STRING, targetResource=_TEXTS,
)  # fmt: skip
_RULE_STATUS: Final = schema_of(
    successMessages=_COUNT,
    failMessages=_COUNT,
    errors={"type": "array", "items": _STRING},
    conditions={"type": "array", "items": _CONDITION},
)
_ENDPOINT_TYPE: Final = {"type": "string", "enum": ["rest", "eventbus", "servicebus"]}
_ENDPOINT_SPEC: Final = schema_of("ruleEndpointType", ruleEndpointType=_ENDPOINT_TYPE, properties=_TEXTS)


def definitions() -> list[JsonObject]:
    """Return the definitions of RuleEndpoints and Rules."""
    return [
        definition_of(RULE_ENDPOINT, {"spec": _ENDPOINT_SPEC}, ("Type", "string", ".spec.ruleEndpointType"), AGE),
        definition_of(
            RULE,
            {"spec": _RULE_SPEC, "status": _RULE_STATUS},
            ("Source", "string", ".spec.source"),
            ("Target", "string", ".spec.target"),
            ("Ready", "string", ".status.conditions[0].status"),
            ("Success", "integer", ".status.successMessages"),
            ("Failed", "integer", ".status.failMessages"),
            AGE,
        ),
    ]
