"""The Pod Security Standards, by pods that break one rule each."""

from typing import Any
from unittest.mock import Mock

import pytest

from beehive.clock import RealClock
from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import key_for, kind_named
from modules.cloud.apiserver.admission.chain import PLUGINS_WITH_TOKENS
from modules.cloud.apiserver.admission.pod_security import (
    BASELINE,
    LABEL,
    PRIVILEGED,
    RESTRICTED,
    VERSION,
    pod_security,
    violations,
)
from modules.cloud.apiserver.api_calls import serve
from modules.cloud.apiserver.built_in_controllers import make_default_accounts
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.system_objects import make_system_objects
from modules.cloud.client.calls import ApiCall

Json = dict[str, Any]

GOOD: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(context: Json | None = None, of_pod: Json | None = None, annotations: Json | None = None, **spec: Any) -> Json:
    """Return a pod that is restricted but for what is said."""
    container = {"name": "c", "image": "i", "securityContext": {**GOOD, **(context or {})}, **spec.pop("container", {})}
    metadata = {"name": "web", "namespace": "shop", "annotations": annotations or {}}
    spec = {"containers": [container], "securityContext": of_pod or {}, **spec}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (pod({"windowsOptions": {"hostProcess": True}}), 'hostProcess (container "c"'),
        (pod(hostNetwork=True, hostPID=True), "host namespaces (hostNetwork=true; hostPID=true)"),
        (pod(hostIPC=True), "host namespaces (hostIPC=true)"),
        (pod({"privileged": True}), 'privileged (container "c" must not set securityContext.privileged=true)'),
        (pod({"capabilities": {"add": ["SYS_ADMIN"], "drop": ["ALL"]}}),
         'capabilities (container "c" must not include'),
        (pod({"capabilities": {"add": ["ALL"], "drop": ["ALL"]}}), '"ALL" in securityContext.capabilities.add'),
        (pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), 'volume "v"'),
        (pod(container={"ports": [{"containerPort": 80, "hostPort": 80}]}),
         'hostPort (container "c" uses hostPort 80)'),
        (pod(annotations={"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}), "forbidden AppArmor"),
        (pod({"appArmorProfile": {"type": "Unconfined"}}), "forbidden AppArmor"),
        (pod(of_pod={"seLinuxOptions": {"type": "spc_t"}}), "seLinuxOptions (pod set forbidden"),
        (pod({"seLinuxOptions": {"user": "u", "role": "r"}}), "seLinuxOptions: user, role"),
        (pod({"procMount": "Unmasked"}), 'procMount (container "c" must not'),
        (pod({"seccompProfile": {"type": "Unconfined"}}), 'seccompProfile (container "c" must not set'),
        (pod(of_pod={"sysctls": [{"name": "kernel/msgmax", "value": "1"}]}), "forbidden sysctls (kernel/msgmax)"),
        (pod(of_pod={"sysctls": [{"name": "net/ipv4/tcp_rmem", "value": "1"}]}), "sysctls (net/ipv4/tcp_rmem)"),
        (pod(initContainers=[{"name": "i", "securityContext": {**GOOD, "privileged": True}}]),
         'privileged (container "i"'),
        (pod(ephemeralContainers=[{"name": "e", "securityContext": {**GOOD, "privileged": True}}]), '(container "e"'),
    ],
)  # fmt: skip
def test_what_no_standard_allows(broken: Json, words: str) -> None:
    for level in (BASELINE, RESTRICTED, "unknown"):
        (found,) = violations(broken, level)
        assert words in found
    assert violations(broken, PRIVILEGED) == []


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (pod(volumes=[{"name": "v", "nfs": {}}]),
         'restricted volume types (volume "v" uses restricted volume type "nfs")'),
        (pod({"allowPrivilegeEscalation": None}), 'allowPrivilegeEscalation != false (container "c" must set'),
        (pod({"capabilities": {"drop": ["NET_RAW"]}}), 'unrestricted capabilities (container "c" must set'),
        (pod({"capabilities": {"add": ["CHOWN"], "drop": ["ALL"]}}),
         'unrestricted capabilities (container "c" must not'),
        (pod({"runAsNonRoot": None}), 'runAsNonRoot != true (pod or container "c" must set'),
        (pod({"runAsNonRoot": False}, {"runAsNonRoot": True}), 'runAsNonRoot != true (container "c" must not set'),
        (pod({"runAsUser": 0}), 'runAsUser=0 (container "c" must not set runAsUser=0)'),
        (pod({"seccompProfile": None}), 'seccompProfile (pod or container "c" must set'),
    ],
)  # fmt: skip
def test_what_only_the_strict_standard_forbids(broken: Json, words: str) -> None:
    assert violations(broken, BASELINE) == []
    (found,) = violations(broken, RESTRICTED)
    assert words in found


@pytest.mark.parametrize(
    "allowed",
    [
        pod(),
        pod({"runAsNonRoot": None, "seccompProfile": None},
            {"runAsNonRoot": True, "seccompProfile": {"type": "Localhost"}}),
        pod(
            of_pod={"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}], "seLinuxOptions": {"type": "container_t"}}
        ),
        pod(volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "c"}, "hostPath": None}]),
        pod(annotations={"container.apparmor.security.beta.kubernetes.io/c": "localhost/own"}),
    ],
)  # fmt: skip
def test_pods_that_every_standard_allows(allowed: Json) -> None:
    assert violations(allowed, RESTRICTED) == []


def test_a_namespace_keeps_its_standard() -> None:
    """When a pod is created, and when it gets an ephemeral container or another AppArmor profile; the token of its
    account is allowed.
    """
    cluster = Cluster(RealClock(), plugins=PLUGINS_WITH_TOKENS)
    make_system_objects(cluster)
    metadata = {"name": "shop", "labels": {LABEL: "restricted"}}
    space = cluster.create({"kind": "Namespace", "apiVersion": "v1", "metadata": metadata})
    make_default_accounts(cluster)
    with pytest.raises(ForbiddenError, match=r'violates PodSecurity "restricted:latest": host namespaces'):
        cluster.create(pod(hostNetwork=True))
    made = cluster.create(pod(nodeName="n1"))
    assert made["spec"]["volumes"]
    debug = {"name": "d", "image": "i", "securityContext": {"privileged": True}}
    call = ApiCall(
        verb="patch",
        api_version="v1",
        plural="pods",
        namespace="shop",
        name="web",
        subresource="ephemeralcontainers",
        patch_type="application/merge-patch+json",
        body={"spec": {"ephemeralContainers": [debug]}},
    )
    refusal = serve(cluster, call).refusal
    assert refusal is not None
    assert (refusal["code"], 'container "d"' in refusal["message"]) == (403, True)
    unconfined = {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}
    with pytest.raises(ForbiddenError, match="forbidden AppArmor profiles"):
        cluster.update({**made, "metadata": {**made["metadata"], "annotations": unconfined}})
    cluster.update({**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}})
    stored = cluster.storage.get(key_for(kind_named("Namespace"), "", "shop"))
    assert stored["metadata"]["uid"] == space["metadata"]["uid"]
    cluster.update({**stored, "metadata": {**stored["metadata"], "labels": {}}})
    assert serve(cluster, call).refusal is None


@pytest.mark.parametrize("level", [BASELINE, RESTRICTED])
@pytest.mark.parametrize("action", ["httpGet", "tcpSocket"])
@pytest.mark.parametrize("field", ["livenessProbe", "readinessProbe", "startupProbe", "postStart", "preStop"])
def test_probes_and_hooks_name_no_host(field: str, action: str, level: str) -> None:
    """The node asks from its own network: a restricted pod's probe switched a device at 127.0.0.1."""

    def naming(host: str | None) -> Json:
        handler = {action: {"port": 80, "host": host}}
        return pod(container={"lifecycle": {field: handler}} if field.startswith("p") else {field: handler})

    (found,) = violations(naming("127.0.0.1"), level)
    assert found == f'probe or lifecycle host (container "c" must not set {field}.{action}.host to "127.0.0.1")'
    assert violations(naming("192.0.2.1"), level, "v1.34")
    assert violations(naming("192.0.2.1"), level, "of no version")
    for unknown in ("v1.033", "v1.", "1.33", "v2.33", "v1.33 "):
        assert violations(naming("192.0.2.1"), level, unknown), "it counts as the latest"
    for version in ("v1.35", "v1.100", "latest"):
        assert violations(naming("192.0.2.1"), level, version)
    assert violations(naming("192.0.2.1"), level, "v1.0") == []
    for allowed in (violations(naming("192.0.2.1"), level, "v1.33"), violations(naming(""), level)):
        assert allowed == []
    assert violations(naming(None), level) == violations(naming("127.0.0.1"), PRIVILEGED) == []


def test_the_version_of_a_namespace_decides_on_hosts() -> None:
    probing = pod(container={"livenessProbe": {"httpGet": {"port": 80, "host": "192.0.2.1"}}})
    for labels, words in (
        ({}, "restricted:latest"),
        ({VERSION: "v1.34"}, "restricted:v1.34"),
        ({VERSION: "v1.33"}, ""),
    ):
        namespace = {"kind": "Namespace", "metadata": {"name": "shop", "labels": {LABEL: RESTRICTED, **labels}}}
        objects = Mock(find=Mock(return_value=namespace))
        if words:
            with pytest.raises(ForbiddenError, match=words):
                pod_security(probing, None, objects)
        else:
            pod_security(probing, None, objects)
