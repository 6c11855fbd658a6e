"""The rules of containers."""

from collections.abc import Mapping
from typing import Any, Final

from modules.apimachinery.validation.causes import (
    Causes,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)
from modules.apimachinery.validation.names import (
    faults_of_data_key,
    faults_of_header,
    faults_of_label,
    faults_of_label_key,
    faults_of_port_name,
    faults_of_subdomain,
    faults_of_variable,
)
from modules.apimachinery.validation.resources import amounts_of_resources, container_requirements
from modules.apimachinery.validation.rules import (
    Each,
    Fields,
    Row,
    Rule,
    Union,
    address,
    at_least,
    between,
    both,
    file_mode,
    named,
    needed,
    never,
    non_negative,
    on_nodes,
    one_of,
    only_on_nodes,
    or_zero,
    pointer,
    port_number,
    port_or_name,
    relative_path,
    unique,
)
from modules.apimachinery.validation.security import security_context

_LONGEST_PATH: Final = 4095
_LARGEST: Final = 2**31 - 1
_LARGEST_INT64: Final = 2**63 - 1
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_HANDLERS: Final = "may not specify more than 1 handler type"
_NO_HANDLER: Final = "must specify a handler type"
_OF_EPHEMERAL: Final = "cannot be set for an Ephemeral Container"
_RESTARTS: Final = ("Always", "Never", "OnFailure")
_RESOURCES: Final = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
)  # fmt: skip
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_FIELDS_OF_ENV: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_FIELDS_OF_VOLUMES: Final = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
)  # fmt: skip
_LABELS_OF_FIELDS: Final = frozenset((*_FIELDS_OF_ENV, *_FIELDS_OF_VOLUMES, "spec.restartPolicy", "spec.schedulerName",
                                      "status.phase"))  # fmt: skip
"""The fields of a pod that have a label, though not every reference may name them (ConvertDownwardAPIFieldLabel)."""
_LONGEST_SHOWN: Final = 200
_MAPS: Final = ("metadata.annotations", "metadata.labels")

seconds = both(non_negative, between(-_LARGEST_INT64, _LARGEST, f"must be between 0 and {_LARGEST}, inclusive"))
"""A number of seconds or attempts, of 32 bits."""


def plain_path(value: Any, path: str, found: Causes) -> None:
    """Check a path for the kernel's limits."""
    if "\0" in value:
        found.append(invalid(path, value, "must not contain a zero byte"))
    if len(value) > _LONGEST_PATH or len(value.encode()) > _LONGEST_PATH:
        found.append(too_long(path, _LONGEST_PATH))


def _field_ref(known: tuple[str, ...]) -> Rule:
    def rule(value: Any, path: str, found: Causes) -> None:
        name, subscript, key = value.partition("['")
        if not subscript or not key.endswith("']"):
            if value not in _LABELS_OF_FIELDS:
                why = f"error converting fieldPath: field label not supported: {value[:_LONGEST_SHOWN]}"
                found.append(invalid(path, value, why))
            elif value not in known:
                found.append(unsupported(path, value, known))
        elif name in _MAPS:
            key = key[:-2].lower() if name == _MAPS[0] else key[:-2]
            for why in faults_of_label_key(key):
                found.append(invalid(path.removesuffix(".fieldPath"), key, why))
        else:
            found.append(invalid(path.removesuffix(".fieldPath"), name, "does not support subscript"))

    return rule


def _resource(value: Any, path: str, found: Causes) -> None:
    if value not in _RESOURCES and not value.startswith(_HUGE_PAGES):
        found.append(unsupported(path, value, _RESOURCES))


_DIVISORS: Final = frozenset((
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei", "0",
))  # fmt: skip
_DIVISORS_OF_CPU: Final = frozenset(("1m", "1", "0"))


def _divisor(value: Mapping[str, Any], path: str, found: Causes) -> None:
    name, divisor = value.get("resource") or "", str(value.get("divisor") or "0")
    what = name.partition(".")[2]
    if what == "cpu" and divisor not in _DIVISORS_OF_CPU:
        why = "only divisor's values 1m and 1 are supported with the cpu resource"
        found.append(invalid(f"{path}.divisor", name, why))
    elif what != "cpu" and divisor not in _DIVISORS:
        of = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(what, "hugepages")
        known = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
        why = f"only divisor's values {known} are supported with the {of} resource"
        found.append(invalid(f"{path}.divisor", name, why))


_RESOURCE_REF: Final = Fields({"resource": needed(_resource)}, _divisor)
_FIELD_REF_OF_VOLUME: Final = Fields({"fieldPath": needed(_field_ref(_FIELDS_OF_VOLUMES))})
_VOLUME_RESOURCE_REF: Final = Fields({"containerName": needed(), "resource": needed(_resource)}, _divisor)


def _source_of_file(value: Mapping[str, Any], path: str, found: Causes) -> None:
    if value.get("fieldRef") is None and value.get("resourceFieldRef") is None:
        found.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    elif value.get("fieldRef") is not None and value.get("resourceFieldRef") is not None:
        why = "fieldRef and resourceFieldRef can not be specified simultaneously"
        found.append(invalid(path, "resource", why))


downward_api_file = Fields(
    {
        "fieldRef": _FIELD_REF_OF_VOLUME,
        "resourceFieldRef": _VOLUME_RESOURCE_REF,
        "mode": on_nodes(pointer(file_mode)),
    },
    _source_of_file,
)
"""The content of a file of a downwardAPI volume; `volumes` checks its path."""

_KEY_REF: Final = Fields({"name": or_zero(named(faults_of_subdomain), ""), "key": needed(named(faults_of_data_key))})
_VALUE_FROM: Final = Fields(
    {
        "fieldRef": Fields({"fieldPath": needed(_field_ref(_FIELDS_OF_ENV))}),
        "resourceFieldRef": _RESOURCE_REF,
        "configMapKeyRef": _KEY_REF,
        "secretKeyRef": _KEY_REF,
    }
)


def _value_from(value: Mapping[str, Any], path: str, found: Causes) -> None:
    source = value.get("valueFrom")
    if source is None:
        return
    number = sum(source.get(name) is not None for name in _VALUE_FROM.rows)
    where = f"{path}.valueFrom"
    if not number:
        why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        found.append(invalid(where, "", why))
    elif value.get("value"):
        found.append(invalid(where, "", "may not be specified when `value` is not empty"))
    elif number > 1:
        found.append(invalid(where, "", "may not have more than one field specified at a time"))


_ENV: Final = Fields({"name": needed(named(faults_of_variable)), "valueFrom": _VALUE_FROM}, _value_from)
_NAMED: Final = Fields({"name": needed(named(faults_of_subdomain))})


def _one_source(value: Mapping[str, Any], path: str, found: Causes) -> None:
    number = (value.get("configMapRef") is not None) + (value.get("secretRef") is not None)
    where = path.rpartition("[")[0]  # as an API server tells it
    if not number:
        found.append(invalid(where, "", "must specify one of: `configMapRef` or `secretRef`"))
    elif number > 1:
        found.append(invalid(where, "", "may not have more than one field specified at a time"))


_ENV_FROM: Final = Fields(
    {"prefix": named(faults_of_variable), "configMapRef": _NAMED, "secretRef": _NAMED}, _one_source
)
_PORT: Final = Fields(
    {
        "name": named(faults_of_port_name),
        "containerPort": on_nodes(needed(port_number)),
        "hostPort": on_nodes(port_number),
        "hostIP": only_on_nodes(address),
        "protocol": on_nodes(or_zero(one_of(*PROTOCOLS), "TCP")),
    }
)


def _number(value: Any, path: str, found: Causes) -> None:
    """Check a port's number. A node looks a name up when it is used."""
    if isinstance(value, int):
        port_number(value, path, found)


def _headers(value: Any, path: str, found: Causes) -> None:
    """Check the names of headers, each told at the path of all, as an API server tells it."""
    for header in value:
        named(faults_of_header)(header.get("name") or "", path, found)


_EXEC: Final = Fields({"command": needed()})
_HTTP_GET: Final = Fields(
    {
        "path": needed(),
        "port": on_nodes(or_zero(port_or_name), _number),
        "scheme": or_zero(one_of("HTTP", "HTTPS"), ""),
        "httpHeaders": _headers,
    }
)
_TCP_SOCKET: Final = Fields({"port": on_nodes(or_zero(port_or_name), _number)})
_GRPC: Final = Fields({"port": on_nodes(or_zero(port_number))})
_SLEEP: Final = Fields({"seconds": only_on_nodes(or_zero(seconds))})
_HOOK: Final = Union({"exec": _EXEC, "httpGet": _HTTP_GET, "tcpSocket": _TCP_SOCKET, "sleep": _SLEEP},
                     _HANDLERS, _NO_HANDLER)  # fmt: skip
_HANDLER: Final = Union({"exec": _EXEC, "httpGet": _HTTP_GET, "tcpSocket": _TCP_SOCKET, "grpc": _GRPC},
                        _HANDLERS, _NO_HANDLER)  # fmt: skip
_LIFECYCLE: Final = Fields({"postStart": _HOOK, "preStop": _HOOK})


def _must_be_one(value: Any, path: str, found: Causes) -> None:
    seconds(value, path, found)
    if value != 1:
        found.append(invalid(path, value, "must be 1"))


def _not_of_readiness(value: Any, path: str, found: Causes) -> None:
    found.append(invalid(path, value, "must not be set for readinessProbes"))


_NUMBERS: Final = {
    name: on_nodes(seconds)
    for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
}
_GRACE: Final = on_nodes(pointer(at_least(1, "must be greater than 0")))
_PROBE_OF_LIFE: Final = Fields(
    {},
    _HANDLER,
    Fields({**_NUMBERS, "successThreshold": on_nodes(_must_be_one, seconds), "terminationGracePeriodSeconds": _GRACE}),
)
_READINESS: Final = Fields(
    {}, _HANDLER, Fields({**_NUMBERS, "terminationGracePeriodSeconds": pointer(_not_of_readiness)})
)
_LIFE: Final[dict[str, Rule | Row]] = {
    "lifecycle": _LIFECYCLE,
    "livenessProbe": _PROBE_OF_LIFE,
    "readinessProbe": _READINESS,
    "startupProbe": _PROBE_OF_LIFE,
}


def _read_only(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check recursiveReadOnly, at the path of all mounts, as an API server tells it."""
    wanted, where = value.get("recursiveReadOnly"), f"{path.rpartition('[')[0]}.recursiveReadOnly"
    if wanted in ("Enabled", "IfPossible"):
        if not value.get("readOnly"):
            found.append(forbidden(where, "may only be specified when readOnly is true"))
        if value.get("mountPropagation") not in (None, "None"):
            why = "may only be specified when mountPropagation is None or not specified"
            found.append(forbidden(where, why))
    elif wanted not in (None, "Disabled"):
        found.append(unsupported(where, wanted, ("Disabled", "Enabled", "IfPossible")))


def _mount_paths(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the paths below a volume, at the path of all mounts, as an API server tells them."""
    of_all = path.rpartition("[")[0]
    if sub_path := value.get("subPath"):
        relative_path(sub_path, f"{of_all}.subPath", found)
    if expression := value.get("subPathExpr"):
        if sub_path:
            why = "subPathExpr and subPath are mutually exclusive"
            found.append(invalid(f"{path}.subPathExpr", expression, why))
        relative_path(expression, f"{of_all}.subPathExpr", found)
    propagation = value.get("mountPropagation")
    if propagation is not None:
        one_of("Bidirectional", "HostToContainer", "None")(propagation, f"{of_all}.mountPropagation", found)


_MOUNT: Final = Fields(
    {
        "name": needed(),
        "mountPath": on_nodes(needed(plain_path)),
        "subPath": on_nodes(plain_path),
        "subPathExpr": on_nodes(plain_path),
    },
    _mount_paths,
    _read_only,
)


def _device_path(value: Any, path: str, found: Causes) -> None:
    if ".." in value.split("/"):
        found.append(invalid(path, value, "can not contain backsteps ('..')"))


_DEVICE: Final = Fields({"name": needed(), "devicePath": needed(_device_path)})


def _mounts_and_devices(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check that nothing is mounted and a device as well."""
    devices = value.get("volumeDevices") or ()
    if not devices:
        return
    names, paths = {each.get("name") for each in devices}, {each.get("devicePath") for each in devices}
    for index, mount in enumerate(value.get("volumeMounts") or ()):
        if (name := mount.get("name")) in names:
            why = "must not already exist in volumeDevices"
            found.append(invalid(f"{path}.volumeMounts[{index}].name", name, why))
        if (where := mount.get("mountPath")) in paths:
            why = "must not already exist as a path in volumeDevices"
            found.append(invalid(f"{path}.volumeMounts[{index}].mountPath", where, why))


def _resize_policies(value: Any, path: str, found: Causes) -> None:
    seen = set[str]()
    for index, policy in enumerate(value):
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            found.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
        for given, known in ((name, ("cpu", "memory")), (restart, ("NotRequired", "RestartContainer"))):
            if not given:
                found.append(required(path))
            elif given not in known:
                found.append(unsupported(path, given, known))


def image_of_pod(value: Any, path: str, found: Causes) -> None:
    """Check the image of a pod's container: Kubernetes lets that of a template begin and end with spaces."""
    if value != value.strip():
        found.append(invalid(path, value, "must not have leading or trailing whitespace"))


_COMMON: Final[dict[str, Rule | Row]] = {
    "name": on_nodes(needed(named(faults_of_label))),
    "image": needed(),
    "terminationMessagePolicy": or_zero(one_of("File", "FallbackToLogsOnError"), "File"),
    "terminationMessagePath": only_on_nodes(plain_path),
    "workingDir": only_on_nodes(plain_path),
    "ports": Each(_PORT, unique("name")),
    "env": Each(_ENV),
    "envFrom": Each(_ENV_FROM),
    "volumeMounts": Each(_MOUNT, unique("mountPath", "must be unique")),
    "volumeDevices": Each(_DEVICE, unique("name", "must be unique"), unique("devicePath", "must be unique")),
    "imagePullPolicy": or_zero(one_of("Always", "IfNotPresent", "Never"), "IfNotPresent"),
    "resources": container_requirements,
    "resizePolicy": _resize_policies,
    "securityContext": security_context,
}


_ALSO: Final = (_mounts_and_devices, only_on_nodes(amounts_of_resources))
container = Fields({**_COMMON, **_LIFE, "restartPolicy": pointer(one_of(*_RESTARTS))}, *_ALSO)
"""A container. Kubernetes has its own restart policy, which edged knows, since 1.34."""


def _life_of_init(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check probes and hooks of an init container, which only a sidecar may have."""
    if value.get("restartPolicy") == "Always":
        _OF_LIFE(value, path, found)
        return
    for name in _LIFE:
        if value.get(name) is not None:
            why = "may not be set for init containers without restartPolicy=Always"
            found.append(forbidden(f"{path}.{name}", why))


_OF_LIFE: Final = Fields(_LIFE)
init_container = Fields(
    {**_COMMON, "restartPolicy": pointer(one_of(*_RESTARTS))},
    *_ALSO,
    _life_of_init,
    only_on_nodes(_OF_LIFE),
)


def _mounts_of_ephemeral(value: Mapping[str, Any], path: str, found: Causes) -> None:
    for index, mount in enumerate(value.get("volumeMounts") or ()):
        for name in ("subPath", "subPathExpr"):
            if mount.get(name):
                found.append(forbidden(f"{path}.volumeMounts[{index}].{name}", _OF_EPHEMERAL))


_NEVER: Final = never(_OF_EPHEMERAL)
_NEVER_OF_EPHEMERAL: Final = ("ports", "resources", "resizePolicy", "restartPolicy", *_LIFE)
ephemeral_container = Fields(
    {**_COMMON, "image": needed(image_of_pod), **dict.fromkeys(_NEVER_OF_EPHEMERAL, _NEVER)},
    *_ALSO,
    _mounts_of_ephemeral,
)
