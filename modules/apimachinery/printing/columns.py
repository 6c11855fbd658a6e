"""The columns of tables of kubectl, as API servers make them (`printers/internalversion`)."""

from collections.abc import Callable
from typing import Final, NamedTuple

from modules.apimachinery.printing import devices, workloads
from modules.apimachinery.printing.ages import age_of, ago, human_duration
from modules.apimachinery.printing.fields import JsonObject, list_at, map_at, objects_at, text_at, value_at
from modules.apimachinery.printing.pods import pod_ready, pod_restarts_and_when, pod_status

NONE: Final = "<none>"
_ROLE: Final = "node-role.kubernetes.io/"
_OLDER_ROLE: Final = "kubernetes.io/role"
_DEFAULT_CLASSES: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_MOST_ENDPOINTS = 3
_MOST_HOSTS = 3
_UNSET = "<unset>"

Cell = Callable[[JsonObject, float], str | float | None]


class Column(NamedTuple):
    """One column of a table."""

    title: str
    """Title; kubectl prints it in capitals."""
    cell: Cell
    """Makes the cell of an object; the second argument is the time in seconds since the epoch."""
    wide: bool = False
    """Whether it is shown with `-o wide` only."""
    type: str = "string"
    """Type in an API server's table; a cell of another one is its JSON value."""


def columns_of(kind: str) -> tuple[Column, ...]:
    """Return the columns of a kind (`Pod`, `Device.devices.kubeedge.io`); name and age for an unknown kind."""
    return _COLUMNS.get(kind, (_NAME, _AGE))


def has_columns(kind: str) -> bool:
    """Return whether a kind has columns of its own here."""
    return kind in _COLUMNS


def node_ready(node: JsonObject) -> str:
    """Return Ready, NotReady or Unknown, and whether scheduling is disabled."""
    ready = next((each for each in objects_at(node, "status.conditions") if each.get("type") == "Ready"), None)
    word = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if text_at(node, "spec.unschedulable") == "true" else word


def _at(path: str, otherwise: str = "") -> Cell:
    return lambda obj, _: text_at(obj, path) or otherwise


def _named(path: str) -> Cell:
    """Return the cell of an object that another one refers to."""
    return lambda obj, _: f"{text_at(obj, f'{path}.kind')}/{text_at(obj, f'{path}.name')}"


def _number(path: str) -> Cell:
    return lambda obj, _: workloads.number_at(obj, path)


def _count(title: str, path: str) -> Column:
    return Column(title, _number(path), type="integer")


def _flag(title: str, path: str, *, otherwise: bool = False) -> Column:
    def cell(obj: JsonObject, _: float) -> bool:
        found = value_at(obj, path)
        return found if isinstance(found, bool) else otherwise

    return Column(title, cell, type="boolean")


def _number_or_none(path: str) -> Cell:
    """Return the cell of a number that may be missing; its column is one of texts."""

    def cell(obj: JsonObject, _: float) -> str | int:
        found = value_at(obj, path)
        return found if isinstance(found, int) else NONE

    return cell


def _counted(*paths: str) -> Cell:
    return lambda obj, _: sum(len(map_at(obj, path)) for path in paths)


def _used_of_hard(quota: JsonObject, *, are_limits: bool) -> str:
    hard, used = map_at(quota, "status.hard"), map_at(quota, "status.used")
    names = [name for name in sorted(hard) if name.startswith("limits.") == are_limits]
    return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)


def _node_roles(node: JsonObject, _: float) -> str:
    labels = map_at(node, "metadata.labels")
    roles = {label.removeprefix(_ROLE) for label in labels if label.startswith(_ROLE)}
    return ",".join(sorted(filter(None, roles | {str(labels.get(_OLDER_ROLE) or "")}))) or NONE


def _node_address(kind: str) -> Cell:
    def cell(node: JsonObject, _: float) -> str:
        addresses = objects_at(node, "status.addresses")
        return next((str(each.get("address")) for each in addresses if each.get("type") == kind), NONE)

    return cell


def _readiness_gates(pod: JsonObject, _: float) -> str:
    gates = [text_at(gate, "conditionType") for gate in objects_at(pod, "spec.readinessGates")]
    open_ = {text_at(each, "type") for each in objects_at(pod, "status.conditions") if each.get("status") == "True"}
    return f"{sum(gate in open_ for gate in gates)}/{len(gates)}" if gates else NONE


def _event_moment(*paths: str) -> Cell:
    def cell(event: JsonObject, now: float) -> str:
        return ago(next((text for path in paths if (text := text_at(event, path))), ""), now)

    return cell


def _event_object(event: JsonObject, _: float) -> str:
    kind, name = text_at(event, "involvedObject.kind").lower(), text_at(event, "involvedObject.name")
    return f"{kind}/{name}" if name else kind


def _event_source(event: JsonObject, _: float) -> str:
    component = text_at(event, "source.component") or text_at(event, "reportingComponent")
    instance = text_at(event, "source.host") or text_at(event, "reportingInstance")
    return f"{component}, {instance}" if instance else component


def _event_count(event: JsonObject, _: float) -> int:
    is_series = bool(map_at(event, "series"))
    return workloads.number_at(event, "series.count") if is_series else workloads.number_at(event, "count") or 1


def _requested(request: JsonObject, _: float) -> str:
    seconds = value_at(request, "spec.expirationSeconds")
    return human_duration(seconds) if isinstance(seconds, int) and seconds > 0 else NONE


def _decision(request: JsonObject, _: float) -> str:
    """Return the conditions of a certificate signing request, and whether the certificate is there."""
    types = [text_at(each, "type") for each in objects_at(request, "status.conditions")]
    words = [next((word for word in ("Denied", "Approved") if word in types), "Pending")]
    words += ["Failed"] if "Failed" in types else []
    words += ["Issued"] if text_at(request, "status.certificate") else []
    return ",".join(words)


def _modes(path: str) -> Cell:
    return lambda obj, _: ",".join(short for mode, short in _MODES.items() if mode in list_at(obj, path))


def _with_volume(cell: Cell) -> Cell:
    return lambda claim, now: cell(claim, now) if text_at(claim, "spec.volumeName") else ""


def _claim_of(volume: JsonObject, _: float) -> str:
    name = text_at(volume, "spec.claimRef.name")
    return f"{text_at(volume, 'spec.claimRef.namespace')}/{name}" if name else ""


def _claim_status(claim: JsonObject, _: float) -> str:
    return "Terminating" if text_at(claim, "metadata.deletionTimestamp") else text_at(claim, "status.phase")


def _external_ip(service: JsonObject, _: float) -> str:
    kind = text_at(service, "spec.type")
    if kind == "ExternalName":
        return text_at(service, "spec.externalName")
    given = [str(ip) for ip in list_at(service, "spec.externalIPs")]
    if kind == "LoadBalancer":
        return ",".join(_balanced(service) + given) or "<pending>"
    return ",".join(given) or NONE


def _balanced(obj: JsonObject) -> list[str]:
    """Return the addresses or names that a load balancer has given a Service or an Ingress."""
    found = (
        text_at(each, "ip") or text_at(each, "hostname") for each in objects_at(obj, "status.loadBalancer.ingress")
    )
    return [each for each in found if each]


def _hosts(ingress: JsonObject, _: float) -> str:
    """Return the first hosts, and how many rules more there are: kubectl counts those without a host, too."""
    rules = objects_at(ingress, "spec.rules")
    places = [at for at, each in enumerate(rules) if each.get("host")][:_MOST_HOSTS]
    is_cut = len(places) == _MOST_HOSTS and len(rules) > places[-1] + 1
    more = f" + {len(rules) - _MOST_HOSTS} more..." if is_cut else ""
    return ",".join(text_at(rules[at], "host") for at in places) + more if places else "*"


def _parameters(ingress_class: JsonObject, _: float) -> str:
    of = map_at(ingress_class, "spec.parameters")
    group = f".{text_at(of, 'apiGroup')}" if of.get("apiGroup") else ""
    return f"{text_at(of, 'kind')}{group}/{text_at(of, 'name')}" if of else NONE


def _dangling(schema: JsonObject, _: float) -> str:
    conditions = objects_at(schema, "status.conditions")
    return next((text_at(each, "status") for each in conditions if each.get("type") == "Dangling"), "?")


def _ports(service: JsonObject, _: float) -> str:
    def port(each: JsonObject) -> str:
        outside = f":{each['nodePort']}" if each.get("nodePort") else ""
        return f"{each.get('port')}{outside}/{each.get('protocol') or 'TCP'}"

    return ",".join(port(each) for each in objects_at(service, "spec.ports")) or NONE


def _selector(service: JsonObject, _: float) -> str:
    return _pairs(map_at(service, "spec.selector"))


def _pairs(labels: JsonObject) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


def _endpoints(obj: JsonObject, _: float) -> str:
    found = [
        _with_port(text_at(address, "ip"), port)
        for subset in objects_at(obj, "subsets")
        for port in objects_at(subset, "ports") or [{}]
        for address in objects_at(subset, "addresses")
    ]
    return _first_of(found) if list_at(obj, "subsets") else NONE


def _with_port(address: str, port: JsonObject) -> str:
    """Return an address with its port; a headless Service may have none."""
    if not port:
        return address
    return f"{f'[{address}]' if ':' in address else address}:{port.get('port')}"


def _slice_ports(obj: JsonObject, _: float) -> str:
    found = [str(port.get("port", port.get("name", "*"))) for port in objects_at(obj, "ports")]
    return _first_of(found) if found else _UNSET


def _slice_endpoints(obj: JsonObject, _: float) -> str:
    found = [str(address) for each in objects_at(obj, "endpoints") for address in list_at(each, "addresses")]
    return _first_of(found) or _UNSET


def _first_of(found: list[str]) -> str:
    more = f" + {len(found) - _MOST_ENDPOINTS} more..." if len(found) > _MOST_ENDPOINTS else ""
    return ",".join(found[:_MOST_ENDPOINTS]) + more


def _class_name(storage_class: JsonObject, _: float) -> str:
    annotations = map_at(storage_class, "metadata.annotations")
    is_default = any(annotations.get(name) == "true" for name in _DEFAULT_CLASSES)
    return f"{text_at(storage_class, 'metadata.name')}{' (default)' if is_default else ''}"


def _audiences(driver: JsonObject) -> str:
    return ",".join(text_at(each, "audience") for each in objects_at(driver, "spec.tokenRequests")) or "<unset>"


def _subjects(kind: str) -> Cell:
    """Return the cell of a binding's subjects of a kind; an account has its namespace before its name."""

    def cell(binding: JsonObject, _: float) -> str:
        found = [each for each in objects_at(binding, "subjects") if each.get("kind") == kind]
        is_account = kind == "ServiceAccount"
        return ", ".join(
            f"{text_at(each, 'namespace')}/{text_at(each, 'name')}" if is_account else text_at(each, "name")
            for each in found
        )

    return cell


_NAME: Final = Column("Name", _at("metadata.name"))
_AGE: Final = Column("Age", age_of)

_TEMPLATE: Final = (
    Column("Containers", workloads.containers, wide=True),
    Column("Images", workloads.images, wide=True),
)
_REPLICAS: Final = (
    _count("Desired", "spec.replicas"),
    _count("Current", "status.replicas"),
    _count("Ready", "status.readyReplicas"),
)
_TEMPLATE_AND_SELECTOR: Final = (*_TEMPLATE, Column("Selector", workloads.selector, wide=True))

_COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "Pod": (
        _NAME,
        Column("Ready", lambda pod, _: pod_ready(pod)),
        Column("Status", lambda pod, _: pod_status(pod)),
        Column("Restarts", pod_restarts_and_when),
        _AGE,
        Column("IP", _at("status.podIP", NONE), wide=True),
        Column("Node", _at("spec.nodeName", NONE), wide=True),
        Column("Nominated Node", _at("status.nominatedNodeName", NONE), wide=True),
        Column("Readiness Gates", _readiness_gates, wide=True),
    ),
    "Node": (
        _NAME,
        Column("Status", lambda node, _: node_ready(node)),
        Column("Roles", _node_roles),
        _AGE,
        Column("Version", _at("status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", _node_address("InternalIP"), wide=True),
        Column("External-IP", _node_address("ExternalIP"), wide=True),
        Column("OS-Image", _at("status.nodeInfo.osImage", "<unknown>"), wide=True),
        Column("Kernel-Version", _at("status.nodeInfo.kernelVersion", "<unknown>"), wide=True),
        Column("Container-Runtime", _at("status.nodeInfo.containerRuntimeVersion", "<unknown>"), wide=True),
    ),
    "ConfigMap": (_NAME, Column("Data", _counted("data", "binaryData")), _AGE),
    "Secret": (_NAME, Column("Type", _at("type")), Column("Data", _counted("data")), _AGE),
    "Event": (
        Column("Last Seen", _event_moment("series.lastObservedTime", "lastTimestamp", "firstTimestamp", "eventTime")),
        Column("Type", _at("type")),
        Column("Reason", _at("reason")),
        Column("Object", _event_object),
        Column("Subobject", _at("involvedObject.fieldPath"), wide=True),
        Column("Source", _event_source, wide=True),
        Column("Message", lambda event, _: text_at(event, "message").strip()),
        Column("First Seen", _event_moment("firstTimestamp", "eventTime"), wide=True),
        Column("Count", _event_count, wide=True),
        Column("Name", _at("metadata.name"), wide=True),
    ),
    "Device.devices.kubeedge.io": (
        _NAME,
        Column("Node", _at("spec.nodeName")),
        Column("Model", _at("spec.deviceModelRef.name")),
        _AGE,
        Column("Desired", devices.desired),
    ),
    "DeviceStatus.devices.kubeedge.io": (
        _NAME,
        Column("Valid", devices.valid),
        Column("State", _at("status.state")),
        Column("Last-Online", _at("status.lastOnlineTime")),
        _AGE,
        Column("Values", devices.values),
    ),
    "Namespace": (_NAME, Column("Status", _at("status.phase", "Active")), _AGE),
    "ServiceAccount": (_NAME, Column("Secrets", lambda account, _: len(list_at(account, "secrets"))), _AGE),
    "CertificateSigningRequest": (
        _NAME,
        _AGE,
        Column("SignerName", _at("spec.signerName", NONE)),
        Column("Requestor", _at("spec.username")),
        Column("RequestedDuration", _requested),
        Column("Condition", _decision),
    ),
    "CSIDriver": (
        _NAME,
        _flag("AttachRequired", "spec.attachRequired", otherwise=True),
        _flag("PodInfoOnMount", "spec.podInfoOnMount"),
        _flag("StorageCapacity", "spec.storageCapacity"),
        Column("TokenRequests", lambda driver, _: _audiences(driver)),
        _flag("RequiresRepublish", "spec.requiresRepublish"),
        Column("Modes", lambda driver, _: ",".join(map(str, list_at(driver, "spec.volumeLifecycleModes")))),
        _AGE,
    ),
    "CSINode": (_NAME, Column("Drivers", lambda node, _: len(list_at(node, "spec.drivers")), type="integer"), _AGE),
    "StorageClass": (
        Column("Name", _class_name),
        Column("Provisioner", _at("provisioner")),
        Column("ReclaimPolicy", _at("reclaimPolicy", "Delete")),
        Column("VolumeBindingMode", _at("volumeBindingMode", "Immediate")),
        _flag("AllowVolumeExpansion", "allowVolumeExpansion")._replace(type="string"),
        _AGE,
    ),
    "Lease": (_NAME, Column("Holder", _at("spec.holderIdentity")), _AGE),
    "PersistentVolume": (
        _NAME,
        Column("Capacity", _at("spec.capacity.storage")),
        Column("Access Modes", _modes("spec.accessModes")),
        Column("Reclaim Policy", _at("spec.persistentVolumeReclaimPolicy")),
        Column("Status", _claim_status),
        Column("Claim", _claim_of),
        Column("StorageClass", _at("spec.storageClassName")),
        Column("VolumeAttributesClass", _at("spec.volumeAttributesClassName", "<unset>")),
        Column("Reason", _at("status.reason")),
        _AGE,
        Column("VolumeMode", _at("spec.volumeMode", "<unset>"), wide=True),
    ),
    "PersistentVolumeClaim": (
        _NAME,
        Column("Status", _claim_status),
        Column("Volume", _at("spec.volumeName")),
        Column("Capacity", _with_volume(_at("status.capacity.storage", "0"))),
        Column("Access Modes", _with_volume(_modes("status.accessModes"))),
        Column("StorageClass", _at("spec.storageClassName")),
        Column("VolumeAttributesClass", _at("spec.volumeAttributesClassName", "<unset>")),
        _AGE,
        Column("VolumeMode", _at("spec.volumeMode", "<unset>"), wide=True),
    ),
    "Service": (
        _NAME,
        Column("Type", _at("spec.type", "ClusterIP")),
        Column("Cluster-IP", _at("spec.clusterIP", NONE)),
        Column("External-IP", _external_ip),
        Column("Port(s)", _ports),
        _AGE,
        Column("Selector", _selector, wide=True),
    ),
    "Endpoints": (_NAME, Column("Endpoints", _endpoints), _AGE),
    "EndpointSlice": (
        _NAME,
        Column("AddressType", _at("addressType")),
        Column("Ports", _slice_ports),
        Column("Endpoints", _slice_endpoints),
        _AGE,
    ),
    "VolumeAttachment": (
        _NAME,
        Column("Attacher", _at("spec.attacher")),
        Column("PV", _at("spec.source.persistentVolumeName")),
        Column("Node", _at("spec.nodeName")),
        _flag("Attached", "status.attached"),
        _AGE,
    ),
    "Deployment": (
        _NAME,
        Column("Ready", workloads.ready_of_wanted),
        Column("Up-to-date", _number("status.updatedReplicas")),
        Column("Available", _number("status.availableReplicas")),
        _AGE,
        *_TEMPLATE_AND_SELECTOR,
    ),
    "ReplicaSet": (
        _NAME,
        *_REPLICAS,
        _AGE,
        *_TEMPLATE_AND_SELECTOR,
    ),
    "ReplicationController": (
        _NAME,
        *_REPLICAS,
        _AGE,
        *_TEMPLATE,
        Column("Selector", _selector, wide=True),
    ),
    "DaemonSet": (
        _NAME,
        _count("Desired", "status.desiredNumberScheduled"),
        _count("Current", "status.currentNumberScheduled"),
        _count("Ready", "status.numberReady"),
        _count("Up-to-date", "status.updatedNumberScheduled"),
        _count("Available", "status.numberAvailable"),
        Column("Node Selector", workloads.node_selector),
        _AGE,
        *_TEMPLATE_AND_SELECTOR,
    ),
    "StatefulSet": (_NAME, Column("Ready", workloads.ready_of_wanted), _AGE, *_TEMPLATE),
    "ControllerRevision": (
        _NAME,
        Column("Controller", workloads.owner),
        Column("Revision", _number("revision")),
        _AGE,
    ),
    "Job": (
        _NAME,
        Column("Status", workloads.job_status),
        Column("Completions", workloads.job_completions),
        Column("Duration", workloads.job_duration),
        _AGE,
        *_TEMPLATE_AND_SELECTOR,
    ),
    "CronJob": (
        _NAME,
        Column("Schedule", _at("spec.schedule")),
        Column("Timezone", workloads.cron_job_zone),
        Column("Suspend", workloads.cron_job_suspended, type="boolean"),
        Column("Active", lambda cron_job, _: len(list_at(cron_job, "status.active")), type="integer"),
        Column("Last Schedule", workloads.last_schedule),
        _AGE,
        *_TEMPLATE_AND_SELECTOR,
    ),
    "PodDisruptionBudget": (
        _NAME,
        Column("Min Available", _at("spec.minAvailable", "N/A")),
        Column("Max Unavailable", _at("spec.maxUnavailable", "N/A")),
        _count("Allowed Disruptions", "status.disruptionsAllowed"),
        _AGE,
    ),
    "ResourceQuota": (
        _NAME,
        _AGE,
        Column("Request", lambda quota, _: _used_of_hard(quota, are_limits=False)),
        Column("Limit", lambda quota, _: _used_of_hard(quota, are_limits=True)),
    ),
    "PriorityClass": (
        _NAME,
        _count("Value", "value"),
        _flag("Global-Default", "globalDefault"),
        _AGE,
        Column("PreemptionPolicy", _at("preemptionPolicy")),
    ),
    "PodTemplate": (
        _NAME,
        Column("Containers", workloads.containers),
        Column("Images", workloads.images),
        Column("Pod Labels", lambda template, _: _pairs(map_at(template, "template.metadata.labels"))),
    ),
    "Ingress": (
        _NAME,
        Column("Class", _at("spec.ingressClassName", NONE)),
        Column("Hosts", _hosts),
        Column("Address", lambda ingress, _: ",".join(sorted(set(_balanced(ingress))))),
        Column("Ports", lambda ingress, _: "80, 443" if list_at(ingress, "spec.tls") else "80"),
        _AGE,
    ),
    "IngressClass": (
        _NAME,
        Column("Controller", _at("spec.controller")),
        Column("Parameters", _parameters),
        _AGE,
    ),
    "NetworkPolicy": (_NAME, Column("Pod-Selector", workloads.pod_selector), _AGE),
    "HorizontalPodAutoscaler": (
        _NAME,
        Column("Reference", _named("spec.scaleTargetRef")),
        Column("Targets", workloads.targets),
        Column("MinPods", lambda obj, _: text_at(obj, "spec.minReplicas") or _UNSET),
        Column("MaxPods", _number("spec.maxReplicas")),
        Column("Replicas", _number("status.currentReplicas")),
        _AGE,
    ),
    "FlowSchema": (
        _NAME,
        Column("PriorityLevel", _at("spec.priorityLevelConfiguration.name")),
        Column("MatchingPrecedence", _number("spec.matchingPrecedence")),
        Column("DistinguisherMethod", _at("spec.distinguisherMethod.type", NONE)),
        _AGE,
        Column("MissingPL", _dangling),
    ),
    "PriorityLevelConfiguration": (
        _NAME,
        Column("Type", _at("spec.type")),
        Column("NominalConcurrencyShares", _number_or_none("spec.limited.nominalConcurrencyShares")),
        *(
            Column(name, _number_or_none(f"spec.limited.limitResponse.queuing.{name[0].lower()}{name[1:]}"))
            for name in ("Queues", "HandSize", "QueueLengthLimit")
        ),
        _AGE,
    ),
    "Scale": (_NAME, _count("Desired", "spec.replicas"), _count("Available", "status.replicas"), _AGE),
    "RuntimeClass": (_NAME, Column("Handler", _at("handler")), _AGE),
    **dict.fromkeys(
        ("Role", "ClusterRole", "CustomResourceDefinition", "LimitRange", "CSIStorageCapacity"),
        (_NAME, Column("Created At", _at("metadata.creationTimestamp"), type="date")),
    ),
    **dict.fromkeys(
        ("RoleBinding", "ClusterRoleBinding"),
        (
            _NAME,
            Column("Role", _named("roleRef")),
            _AGE,
            Column("Users", _subjects("User"), wide=True),
            Column("Groups", _subjects("Group"), wide=True),
            Column("ServiceAccounts", _subjects("ServiceAccount"), wide=True),
        ),
    ),
}
