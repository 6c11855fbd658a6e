"""Objects that a kube-apiserver 1.32 refuses, by what is wrong with them: code, field, and its words."""

from base64 import b64encode
from typing import Any

import pytest

from modules.apimachinery.api_errors import ApiError
from modules.cloud.apiserver.cluster import Cluster
from tests.modules.cloud.objects import SIGNING_REQUEST, configmap, pod, service

Json = dict[str, Any]


def container(**fields: Any) -> Json:
    """Return a pod whose only container has other fields."""
    return pod(containers=[{"name": "main", "image": "busybox", **fields}])


def volume(**fields: Any) -> Json:
    """Return a pod with a volume."""
    return pod(volumes=[{"name": "data", **fields}])


def meta(**fields: Any) -> Json:
    """Return a configmap with other metadata."""
    return {**configmap(), "metadata": {"name": "settings", **fields}}


def of(kind: str, version: str = "v1", **fields: Any) -> Json:
    """Return an object."""
    return {"kind": kind, "apiVersion": version, "metadata": {"name": "x"}, **fields}


_NETWORKING = "networking.k8s.io/v1"
_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io/v1"
_LEVEL: Json = {"priorityLevelConfiguration": {"name": "a"}}
_ROUTE = ".rules[0].http.paths[0]"
_ASKED = "rules[0].nonResourceRules[0]"
_PORTED, _BLOCKED = "ingress[0].ports[0]", "egress[0].to[0].ipBlock"
_QUEUING = "limited.limitResponse.queuing"


def backend(**port: Any) -> Json:
    """Return a Service behind an Ingress."""
    return {"service": {"name": "a", "port": port}}


def routed(**path: Any) -> Json:
    """Return the spec of an Ingress with one path."""
    whole = {"pathType": "Prefix", "path": "/", "backend": backend(number=80), **path}
    return {"rules": [{"http": {"paths": [{name: value for name, value in whole.items() if value is not None}]}}]}


def placed(**parameters: Any) -> Json:
    """Return the spec of an IngressClass with parameters."""
    return {"controller": "a.b/c", "parameters": {"kind": "a", "name": "b", **parameters}}


def ported(**port: Any) -> Json:
    """Return the spec of a NetworkPolicy with one port."""
    return {"ingress": [{"ports": [port]}]}


def blocked(*networks: str) -> Json:
    """Return the spec of a NetworkPolicy with one network, without those that follow."""
    return {"egress": [{"to": [{"ipBlock": {"cidr": "".join(networks[:1]), "except": [*networks[1:]]}}]}]}


def scaled(**spec: Any) -> Json:
    """Return the spec of a HorizontalPodAutoscaler."""
    return {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "a"}, **spec}


def measured(kind: str, member: str = "", **fields: Any) -> Json:
    """Return the same with one metric, whose target is fine unless it is given."""
    place = member or f"{kind[:1].lower()}{kind[1:]}"
    of = {"metric": {"name": "m"}, "name": "cpu", "container": "c", "describedObject": {"kind": "a", "name": "b"}}
    target = {"target": {"type": "AverageValue", "averageValue": "1"}}
    return scaled(metrics=[{"type": kind, place: {**of, **target, **fields}}])


def changing(**rules: Any) -> Json:
    """Return the same with a behaviour."""
    return scaled(behavior={"scaleUp": rules})


def ruled(**rule: Any) -> Json:
    """Return a part of a FlowSchema's spec: one rule."""
    subjects = [{"kind": "Group", "group": {"name": "a"}}]
    given = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
    return {"rules": [{"subjects": subjects, "nonResourceRules": given, **rule}]}


def asked(**rule: Any) -> Json:
    """Return the same with one rule of URLs."""
    return ruled(nonResourceRules=[{"verbs": ["get"], "nonResourceURLs": ["/a/*"], **rule}])


def limited(**limit: Any) -> Json:
    """Return the spec of a PriorityLevelConfiguration with a limit."""
    return {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}, **limit}}


def queued(**queuing: Any) -> Json:
    """Return the same with queues."""
    return limited(limitResponse={"type": "Queue", "queuing": queuing})


def serving(**spec: Any) -> Json:
    """Return a Service with another spec."""
    return {**service(), "spec": {**service()["spec"], **spec}}


def claim(**spec: Any) -> Json:
    """Return a PersistentVolumeClaim."""
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return of("PersistentVolumeClaim", spec=whole)


def affinity(operator: str) -> Json:
    """Return a pod with a required node affinity."""
    terms = [{"matchExpressions": [{"key": "a", "operator": operator, "values": ["b"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return pod(affinity={"nodeAffinity": required})


def deployment(**spec: Any) -> Json:
    """Return a Deployment."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    whole = {"selector": {"matchLabels": {"app": "x"}}, "template": template, **spec}
    return of("Deployment", "apps/v1", spec=whole)


def job(**spec: Any) -> Json:
    """Return a Job."""
    pods = {"containers": [{"name": "a", "image": "b"}], "restartPolicy": "Never"}
    return of("Job", "batch/v1", spec={"template": {"metadata": {"labels": {"app": "x"}}, "spec": pods}, **spec})


def signing(**spec: Any) -> Json:
    """Return a certificate request."""
    whole = {"request": SIGNING_REQUEST, "signerName": "example.com/own", "usages": ["client auth"], **spec}
    return of("CertificateSigningRequest", "certificates.k8s.io/v1", spec=whole)


_PODS: Json = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
_PLACES = "allowedTopologies[0].matchLabelExpressions"


def stateful(**spec: Any) -> Json:
    """Return a StatefulSet."""
    return of("StatefulSet", "apps/v1", spec={"selector": {"matchLabels": {"app": "x"}}, "template": _PODS, **spec})


def topology(*expressions: Json) -> Json:
    """Return a StorageClass with allowed topologies."""
    terms = [{"matchLabelExpressions": list(expressions)}]
    return of("StorageClass", "storage.k8s.io/v1", provisioner="a.b/c", allowedTopologies=terms)


def zoned(*names: str) -> Json:
    """Return an EndpointSlice with hints."""
    endpoint = {"addresses": ["192.0.2.1"], "hints": {"forZones": [{"name": name} for name in names]}}
    return of("EndpointSlice", "discovery.k8s.io/v1", addressType="IPv4", endpoints=[endpoint])


def cron(schedule: str, **spec: Any) -> Json:
    """Return a CronJob."""
    template = {"spec": {"template": {"spec": {**_PODS["spec"], "restartPolicy": "Never"}}}}
    return of("CronJob", "batch/v1", spec={"schedule": schedule, "jobTemplate": template, **spec})


_OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o"}
_C = "spec.containers[0]"
_TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
ROWS: list[tuple[str, Json, str, str]] = [
    ("a label's key with a space", meta(labels={"a b": "c"}), "metadata.labels", "name part must consist of"),
    ("a label of 64 characters", meta(labels={"a": "b" * 64}), "metadata.labels", "must be no more than 63"),
    ("a label with a slash at its end", meta(labels={"a/": "b"}), "metadata.labels", "name part must be non-empty"),
    ("an annotation's key with a space", meta(annotations={"a b": "c"}), "metadata.annotations", "must consist of"),
    ("a finalizer with a space", meta(finalizers=["a b"]), "metadata.finalizers", "must consist of"),
    ("a finalizer without a domain", meta(finalizers=["ab"]), "metadata.finalizers[0]", "fully qualified"),
    ("an owner without a uid", meta(ownerReferences=[_OWNER]), "metadata.ownerReferences.uid", "must not be empty"),
    ("a name with a capital", {**configmap(), "metadata": {"name": "A"}}, "metadata.name", "RFC 1123 subdomain"),
    ("a name of 254 characters", {**configmap(), "metadata": {"name": "a" * 254}}, "metadata.name", "no more than 253"),
    ("a namespace with a dot", {**of("Namespace"), "metadata": {"name": "a.b"}}, "metadata.name",
     "must not contain dots"),
    ("no containers", pod(containers=[]), "spec.containers", "Required value"),
    ("two containers of a name", pod(containers=[{"name": "a", "image": "b"}] * 2), "spec.containers[1].name", "Dupl"),
    ("a container without an image", pod(containers=[{"name": "a"}]), f"{_C}.image", "Required value"),
    ("a container's name with a capital", container(name="A"), f"{_C}.name", "RFC 1123 label"),
    ("a request above its limit", container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
     f"{_C}.resources.requests", "must be less than or equal to cpu limit of 1"),
    ("a negative request", container(resources={"requests": {"cpu": "-1"}}), f"{_C}.resources.requests[cpu]",
     "greater"),
    ("a resource of no name", container(resources={"limits": {"spoons": "1"}}), f"{_C}.resources.limits[spoons]",
     "must"),
    ("a probe of nothing", container(livenessProbe={}), f"{_C}.livenessProbe", "must specify a handler type"),
    ("a probe with a negative delay", container(livenessProbe={"exec": {"command": ["a"]}, "initialDelaySeconds": -1}),
     f"{_C}.livenessProbe.initialDelaySeconds", "greater than or equal to 0"),
    ("a liveness probe that wants two successes",
     container(livenessProbe={"exec": {"command": ["a"]}, "successThreshold": 2}),
     f"{_C}.livenessProbe.successThreshold", "must be 1"),
    ("port 99999", container(ports=[{"containerPort": 99999}]), f"{_C}.ports[0].containerPort", "between 1 and 65535"),
    ("an unknown protocol", container(ports=[{"containerPort": 1, "protocol": "X"}]), f"{_C}.ports[0].protocol",
     "Unsup"),
    ("an unknown pull policy", container(imagePullPolicy="Often"), f"{_C}.imagePullPolicy", "Unsupported value"),
    ("an unknown restart policy", pod(restartPolicy="Often"), "spec.restartPolicy", "Unsupported value"),
    ("an unknown DNS policy", pod(dnsPolicy="Often"), "spec.dnsPolicy", "Unsupported value"),
    ("DNS policy None without servers", pod(dnsPolicy="None"), "spec.dnsConfig", "must provide"),
    ("an unknown operator of a toleration", pod(tolerations=[{"key": "a", "operator": "X"}]),
     "spec.tolerations[0].operator", "Unsup"),
    ("a toleration of all with a value", pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
     "spec.tolerations[0].operator", "value must be empty"),
    ("an unknown operator of an affinity", affinity("X"), f"{_TERMS}[0].matchExpressions[0].operator",
     "not a valid selector operator"),
    (
        "a sub path that climbs",
        pod(
            volumes=[{"name": "d", "emptyDir": {}}],
            containers=[
                {"name": "a", "image": "b", "volumeMounts": [{"name": "d", "mountPath": "/d", "subPath": "../e"}]}
            ],
        ),
        f"{_C}.volumeMounts.subPath",
        "must not contain '..'",
    ),
    ("a mount of no volume", container(volumeMounts=[{"name": "d", "mountPath": "/d"}]), f"{_C}.volumeMounts[0].name",
     "Not found"),
    ("a volume with two sources", volume(emptyDir={}, hostPath={"path": "/x"}), "spec.volumes[0].hostPath",
     "may not specify more than 1 volume type"),
    ("a hostPath that climbs", volume(hostPath={"path": "/a/../b"}), "spec.volumes[0].hostPath.path",
     "must not contain '..'"),
    ("a deadline of zero", pod(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds", "between 1 and"),
    ("a variable with a value and a source",
     container(env=[{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
     f"{_C}.env[0].valueFrom", "may not be specified when `value` is not empty"),
    ("a variable without a name", container(env=[{"name": "", "value": "b"}]), f"{_C}.env[0].name", "Required value"),
    ("debug containers in a new pod", pod(ephemeralContainers=[{"name": "d", "image": "b"}]),
     "spec.ephemeralContainers", "cannot be set on create"),
    ("a sysctl of no form", pod(securityContext={"sysctls": [{"name": "foo-", "value": "1"}]}),
     "spec.securityContext.sysctls[0].name", "must have at most 253 characters and match regex"),
    ("a node and a scheduling gate", pod(schedulingGates=[{"name": "a.b/c"}]), "spec.nodeName",
     "cannot be set until all schedulingGates have been cleared"),
    ("a service without ports", serving(ports=[]), "spec.ports", "Required value"),
    ("a service of an unknown type", serving(type="Nonsense"), "spec.type", "Unsupported value"),
    ("a service at port 0", serving(ports=[{"port": 0}]), "spec.ports[0].port", "between 1 and 65535"),
    ("a service's name with a digit first", {**service(), "metadata": {"name": "1a"}}, "metadata.name",
     "DNS-1035 label"),
    ("two ports without names", serving(ports=[{"port": 1}, {"port": 2}]), "spec.ports[0].name", "Required value"),
    ("a claim of an unknown mode", claim(accessModes=["W"]), "spec.accessModes", "Unsupported value"),
    ("a claim without storage", claim(resources={}), "spec.resources[storage]", "Required value"),
    ("a volume without a source",
     of("PersistentVolume", spec={"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}), "spec",
     "must specify a volume type"),
    ("a TLS secret without keys", of("Secret", type="kubernetes.io/tls"), "data[tls.crt]", "Required value"),
    ("a configmap's key with a slash", {**configmap(), "data": {"a/b": "c"}}, "data[a/b]",
     "a valid config key must consist of"),
    ("a taint of an unknown effect", {**of("Node"), "spec": {"taints": [{"key": "a", "effect": "X"}]}},
     "metadata.taints[0].effect", "Unsupported value"),
    ("a selector that misses its template", deployment(selector={"matchLabels": {"app": "y"}}),
     "spec.template.metadata.labels", "`selector` does not match template `labels`"),
    ("a negative number of replicas", deployment(replicas=-1), "spec.replicas", "greater than or equal to 0"),
    ("a quota of nothing", of("ResourceQuota", spec={"hard": {"speed": "1"}}), "spec.hard[speed]",
     "must be a standard resource for quota"),
    ("a quota of half a pod", of("ResourceQuota", spec={"hard": {"pods": "500m"}}), "spec.hard[pods]",
     "must be an integer"),
    ("a quota of opposite pods",
     of("ResourceQuota", spec={"hard": {"pods": "1"}, "scopes": ["Terminating", "NotTerminating"]}), "spec.scopes",
     "conflicting scopes"),
    ("a quota of pods by their amounts, for those that have none",
     of("ResourceQuota", spec={"hard": {"requests.cpu": "1"}, "scopes": ["BestEffort"]}), "spec.scopes",
     "unsupported scope applied to resource"),
    (
        "a quota of pods of no class",
        of(
            "ResourceQuota",
            spec={
                "hard": {"pods": "1"},
                "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]},
            },
        ),
        "spec.scopeSelector.matchExpressions.values",
        "must be at least one value",
    ),
    (
        "a quota of pods without an end, by a name",
        of(
            "ResourceQuota",
            spec={
                "hard": {"pods": "1"},
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "NotTerminating", "operator": "In", "values": ["a"]}]
                },
            },
        ),
        "spec.scopeSelector.matchExpressions.operator",
        "must be 'Exist' when scope is any of",
    ),
    *(
        (f"a LimitRange with {what}", of("LimitRange", spec={"limits": limits}), f"spec.limits{path}", why)
        for what, limits, path, why in (
            ("no type", [{}], "[0].type", "name part must be non-empty"),
            ("an unknown type", [{"type": "Node"}], "[0].type", "must be a standard limit type or fully qualified"),
            ("a type twice", [{"type": "Pod"}, {"type": "Pod"}], "[1].type", 'Duplicate value: "Pod"'),
            ("storage of containers", [{"type": "Container", "min": {"storage": "1"}}], "[0].min[storage]",
             "must be a standard resource for containers"),
            ("defaults of pods", [{"type": "Pod", "default": {"cpu": "1"}}], "[0].default",
             "may not be specified when `type` is 'Pod'"),
            ("nothing for claims", [{"type": "PersistentVolumeClaim", "max": {"cpu": "1"}}], "[0].limits",
             "either minimum or maximum storage value is required, but neither was provided"),
            ("too large a minimum", [{"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "0.5"}}], "[0].min[cpu]",
             "min value 2 is greater than max value 500m"),
            ("a default below its minimum", [{"type": "Container", "min": {"cpu": "2"}, "default": {"cpu": "1"}}],
             "[0].default[cpu]", 'Invalid value: "2": min value 2 is greater than default value 1'),
            ("too small a ratio", [{"type": "Pod", "maxLimitRequestRatio": {"cpu": "0.5"}}],
             "[0].maxLimitRequestRatio[cpu]", "ratio 500m is less than 1"),
            ("a ratio that cannot be",
             [{"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "4"}}],
             "[0].maxLimitRequestRatio[cpu]", "ratio 4 is greater than max/min = 2.000000"),
            ("a request below the limit of what cannot be shared",
             [{"type": "Container", "default": {"a.b/c": "2"}, "defaultRequest": {"a.b/c": "1"}}],
             "[0].defaultRequest[a.b/c]", "default value 2 must equal to defaultRequest value 1 in a.b/c"),
        )
    ),
    ("a priority class of the system's",
     {**of("PriorityClass", "scheduling.k8s.io/v1", value=1), "metadata": {"name": "system-mine"}}, "metadata.name",
     "reserved for system use only"),
    ("a binding without a role",
     of("ClusterRoleBinding", "rbac.authorization.k8s.io/v1", roleRef={"kind": "ClusterRole"}), "roleRef.name",
     "Required value"),
    (
        "a namespace of an unknown security level",
        {**of("Namespace"), "metadata": {"name": "x", "labels": {"pod-security.kubernetes.io/warn": "loud"}}},
        "metadata.labels[pod-security.kubernetes.io/warn]",
        'Invalid value: "loud": must be one of privileged, baseline, restricted',
    ),
    ("a namespace of an unknown security version",
     {**of("Namespace"), "metadata": {"name": "x", "labels": {"pod-security.kubernetes.io/enforce-version": "1"}}},
     "metadata.labels[pod-security.kubernetes.io/enforce-version]", 'must be "latest" or "v1.x"'),
    ("a Job with a selector", job(selector={"matchLabels": {"app": "x"}}), "spec.selector", "not auto-generated"),
    ("a Job without the selector that it wants to set", job(manualSelector=True), "spec.selector", "Required value"),
    ("a Job whose own selector misses its template", job(manualSelector=True, selector={"matchLabels": {"app": "y"}}),
     "spec.template.metadata.labels", "`selector` does not match template `labels`"),
    ("a signing request that is not in PEM", signing(request="cmVxdWVzdA=="), "spec.request", "PEM block type must be"),
    ("a signing request with a certificate",
     signing(request=b64encode(b"-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n").decode()),
     "spec.request", "PEM block type must be CERTIFICATE REQUEST"),
    ("a signing request for nothing", signing(usages=[]), "spec.usages", "Required value"),
    ("an unknown usage", signing(usages=["fun"]), "spec.usages[0]", '"fun": supported values: "any", "cert sign", '),
    ("a usage twice", signing(usages=["any", "any"]), "spec.usages[1]", "Duplicate value"),
    ("a signer of the old days", signing(signerName="kubernetes.io/legacy-unknown"), "spec.signerName", "not allowed"),
    ("a signer without a path", signing(signerName="example.com"), "spec.signerName", "must be a fully qualified"),
    ("a signer without a domain", signing(signerName="a/b"), "spec.signerName", "should be a domain with at least two"),
    ("a signer with a capital", signing(signerName="A.b/c"), "spec.signerName", 'validating label "A": a lowercase'),
    ("a signer with a bad path", signing(signerName="a.b/C"), "spec.signerName", 'validating label "C": a lowercase'),
    ("a certificate for a moment", signing(expirationSeconds=599), "spec.expirationSeconds",
     "may not specify a duration less than 600 seconds (10 minutes)"),
    ("a StatefulSet that may lose its claims", stateful(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Lose"}),
     "spec.persistentVolumeClaimRetentionPolicy.whenDeleted",
     'Unsupported value: "Lose": supported values: "Retain", "Delete"'),
    ("a StatefulSet with a deadline",
     stateful(template={**_PODS, "spec": {**_PODS["spec"], "activeDeadlineSeconds": 5}}),
     "spec.template.spec.activeDeadlineSeconds", "activeDeadlineSeconds in StatefulSet is not Supported"),
    ("a StatefulSet whose pods end", stateful(template={**_PODS, "spec": {**_PODS["spec"], "restartPolicy": "Never"}}),
     "spec.template.spec.restartPolicy", 'Unsupported value: "Never": supported values: "Always"'),
    ("a StatefulSet of an unknown order", stateful(podManagementPolicy="Wild"), "spec.podManagementPolicy",
     "must be 'OrderedReady' or 'Parallel'"),
    ("a StatefulSet of an unknown strategy", stateful(updateStrategy={"type": "Blue"}), "spec.updateStrategy",
     "must be 'RollingUpdate' or 'OnDelete'"),
    ("a StatefulSet that rolls by hand",
     stateful(updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
     "spec.updateStrategy.rollingUpdate", "only allowed for updateStrategy 'RollingUpdate'"),
    ("a topology without values", topology({"key": "a"}), f"{_PLACES}[0].values", "Required value"),
    ("a topology twice", topology({"key": "a", "values": ["b", "b"]}), f"{_PLACES}[0].values[1]", "Duplicate value"),
    ("a topology with a bad key", topology({"key": "a b", "values": ["b"]}), f"{_PLACES}[0].key", "name part must"),
    ("a topology with a key twice", topology({"key": "a", "values": ["b"]}, {"key": "a", "values": ["c"]}),
     f"{_PLACES}[1].key", 'Duplicate value: "a"'),
    ("two topologies alike",
     {**topology(), "allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}] * 2},
     "allowedTopologies[1].matchLabelExpressions", "Duplicate value"),
    ("a load balancer of a bad class", serving(type="LoadBalancer", loadBalancerClass="a b"), "spec.loadBalancerClass",
     "name part must consist of"),
    ("a zone twice", zoned("a", "a"), "endpoints[0].hints.forZones[1].name", 'Duplicate value: "a"'),
    ("a zone with a space", zoned("a b"), "endpoints[0].hints.forZones[0].name", "a valid label must be"),
    ("nine zones", zoned(*"abcdefghi"), "endpoints[0].hints.forZones", "Too many: 9: must have at most 8 items"),
    ("a RuntimeClass with an overhead of no name",
     of("RuntimeClass", "node.k8s.io/v1", handler="a", overhead={"podFixed": {"spoons": "1"}}),
     "overhead.limits[spoons]", "must be a standard resource for containers"),
    ("a pod with an overhead of no name", pod(overhead={"spoons": "1"}), "spec.overhead.limits[spoons]", "standard"),
    ("a CronJob's long name", {**cron("@hourly"), "metadata": {"name": "x" * 53}}, "metadata.name",
     "must be no more than 52 characters"),
    ("too few fields of a schedule", cron("1 2 3"), "spec.schedule", "expected exactly 5 fields, found 3: [1 2 3]"),
    ("a minute too late", cron("60 * * * *"), "spec.schedule", "end of range (60) above maximum (59): 60"),
    ("a day too early", cron("0 0 0 * *"), "spec.schedule", "beginning of range (0) below minimum (1): 0"),
    ("a range backwards", cron("0 5-3 * * *"), "spec.schedule", "beginning of range (5) beyond end of range (3): 5-3"),
    ("no step", cron("*/0 * * * *"), "spec.schedule", "step of range should be a positive number: */0"),
    ("two hyphens", cron("1-2-3 * * * *"), "spec.schedule", "too many hyphens: 1-2-3"),
    ("two slashes", cron("1/2/3 * * * *"), "spec.schedule", "too many slashes: 1/2/3"),
    ("a word in a schedule", cron("soon * * * *"), "spec.schedule",
     'failed to parse int from soon: strconv.Atoi: parsing "soon": invalid syntax'),
    ("an unknown descriptor", cron("@never"), "spec.schedule", "unrecognized descriptor: @never"),
    ("a time zone of the server", cron("@daily", timeZone="Local"), "spec.timeZone", "must be an explicit time zone"),
    ("an empty time zone", cron("@daily", timeZone=""), "spec.timeZone", "must be nil or non-empty string"),
    ("a budget's name with a slash", {**of("PodDisruptionBudget", "policy/v1"), "metadata": {"name": "a/b"}},
     "metadata.name", "may not contain '/'"),
    *(
        (f"an Ingress with {what}", of("Ingress", _NETWORKING, spec=spec), f"spec{path}", why)
        for what, spec, path, why in (
            ("nothing", {}, "", "either `defaultBackend` or `rules` must be specified"),
            ("two ports", {"defaultBackend": backend(name="a", number=1)}, ".defaultBackend", "both port name"),
            ("no port", {"defaultBackend": backend()}, ".defaultBackend", "port name or number is required"),
            ("a port's long name", {"defaultBackend": backend(name="x" * 16)}, ".defaultBackend.service.port.name",
             "no more than 15"),
            ("a number of no port", {"defaultBackend": backend(number=70000)}, ".defaultBackend.service.port.number",
             "between 1 and 65535"),
            ("no service", {"defaultBackend": {}}, ".defaultBackend", "resource or service backend is required"),
            ("two backends", {"defaultBackend": {**backend(number=1), "resource": {"kind": "a", "name": "b"}}},
             ".defaultBackend", "cannot set both resource and service"),
            ("a resource of no name", {"defaultBackend": {"resource": {"kind": "a"}}}, ".defaultBackend.resource.name",
             "name is required"),
            ("an address", {"rules": [{"host": "10.0.0.1"}]}, ".rules[0].host", "not an IP address"),
            ("a star", {"rules": [{"host": "a.*.b"}]}, ".rules[0].host", "must start with '*.'"),
            ("no path", {"rules": [{"http": {"paths": []}}]}, ".rules[0].http.paths", "Required value"),
            ("no type of a path", routed(pathType=None), f"{_ROUTE}.pathType", "pathType must be specified"),
            ("a type of no path", routed(pathType="Regex"), f"{_ROUTE}.pathType", "Unsupported value"),
            ("a relative path", routed(path="a"), f"{_ROUTE}.path", "must be an absolute path"),
            ("no path text", routed(path=""), f"{_ROUTE}.path", "must be an absolute path"),
            ("a step back", routed(path="/a/../b"), f"{_ROUTE}.path", "must not contain '/../'"),
            ("a step back at the end", routed(path="/a/.."), f"{_ROUTE}.path", "cannot end with '/..'"),
            ("a host of TLS", {"rules": [{}], "tls": [{"hosts": ["A"]}]}, ".tls[0].hosts[0]", "RFC 1123"),
            ("a secret of no name", {"rules": [{}], "tls": [{"secretName": "A"}]}, ".tls[0].secretName", "RFC 1123"),
            ("a class of no name", {"rules": [{}], "ingressClassName": ""}, ".ingressClassName", "RFC 1123"),
        )
    ),
    (
        "an Ingress of two classes",
        {
            **of("Ingress", _NETWORKING, spec={"rules": [{}], "ingressClassName": "a"}),
            "metadata": {"name": "x", "annotations": {"kubernetes.io/ingress.class": "b"}},
        },
        "annotations.kubernetes.io/ingress.class",
        "must match `ingressClassName`",
    ),
    *(
        (f"an IngressClass with {what}", of("IngressClass", _NETWORKING, spec=spec), f"spec.{path}", why)
        for what, spec, path, why in (
            ("no controller", {}, "controller", "Required value"),
            ("a plain controller", {"controller": "a"}, "controller", "must be a domain-prefixed path"),
            ("a controller of no domain", {"controller": "A/b"}, "controller", "RFC 1123"),
            ("a controller's space", {"controller": "a.b/c d"}, "controller", "Invalid path"),
            ("a long controller", {"controller": f"a.b/{'c' * 250}"}, "controller", "may not be more than 250"),
            ("parameters nowhere", placed(scope="Namespace"), "parameters.namespace", "is set to 'Namespace'"),
            ("parameters somewhere", placed(namespace="a"), "parameters.namespace", "is set to 'Cluster'"),
            ("parameters of no name", placed(scope="Namespace", namespace="A"), "parameters.namespace", "RFC 1123"),
            ("parameters everywhere", placed(scope="All"), "parameters.scope", "Unsupported value"),
        )
    ),
    *(
        (f"a NetworkPolicy with {what}", of("NetworkPolicy", _NETWORKING, spec=spec), f"spec.{path}", why)
        for what, spec, path, why in (
            ("a selector", {"podSelector": {"matchLabels": {"a b": "c"}}}, "podSelector.matchLabels", "name part"),
            ("a port of no protocol", ported(protocol="ICMP"), f"{_PORTED}.protocol",
             'Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"'),
            ("a number of no port", ported(port=0), f"{_PORTED}.port", "must be between 1 and 65535"),
            ("a port's long name", ported(port="x" * 16), f"{_PORTED}.port", "no more than 15"),
            ("a range backwards", ported(port=2, endPort=1), f"{_PORTED}.endPort",
             "Invalid value: 2: must be greater than or equal to `port`"),
            ("a range too long", ported(port=2, endPort=65536), f"{_PORTED}.endPort", "between 1 and 65535"),
            ("a range from a name", ported(port="a", endPort=1), f"{_PORTED}.endPort", "`port` is non-numeric"),
            ("a range from nowhere", ported(endPort=1), f"{_PORTED}.endPort", "`port` is not specified"),
            ("nobody", {"ingress": [{"from": [{}]}]}, "ingress[0].from[0]", "Required value: must specify a peer"),
            ("pods of a network", {"egress": [{"to": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
             "egress[0].to[0]", "Forbidden: may not specify both ipBlock and another peer"),
            ("a peer of no label", {"egress": [{"to": [{"namespaceSelector": {"matchLabels": {"a": "-"}}}]}]},
             "egress[0].to[0].namespaceSelector.matchLabels", "a valid label must"),
            ("no network", blocked(), f"{_BLOCKED}.cidr", "Required value"),
            ("an address", blocked("10.0.0.1"), f"{_BLOCKED}.cidr", "must be a valid CIDR value"),
            ("an exception of no network", blocked("10.0.0.0/8", "10.1.0.0"), f"{_BLOCKED}.except[0]", "valid CIDR"),
            *(
                (f"the exception {part}", blocked("10.0.0.0/8", part), f"{_BLOCKED}.except[0]", "a strict subset")
                for part in ("10.0.0.0/8", "11.0.0.0/16", "fd00::/64")
            ),
            ("a third type", {"policyTypes": ["Ingress", "Egress", "Ingress"]}, "policyTypes", "more than two"),
            ("a type of no policy", {"policyTypes": ["Both"]}, "policyTypes[0]", "Unsupported value"),
        )
    ),
    *(
        (f"a HorizontalPodAutoscaler with {what}", of("HorizontalPodAutoscaler", "autoscaling/v2", spec=spec),
         f"spec.{path}", why)
        for what, spec, path, why in (
            ("no maximum", scaled(maxReplicas=0), "maxReplicas", "Invalid value: 0: must be greater than 0"),
            ("no minimum", scaled(minReplicas=0), "minReplicas", "must be greater than or equal to 1"),
            ("no pods to measure", scaled(minReplicas=0), "metrics", "at least one Object or External metric"),
            ("a minimum above", scaled(minReplicas=4), "maxReplicas", "greater than or equal to `minReplicas`"),
            ("no target", scaled(scaleTargetRef={}), "scaleTargetRef.kind", "Required value"),
            ("a target of no name", scaled(scaleTargetRef={"kind": "a"}), "scaleTargetRef.name", "Required value"),
            ("a target of a path", scaled(scaleTargetRef={"kind": "a/b"}), "scaleTargetRef.kind", "may not contain"),
            ("a metric of no type", measured("", "pods"), "metrics[0].type", "must specify a metric source type"),
            ("a metric of a type", measured("Luck", "pods"), "metrics[0].type",
             'supported values: "ContainerResource", "External", "Object", "Pods", "Resource"'),
            ("another metric", measured("Resource", "pods"), "metrics[0].resource", "must populate information"),
            ("two metrics in one", scaled(metrics=[{"type": "Pods", "pods": {}, "object": {}}]), "metrics[0].object",
             "Forbidden: must populate the given metric source only"),
            ("a metric of no name", measured("Pods", metric={}), "metrics[0].pods.metric.name", "a metric name"),
            ("no type of a target", measured("Pods", target={}), "metrics[0].pods.target.type", "metric target type"),
            ("a type of no target", measured("Pods", target={"type": "A"}), "metrics[0].pods.target.type",
             "must be either Utilization, Value, or AverageValue"),
            ("no average", measured("Pods", target={"type": "Value", "value": "1"}),
             "metrics[0].pods.target.averageValue", "must specify a positive target averageValue"),
            ("no amount", measured("Pods", target={"type": "Value", "averageValue": "0"}),
             "metrics[0].pods.target.averageValue", "must be positive"),
            ("nothing of an object", measured("Object", target={"type": "Value"}),
             "metrics[0].object.target.averageValue", "must set either a target value or averageValue"),
            ("an object of no kind", measured("Object", describedObject={"name": "a"}),
             "metrics[0].object.describedObject.kind", "Required value"),
            ("two targets", measured("External", target={"type": "Value", "value": "1", "averageValue": "1"}),
             "metrics[0].external.target.value", "may not set both a target value"),
            ("a resource of no name", measured("Resource", name=""), "metrics[0].resource.name", "a resource name"),
            ("two usages", measured("Resource", target={
                "type": "Utilization", "averageUtilization": 1, "averageValue": "1"}),
             "metrics[0].resource.target.averageValue", "may not set both a target raw value"),
            ("no usage", measured("Resource", target={"type": "Utilization", "averageUtilization": 0}),
             "metrics[0].resource.target.averageUtilization", "must be greater than 0"),
            ("a container of no name", measured("ContainerResource", container="A"),
             "metrics[0].containerResource.container", "RFC 1123 label"),
            ("no container", measured("ContainerResource", container=""),
             "metrics[0].containerResource.container", "must specify a container"),
            ("a resource of no container", measured("ContainerResource", name="pods"),
             "metrics[0].containerResource.name", "must be a standard resource for containers"),
            ("a long window", changing(stabilizationWindowSeconds=3601),
             "behavior.scaleUp.stabilizationWindowSeconds", "must be less than or equal to 3600"),
            ("a window before", changing(stabilizationWindowSeconds=-1),
             "behavior.scaleUp.stabilizationWindowSeconds", "must be greater than or equal to zero"),
            ("a choice by luck", changing(selectPolicy="Any"), "behavior.scaleUp.selectPolicy",
             'supported values: "Disabled", "Max", "Min"'),
            ("no policies", changing(policies=[]), "behavior.scaleUp.policies", "must specify at least one Policy"),
            ("a policy of no type", changing(policies=[{}]), "behavior.scaleUp.policies[0].type",
             'supported values: "Percent", "Pods"'),
            ("a policy of nothing", changing(policies=[{}]), "behavior.scaleUp.policies[0].value", "greater than zero"),
            ("a policy of no time", changing(policies=[{}]), "behavior.scaleUp.policies[0].periodSeconds",
             "greater than zero"),
            ("a policy of a long time", changing(policies=[{"periodSeconds": 1801}]),
             "behavior.scaleUp.policies[0].periodSeconds", "must be less than or equal to 1800"),
        )
    ),
    *(
        (f"a FlowSchema with {what}", of("FlowSchema", _FLOW_CONTROL, spec={**_LEVEL, **spec}), f"spec.{path}", why)
        for what, spec, path, why in (
            ("no level", {"priorityLevelConfiguration": {}}, "priorityLevelConfiguration.name", "must reference"),
            ("a precedence of exempt", {"matchingPrecedence": 1}, "matchingPrecedence", "only the schema named"),
            ("a precedence below", {"matchingPrecedence": -1}, "matchingPrecedence", "must be a positive value"),
            ("a precedence above", {"matchingPrecedence": 10001}, "matchingPrecedence", "not be greater than 10000"),
            ("a method", {"distinguisherMethod": {"type": "ByLuck"}}, "distinguisherMethod.type", "Unsupported"),
            ("nobody", ruled(subjects=[]), "rules[0].subjects", "must contain at least one value"),
            ("nothing", ruled(nonResourceRules=[]), "rules[0]", "has to be non-empty"),
            ("a robot", ruled(subjects=[{"kind": "Robot"}]), "rules[0].subjects[0].kind", "Unsupported value"),
            ("a user unnamed", ruled(subjects=[{"kind": "User"}]), "rules[0].subjects[0].user", "user is required"),
            ("a user's group", ruled(subjects=[{"kind": "User", "user": {"name": "a"}, "group": {"name": "b"}}]),
             "rules[0].subjects[0].group", "group is forbidden"),
            ("an account nowhere", ruled(subjects=[{"kind": "ServiceAccount", "serviceAccount": {"name": "*"}}]),
             "rules[0].subjects[0].serviceAccount.namespace", "must specify namespace"),
            ("a verb", asked(verbs=["look"]), f"{_ASKED}.verbs", "Unsupported value"),
            ("verbs beside all", asked(verbs=["*", "get"]), f"{_ASKED}.verbs", "must not specify other verbs"),
            ("no URL", asked(nonResourceURLs=[]), f"{_ASKED}.nonResourceURLs", "at least one value"),
            ("a URL's star", asked(nonResourceURLs=["/a*"]), f"{_ASKED}.nonResourceURLs[0]", "suffix matching"),
            ("a URL without slash", asked(nonResourceURLs=["a"]), f"{_ASKED}.nonResourceURLs[0]", "start with slash"),
            ("no namespace", ruled(resourceRules=[{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
             "rules[0].resourceRules[0].namespaces", "must supply at least one namespace"),
        )
    ),
    *(
        (
            f"a PriorityLevelConfiguration with {what}",
            of("PriorityLevelConfiguration", _FLOW_CONTROL, spec=spec),
            f"spec.{path}",
            why,
        )
        for what, spec, path, why in (
            ("no type", {}, "type", "Unsupported value"),
            ("a type of another", {"type": "Exempt"}, "type", "if and only if name is 'exempt'"),
            ("no limit", {"type": "Limited"}, "limited", "must not be empty when type is Limited"),
            ("shares below", limited(nominalConcurrencyShares=-1), "limited.nominalConcurrencyShares", "non-negative"),
            ("a percentage above", limited(lendablePercent=101), "limited.lendablePercent", "between 0 and 100"),
            ("a response", limited(limitResponse={"type": "Shout"}), "limited.limitResponse.type", "Unsupported"),
            ("no queue", limited(limitResponse={"type": "Queue"}), "limited.limitResponse.queuing",
             "must not be empty"),
            ("a queue of none", limited(limitResponse={"type": "Reject", "queuing": {}}),
             "limited.limitResponse.queuing", "must be nil"),
            ("a hand too large", queued(queues=4, handSize=5), f"{_QUEUING}.handSize",
             "not be greater than queues (4)"),
            ("a hand of many bits", queued(queues=64, handSize=11), f"{_QUEUING}.handSize", "required entropy bits"),
            ("too many queues", queued(queues=10**7 + 1), f"{_QUEUING}.queues", "must not be greater than"),
            ("no length", queued(queueLengthLimit=-1), f"{_QUEUING}.queueLengthLimit", "must be positive"),
        )
    ),
    ("a hostname with a dot", pod(hostname="a.b"), "spec.hostname", "must not contain dots"),
]  # fmt: skip
"""What is wrong, the object, the field, and a part of the message."""


@pytest.mark.parametrize(
    "obj",
    [
        {**signing(), "metadata": {"name": "Carol's_1"}},
        {**of("PodDisruptionBudget", "policy/v1", spec={"minAvailable": 1}), "metadata": {"name": "Web_1"}},
        {**of("Event"), "metadata": {"name": "Web_1"}},
        {**cron("0 0 31 2 *"), "metadata": {"name": "a.b"}},
        cron("*/1,+5 * ? jan MON-FRI"),
    ],
    ids=["name of a signing request", "name of a budget", "name of an event", "no such day", "a schedule"],
)
def test_it_is_taken(cluster: Cluster, obj: Json) -> None:
    assert cluster.create(obj)["metadata"]["name"] == obj["metadata"]["name"]


@pytest.mark.parametrize(("obj", "field", "words"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_it_is_refused_with_its_field(cluster: Cluster, obj: Json, field: str, words: str) -> None:
    before = len(list(cluster.storage))
    with pytest.raises(ApiError) as refused:
        cluster.create(obj)
    told = [(cause["field"], cause["message"]) for cause in refused.value.details["causes"]]
    assert refused.value.code == 422
    assert any(where == field and words in message for where, message in told), told
    assert len(list(cluster.storage)) == before
