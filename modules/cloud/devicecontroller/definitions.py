"""The CustomResourceDefinitions of devices, with the fields of KubeEdge's v1beta1, and conditions.

Devices and DeviceModels are served as v1alpha2, too, and stored with all fields of either version: with KubeEdge's own
definitions, an API server drops the fields that only the other version has. `deploy/devices.yaml` has them for
clusters.
"""

from collections.abc import Sequence
from typing import Any, Final

from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiextensions.definition_objects import choice_of, schema_of
from modules.cloud.devices import DEVICE, DEVICE_MODEL, DEVICE_STATUS

_STRING: Final = {"type": "string"}
_INTEGER: Final = {"type": "integer", "format": "int64"}
_BOOLEAN: Final = {"type": "boolean"}
_TEXTS: Final = {"type": "object", "additionalProperties": _STRING}
_KEEP: Final = {"x-kubernetes-preserve-unknown-fields": True}
_FREE: Final = {"type": "object", **_KEEP}
_OLD: Final = "v1alpha2"
_AGE: Final = ("Age", "date", ".metadata.creationTimestamp")


def _open(**members: Any) -> JsonObject:
    return {**schema_of(**members), **_KEEP}


def _list(**members: Any) -> JsonObject:
    return {"type": "array", "items": schema_of(**members)}


def _word(*values: str) -> JsonObject:
    """Return the schema of a word where v1alpha2 has an object, which stays as it is stored."""
    return {"enum": list(values), **_KEEP}


_VISITORS: Final = schema_of(protocolName=_STRING, configData=_FREE)
_VALUE: Final = {**schema_of(value=_STRING, metadata=_TEXTS), "required": ["value"]}
_DATABASES: Final = schema_of(
    influxdb2=schema_of(
        influxdb2ClientConfig=schema_of(url=_STRING, org=_STRING, bucket=_STRING),
        influxdb2DataConfig=schema_of(measurement=_STRING, tag=_TEXTS, fieldKey=_STRING),
    ),
    redis=schema_of(redisClientConfig=schema_of(addr=_STRING, db=_INTEGER, poolsize=_INTEGER, minIdleConns=_INTEGER)),
    TDEngine=schema_of(TDEngineClientConfig=schema_of(addr=_STRING, dbName=_STRING)),
    mysql=schema_of(mysqlClientConfig=schema_of(addr=_STRING, database=_STRING, userName=_STRING)),
)
_PUSH: Final = schema_of(
    http=schema_of(hostName=_STRING, port=_INTEGER, requestPath=_STRING, timeout=_INTEGER),
    mqtt=schema_of(address=_STRING, topic=_STRING, qos=_INTEGER, retained=_BOOLEAN),
    otel=schema_of(endpointURL=_STRING),
    dbMethod=_DATABASES,
    anomalyDetection=_FREE,
)
_MODEL: Final = schema_of(
    spec=_open(
        properties=_list(
            name=_STRING,
            description=_STRING,
            type=_word("INT", "FLOAT", "DOUBLE", "STRING", "BOOLEAN", "BYTES", "STREAM"),
            accessMode=choice_of("ReadWrite", "ReadOnly"),
            minimum=_STRING,
            maximum=_STRING,
            unit=_STRING,
            visitors=_VISITORS,
        ),
        protocol=_STRING,
        protocolConfigData=_FREE,
    )
)
_DEVICE: Final = schema_of(
    spec=_open(
        deviceModelRef=schema_of(name=_STRING),
        nodeName=_STRING,
        properties=_list(
            name=_STRING,
            desired=_VALUE,
            visitors=_VISITORS,
            reportCycle=_INTEGER,
            collectCycle=_INTEGER,
            reportToCloud=_BOOLEAN,
            pushMethod=_PUSH,
        ),
        protocol={**_VISITORS, **_KEEP},
        methods=_list(name=_STRING, description=_STRING, propertyNames={"type": "array", "items": _STRING}),
        stateReport=schema_of(reportToCloud=_BOOLEAN, reportCycle=_INTEGER),
    ),
    status=_FREE,
)
_CONDITIONS: Final = _list(type=_STRING, status=_STRING, reason=_STRING, message=_STRING, lastTransitionTime=_STRING)
_STATUS: Final = schema_of(
    spec={"type": "object"},
    status=schema_of(
        twins=_list(propertyName=_STRING, reported=_VALUE, observedDesired=_VALUE),
        state=_STRING,
        lastOnlineTime=_STRING,
        extensions=_FREE,
        conditions=_CONDITIONS,
    ),
)


_AS_STORED: Final = schema_of(spec=_FREE, status=_FREE)


def definitions() -> list[JsonObject]:
    """Return the definitions of DeviceModels, Devices and DeviceStatuses."""
    return [
        _definition(DEVICE_MODEL, _MODEL, _AS_STORED, ("Protocol", "string", ".spec.protocol"), _AGE),
        _definition(
            DEVICE,
            _DEVICE,
            _AS_STORED,
            ("Node", "string", ".spec.nodeName"),
            ("Model", "string", ".spec.deviceModelRef.name"),
            ("Property", "string", ".spec.properties[0].name"),
            ("Desired", "string", ".spec.properties[0].desired.value"),
            _AGE,
        ),
        _definition(
            DEVICE_STATUS,
            _STATUS,
            None,
            ("Valid", "string", ".status.conditions[0].status"),
            ("State", "string", ".status.state"),
            ("Last-Online", "string", ".status.lastOnlineTime"),
            ("Property", "string", ".status.twins[0].propertyName"),
            ("Desired", "string", ".status.twins[0].observedDesired.value"),
            ("Reported", "string", ".status.twins[0].reported.value"),
            _AGE,
        ),
    ]


def _definition(
    kind: Any, schema: JsonObject, old_schema: JsonObject | None, *columns: tuple[str, str, str]
) -> JsonObject:
    group, _, version = kind.api_version.partition("/")
    names = {"kind": kind.name, "listKind": f"{kind.name}List", "plural": kind.plural, "singular": kind.singular}
    versions = [_version(version, schema, columns)]
    if old_schema is not None:
        versions.append({**_version(_OLD, old_schema, (_AGE,)), "storage": False})
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
    }


def _version(name: str, schema: JsonObject, columns: Sequence[tuple[str, str, str]]) -> JsonObject:
    return {
        "name": name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": _with_identity(schema)}},
        "additionalPrinterColumns": [{"name": name, "type": of, "jsonPath": path} for name, of, path in columns],
    }


def _with_identity(schema: JsonObject) -> JsonObject:
    return {"apiVersion": _STRING, "kind": _STRING, "metadata": {"type": "object"}, **schema["properties"]}
