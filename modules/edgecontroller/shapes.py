"""The form an object must have where this code reads it: types only, for people's manifests and edges'
reports alike.

Objects are kept as plain JSON, so nothing is decoded into these classes for good; an object is converted
once, before it is stored, to see that it can be. Whatever else is in it is nobody's business here. `None` is
allowed where Go would read it as the zero value.
"""

from typing import Any, TypeVar

import msgspec

from modules.edgecontroller.errors import BadRequestError
from modules.edgecontroller.kinds import JsonObject

T = TypeVar("T")
_Object = dict[str, Any] | None
_Objects = list[dict[str, Any]] | None
_Strings = dict[str, str] | None


class Metadata(msgspec.Struct):
    """ObjectMeta."""

    name: str
    namespace: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815 - Kubernetes' name, as all below
    generation: int | None = None
    creationTimestamp: str | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    deletionGracePeriodSeconds: int | None = None  # noqa: N815
    labels: _Strings = None
    annotations: _Strings = None
    finalizers: list[str] | None = None
    ownerReferences: _Objects = None  # noqa: N815


class _Named(msgspec.Struct):
    name: str | None = None


class _SecretSource(msgspec.Struct):
    secretName: str | None = None  # noqa: N815


class _Resources(msgspec.Struct):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class _Projection(msgspec.Struct):
    configMap: _Named | None = None  # noqa: N815
    secret: _Named | None = None
    serviceAccountToken: _Object = None  # noqa: N815
    downwardAPI: "_DownwardApi | None" = None  # noqa: N815


class _DownwardItem(msgspec.Struct):
    fieldRef: _Object = None  # noqa: N815


class _DownwardApi(msgspec.Struct):
    items: list[_DownwardItem] | None = None


class _Projected(msgspec.Struct):
    sources: list[_Projection] | None = None


class _Volume(msgspec.Struct):
    name: str
    configMap: _Named | None = None  # noqa: N815
    secret: _SecretSource | None = None
    projected: _Projected | None = None
    downwardAPI: _DownwardApi | None = None  # noqa: N815
    hostPath: _Object = None  # noqa: N815
    emptyDir: _Object = None  # noqa: N815


class _EnvSource(msgspec.Struct):
    fieldRef: _Object = None  # noqa: N815
    configMapKeyRef: _Named | None = None  # noqa: N815
    secretKeyRef: _Named | None = None  # noqa: N815


class _Env(msgspec.Struct):
    name: str
    value: str | None = None
    valueFrom: _EnvSource | None = None  # noqa: N815


class _EnvFrom(msgspec.Struct):
    configMapRef: _Named | None = None  # noqa: N815
    secretRef: _Named | None = None  # noqa: N815


class _Mount(msgspec.Struct):
    name: str
    mountPath: str  # noqa: N815


class _Port(msgspec.Struct):
    containerPort: int  # noqa: N815


class _Probe(msgspec.Struct):
    httpGet: _Object = None  # noqa: N815


class _Container(msgspec.Struct):
    name: str
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[_Env] | None = None
    envFrom: list[_EnvFrom] | None = None  # noqa: N815
    volumeMounts: list[_Mount] | None = None  # noqa: N815
    ports: list[_Port] | None = None
    resources: _Resources | None = None
    livenessProbe: _Probe | None = None  # noqa: N815
    readinessProbe: _Probe | None = None  # noqa: N815
    startupProbe: _Probe | None = None  # noqa: N815
    lifecycle: dict[str, _Probe | None] | None = None


class PodSpec(msgspec.Struct):
    """PodSpec."""

    nodeName: str | None = None  # noqa: N815
    restartPolicy: str | None = None  # noqa: N815
    terminationGracePeriodSeconds: int | None = None  # noqa: N815
    containers: list[_Container] | None = None
    initContainers: list[_Container] | None = None  # noqa: N815
    volumes: list[_Volume] | None = None
    imagePullSecrets: list[_Named] | None = None  # noqa: N815
    tolerations: _Objects = None
    serviceAccountName: str | None = None  # noqa: N815
    hostNetwork: bool | None = None  # noqa: N815


class _State(msgspec.Struct):
    running: _Object = None
    waiting: _Object = None
    terminated: _Object = None


class _ContainerStatus(msgspec.Struct):
    name: str
    ready: bool | None = None
    restartCount: int | None = None  # noqa: N815
    state: _State | None = None
    lastState: _State | None = None  # noqa: N815


class _Condition(msgspec.Struct):
    type: str
    status: str | None = None
    lastTransitionTime: str | None = None  # noqa: N815
    lastHeartbeatTime: str | None = None  # noqa: N815
    lastProbeTime: str | None = None  # noqa: N815


class Status(msgspec.Struct):
    """PodStatus, NodeStatus and their like, as far as this code reads them."""

    phase: str | None = None
    reason: str | None = None
    startTime: str | None = None  # noqa: N815
    qosClass: str | None = None  # noqa: N815
    conditions: list[_Condition] | None = None
    containerStatuses: list[_ContainerStatus] | None = None  # noqa: N815
    initContainerStatuses: list[_ContainerStatus] | None = None  # noqa: N815
    addresses: _Objects = None
    nodeInfo: _Object = None  # noqa: N815


class _AnyObject(msgspec.Struct):
    kind: str
    apiVersion: str  # noqa: N815
    metadata: Metadata
    spec: _Object = None
    status: Status | None = None
    data: _Strings = None
    stringData: _Strings = None  # noqa: N815


class _Pod(_AnyObject):
    spec: PodSpec  # type: ignore[assignment]


def check_form(obj: JsonObject) -> None:
    """Checks that an object can be read wherever this code reads objects.

    Raises:
        BadRequestError: it cannot; names the field.
    """
    shape = _Pod if obj.get("kind") == "Pod" else _AnyObject
    convert(obj, shape, str(obj.get("kind", "object")))


def convert(value: Any, shape: type[T], what: str) -> T:
    """The value as that class, for reading it.

    Raises:
        BadRequestError: it is not of that form; names the field.
    """
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"{what}: {error}") from error
