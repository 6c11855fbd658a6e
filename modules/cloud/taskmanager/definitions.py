"""The CustomResourceDefinitions of nodes' jobs, with the fields of KubeEdge's v1alpha2. `deploy/jobs.yaml` has them for
clusters.
"""

from typing import Any, Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.node_job_kinds import JobKind
from modules.apimachinery.node_jobs import MOST_FIELDS, MOST_IMAGES, MOST_NODES, TEMPLATE
from modules.cloud.apiextensions.definition_objects import AGE, definition_of
from modules.cloud.jobs import JOBS

_STRING: Final = {"type": "string", "maxLength": 1024}
_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "format": "int32", "minimum": 0}


def _object(*required: str, **members: Any) -> JsonObject:
    made: JsonObject = {"type": "object", "properties": members}
    return {**made, "required": list(required)} if required else made


def _list(items: JsonObject, most: int) -> JsonObject:
    return {"type": "array", "items": items, "maxItems": most}


def _map(most: int) -> JsonObject:
    return {"type": "object", "additionalProperties": _STRING, "maxProperties": most}


_EXPRESSION: Final = _object("key", "operator", key=_STRING, operator=_STRING, values=_list(_STRING, 1000))
_TARGETS: Final[JsonObject] = {
    "nodeNames": _list(_STRING, MOST_NODES),
    "labelSelector": _object(matchLabels=_map(100), matchExpressions=_list(_EXPRESSION, 100)),
    "timeoutSeconds": _COUNT,
    "concurrency": _COUNT,
    "failureTolerate": {"type": "string", "pattern": r"^(0|1|[01]?\.[0-9]{1,4})?$"},
}
_CHECKS: Final[JsonObject] = {"checkItems": _list({"type": "string", "enum": ["cpu", "mem", "disk"]}, 16)}
_DIGESTS: Final = _object(
    arm64=_STRING, amd64=_STRING, registryAPI=_object("host", "token", host=_STRING, token=_STRING)
)
_SPECS: Final[dict[JobKind, JsonObject]] = {
    JobKind.NODE_UPGRADE: _object(
        "version",
        **_TARGETS,
        **_CHECKS,
        version=_STRING,
        image=_STRING,
        imageDigestGatter=_DIGESTS,
        requireConfirmation={"type": "boolean"},
    ),
    JobKind.IMAGE_PRE_PULL: _object(
        TEMPLATE,
        **{
            TEMPLATE: _object(
                "images",
                **_TARGETS,
                **_CHECKS,
                images=_list(_STRING, MOST_IMAGES),
                imageSecrets=_STRING,
                retryTimes={**_COUNT, "maximum": 100},
            )
        },
    ),
    JobKind.CONFIG_UPDATE: _object("updateFields", **_TARGETS, updateFields=_map(MOST_FIELDS)),
}
_ACTION: Final = _object(**dict.fromkeys(("action", "status", "reason", "time"), _TEXT))
_IMAGE: Final = _object(**dict.fromkeys(("image", "status", "reason"), _TEXT))
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
    node = _object(
        nodeName=_TEXT,
        phase=_TEXT,
        reason=_TEXT,
        actionFlow={"type": "array", "items": _ACTION},
        **_OF_NODES[kind],
    )
    status = _object("phase", phase=_TEXT, reason=_TEXT, nodeStatus={"type": "array", "items": node})
    return {"spec": _SPECS[kind], "status": status}


def _columns(kind: JobKind) -> list[tuple[str, str, str]]:
    version = [("Version", "string", ".spec.version")] if kind is JobKind.NODE_UPGRADE else []
    return [*version, ("Phase", "string", ".status.phase"), ("Reason", "string", ".status.reason"), AGE]
