"""The CustomResourceDefinitions of nodes' jobs, with the fields of KubeEdge's v1alpha2. `deploy/jobs.yaml` has them for
clusters.
"""

from typing import Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.node_job_kinds import JobKind
from modules.apimachinery.node_jobs import MOST_FIELDS, MOST_IMAGES, MOST_NODES, TEMPLATE
from modules.cloud.apiextensions.definition_objects import AGE, definition_of, list_of, schema_of
from modules.cloud.jobs import JOBS

_STRING: Final = {"type": "string", "maxLength": 1024}
_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "format": "int32", "minimum": 0}


def _map(most: int) -> JsonObject:
    return {"type": "object", "additionalProperties": _STRING, "maxProperties": most}


_EXPRESSION: Final = schema_of("key", "operator", key=_STRING, operator=_STRING, values=list_of(_STRING, 1000))
_TARGETS: Final[JsonObject] = {
    "nodeNames": list_of(_STRING, MOST_NODES),
    "labelSelector": schema_of(matchLabels=_map(100), matchExpressions=list_of(_EXPRESSION, 100)),
    "timeoutSeconds": _COUNT,
    "concurrency": _COUNT,
    "failureTolerate": {"type": "string", "pattern": r"^(0|1|[01]?\.[0-9]{1,4})?$"},
}
_CHECKS: Final[JsonObject] = {"checkItems": list_of({"type": "string", "enum": ["cpu", "mem", "disk"]}, 16)}
_DIGESTS: Final = schema_of(
    arm64=_STRING, amd64=_STRING, registryAPI=schema_of("host", "token", host=_STRING, token=_STRING)
)
_SPECS: Final[dict[JobKind, JsonObject]] = {
    JobKind.NODE_UPGRADE: schema_of(
        "version",
        **_TARGETS,
        **_CHECKS,
        version=_STRING,
        image=_STRING,
        imageDigestGatter=_DIGESTS,
        requireConfirmation={"type": "boolean"},
    ),
    JobKind.IMAGE_PRE_PULL: schema_of(
        TEMPLATE,
        **{
            TEMPLATE: schema_of(
                "images",
                **_TARGETS,
                **_CHECKS,
                images=list_of(_STRING, MOST_IMAGES),
                imageSecrets=_STRING,
                retryTimes={**_COUNT, "maximum": 100},
            )
        },
    ),
    JobKind.CONFIG_UPDATE: schema_of("updateFields", **_TARGETS, updateFields=_map(MOST_FIELDS)),
}
_ACTION: Final = schema_of(**dict.fromkeys(("action", "status", "reason", "time"), _TEXT))
_IMAGE: Final = schema_of(**dict.fromkeys(("image", "status", "reason"), _TEXT))
_OF_NODES: Final[dict[JobKind, JsonObject]] = {
    JobKind.NODE_UPGRADE: {"currentVersion": _TEXT, "historicVersion": _TEXT},
    JobKind.IMAGE_PRE_PULL: {"imageStatus": {"type": "array", "items": _IMAGE}},
    JobKind.CONFIG_UPDATE: {},
}


def definitions() -> list[JsonObject]:
    """Return the definitions of the three kinds."""
    return [
        definition_of(JOBS[kind], _members(kind), *_columns(kind), has_status=True, needs_spec=True) for kind in JOBS
    ]


def _members(kind: JobKind) -> JsonObject:
    node = schema_of(
        nodeName=_TEXT,
        phase=_TEXT,
        reason=_TEXT,
        actionFlow={"type": "array", "items": _ACTION},
        **_OF_NODES[kind],
    )
    status = schema_of("phase", phase=_TEXT, reason=_TEXT, nodeStatus={"type": "array", "items": node})
    return {"spec": _SPECS[kind], "status": status}


def _columns(kind: JobKind) -> list[tuple[str, str, str]]:
    version = [("Version", "string", ".spec.version")] if kind is JobKind.NODE_UPGRADE else []
    return [*version, ("Phase", "string", ".status.phase"), ("Reason", "string", ".status.reason"), AGE]
