"""The admission plug-in PodSecurity: pods of a namespace keep the Pod Security Standard in its label
`pod-security.kubernetes.io/enforce`.

Without it, who may create pods in one namespace is root on every node. These are the rules of Kubernetes 1.32
(`k8s.io/pod-security-admission/policy`), whatever version a label names, and 1.34's rule on the hosts of probes and
lifecycle hooks, unless the label `enforce-version` names an earlier one; the labels `warn` and `audit` mean nothing.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, key_for, kind_named
from modules.apimachinery.lister import Lister
from modules.apimachinery.validation.causes import Cause, invalid
from modules.apimachinery.validation.invalid_fields import InvalidFieldsError

_PREFIX: Final = "pod-security.kubernetes.io/"
LABEL: Final = f"{_PREFIX}enforce"
VERSION: Final = f"{_PREFIX}enforce-version"
PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"
_LEVEL: Final = re.compile("privileged|baseline|restricted")
_STANDARD_VERSION: Final = re.compile(r"latest|v1\.(0|[1-9][0-9]{0,17})")
_NO_LEVEL: Final = "must be one of privileged, baseline, restricted"
_NO_VERSION: Final = 'must be "latest" or "v1.x"'
_NAMESPACE: Final = kind_named("Namespace")
_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
_LATEST: Final = "latest"
_HOSTS_SINCE: Final = 34
"""Kubernetes' minor version from which on the standard has a rule on hosts of probes and hooks."""
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS: Final = ("postStart", "preStop")
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"

_CAPABILITIES: Final = frozenset(
    (
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    )
)  # fmt: skip
_SYSCTLS: Final = frozenset(
    (
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
    )
)  # fmt: skip
_SELINUX: Final = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_CONFINED: Final = ("RuntimeDefault", "Localhost")
_VOLUMES: Final = frozenset(
    (
        "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected",
        "secret",
    )
)  # fmt: skip


class _Secured(NamedTuple):
    """A pod or container with its security context."""

    name: str
    """`pod`, or `container "web"`."""
    context: JsonObject


class _Pod(NamedTuple):
    annotations: JsonObject
    spec: JsonObject
    containers: tuple[_Secured, ...]
    raw: tuple[JsonObject, ...]
    """The containers as they are."""
    ports: tuple[tuple[str, int], ...]
    """Names of containers, and the ports of the node that they have."""

    @property
    def all(self) -> tuple[_Secured, ...]:
        """The pod and its containers."""
        return _Secured("pod", self.spec.get("securityContext") or {}), *self.containers


def pod_security(pod: JsonObject, live: JsonObject | None, objects: Lister) -> None:
    """Check that the namespace of a pod allows it.

    Raises:
        ForbiddenError: it violates the namespace's standard.
    """
    if live is not None and _changeable(pod) == _changeable(live):
        return
    namespace = objects.find(key_for(_NAMESPACE, "", str(pod["metadata"].get("namespace") or "default")))
    labels = (namespace or {}).get("metadata", {}).get("labels") or {}
    level, version = str(labels.get(LABEL) or PRIVILEGED), str(labels.get(VERSION) or _LATEST)
    found = violations(pod, level, version)
    if found:
        shown = BASELINE if level == BASELINE else RESTRICTED
        why = f'violates PodSecurity "{shown}:{version}": {", ".join(found)}'
        raise ForbiddenError("pods", str(pod["metadata"].get("name") or ""), why)


def pod_security_labels(namespace: JsonObject, live: JsonObject | None, _objects: Lister) -> None:
    """Check the labels of a namespace that name a standard or a version of it.

    Raises:
        InvalidFieldsError: one names none, and that is new.
    """
    found = _label_causes(namespace)
    if found and (live is None or found != _label_causes(live)):
        raise InvalidFieldsError(_NAMESPACE.name, "", str(namespace["metadata"]["name"]), found)


def _label_causes(namespace: JsonObject) -> list[Cause]:
    labels, found = namespace["metadata"].get("labels") or {}, list[Cause]()
    for mode in ("enforce", "audit", "warn"):
        for name, form, why in ((mode, _LEVEL, _NO_LEVEL), (f"{mode}-version", _STANDARD_VERSION, _NO_VERSION)):
            value = labels.get(_PREFIX + name)
            if value is not None and form.fullmatch(value) is None:
                found.append(invalid(f"metadata.labels[{_PREFIX}{name}]", value, why))
    return found


def _changeable(pod: JsonObject) -> tuple[object, JsonObject]:
    """Return the fields that the standards are about and an update may change."""
    annotations = pod["metadata"].get("annotations") or {}
    profiles = {name: value for name, value in annotations.items() if name.startswith(_APPARMOR)}
    return pod["spec"].get("ephemeralContainers"), profiles


def violations(pod: JsonObject, level: str, version: str = "latest") -> list[str]:
    """Return what a pod violates of a standard.

    Args:
        pod: the pod.
        level: one of an unknown name counts as `restricted`.
        version: of the standard, such as `v1.32`; an unknown one counts as `latest`.
    """
    if level == PRIVILEGED:
        return []
    spec = pod["spec"]
    containers = [each for field in _LISTS for each in spec.get(field) or ()]
    read = _Pod(
        pod["metadata"].get("annotations") or {},
        spec,
        tuple(_Secured(f'container "{each.get("name")}"', each.get("securityContext") or {}) for each in containers),
        tuple(containers),
        tuple(
            (f'container "{each.get("name")}"', port["hostPort"])
            for each in containers
            for port in each.get("ports") or ()
            if port.get("hostPort")
        ),
    )
    rules = _BASELINE
    if level != BASELINE:
        rules = {about: rule for about, rule in _BASELINE.items() if about not in _INCLUDED} | _RESTRICTED
    if not _is_before_hosts(version):
        rules = {**rules, "probe or lifecycle host": _hosts}
    found = ((about, rule(read)) for about, rule in rules.items())
    return [f"{about} ({'; '.join(dict.fromkeys(faults))})" for about, faults in found if faults]


def _host_process(pod: _Pod) -> list[str]:
    of_windows = [each for each in pod.all if (each.context.get("windowsOptions") or {}).get("hostProcess")]
    return [f"{each.name} must not set securityContext.windowsOptions.hostProcess=true" for each in of_windows]


def _host_namespaces(pod: _Pod) -> list[str]:
    return [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name)]


def _privileged(pod: _Pod) -> list[str]:
    found = (each for each in pod.containers if each.context.get("privileged"))
    return [f"{each.name} must not set securityContext.privileged=true" for each in found]


def _capabilities(allowed: Iterable[str]) -> Callable[[_Pod], list[str]]:
    known = frozenset(allowed)

    def rule(pod: _Pod) -> list[str]:
        found = []
        for each in pod.containers:
            odd = [name for name in (each.context.get("capabilities") or {}).get("add") or () if name not in known]
            if odd:
                found.append(f"{each.name} must not include {_quoted(odd)} in securityContext.capabilities.add")
        return found

    return rule


def _host_paths(pod: _Pod) -> list[str]:
    return [f'volume "{each.get("name")}"' for each in pod.spec.get("volumes") or () if each.get("hostPath")]


def _host_ports(pod: _Pod) -> list[str]:
    return [f"{name} uses hostPort {port}" for name, port in pod.ports]


def _hosts(pod: _Pod) -> list[str]:
    """Kubernetes 1.34: the node asks from its own network, where it reaches what the pod does not (KEP-4940)."""
    found = list[str]()
    for each in pod.raw:
        hooks = each.get("lifecycle") or {}
        handlers = {field: each.get(field) for field in _PROBES} | {field: hooks.get(field) for field in _HOOKS}
        found += [
            f'container "{each.get("name")}" must not set {field}.{action}.host to "{host}"'
            for field, handler in handlers.items()
            for action in ("httpGet", "tcpSocket")
            if (host := ((handler or {}).get(action) or {}).get("host"))
        ]
    return found


def _is_before_hosts(version: str) -> bool:
    found = _STANDARD_VERSION.fullmatch(version)
    return found is not None and found[1] is not None and int(found[1]) < _HOSTS_SINCE


def _app_armor(pod: _Pod) -> list[str]:
    found = [
        f'annotation {name}="{value}"'
        for name, value in pod.annotations.items()
        if name.startswith(_APPARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    ]
    for each in pod.all:
        kind = (each.context.get("appArmorProfile") or {}).get("type")
        if kind and kind not in _CONFINED:
            found.append(f'{each.name} must not set AppArmor profile type to "{kind}"')
    return found


def _se_linux(pod: _Pod) -> list[str]:
    found = []
    for each in pod.all:
        options = each.context.get("seLinuxOptions") or {}
        odd = [name for name in ("user", "role") if options.get(name)]
        odd += ["type"] if (options.get("type") or "") not in _SELINUX else []
        if odd:
            found.append(f"{each.name} set forbidden securityContext.seLinuxOptions: {', '.join(odd)}")
    return found


def _proc_mount(pod: _Pod) -> list[str]:
    found = (each for each in pod.containers if (each.context.get("procMount") or "Default") != "Default")
    return [f'{each.name} must not set securityContext.procMount to "{each.context["procMount"]}"' for each in found]


def _seccomp(pod: _Pod) -> list[str]:
    found = ((each, _seccomp_type(each)) for each in pod.all)
    words = "must not set securityContext.seccompProfile.type to"
    return [f'{each.name} {words} "{kind}"' for each, kind in found if kind and kind not in _CONFINED]


def _sysctls(pod: _Pod) -> list[str]:
    sysctls = (pod.spec.get("securityContext") or {}).get("sysctls") or ()
    return [str(each.get("name")) for each in sysctls if each.get("name") not in _SYSCTLS]


def _volumes(pod: _Pod) -> list[str]:
    return [
        f'volume "{volume.get("name")}" uses restricted volume type "{kind}"'
        for volume in pod.spec.get("volumes") or ()
        for kind, source in volume.items()
        if kind != "name" and source is not None and kind not in _VOLUMES
    ]


def _escalation(pod: _Pod) -> list[str]:
    found = (each for each in pod.containers if each.context.get("allowPrivilegeEscalation") is not False)
    return [f"{each.name} must set securityContext.allowPrivilegeEscalation=false" for each in found]


def _dropped(pod: _Pod) -> list[str]:
    given = ((each, (each.context.get("capabilities") or {}).get("drop") or ()) for each in pod.containers)
    lacking = (each for each, dropped in given if "ALL" not in dropped)
    found = [f'{each.name} must set securityContext.capabilities.drop=["ALL"]' for each in lacking]
    return [*found, *_capabilities(("NET_BIND_SERVICE",))(pod)]


def _non_root(pod: _Pod) -> list[str]:
    by_pod = pod.all[0].context.get("runAsNonRoot")
    set_so = (each for each in pod.all if each.context.get("runAsNonRoot") is False)
    found = [f"{each.name} must not set securityContext.runAsNonRoot=false" for each in set_so]
    lacking = (each for each in pod.containers if each.context.get("runAsNonRoot") is None and by_pod is not True)
    return [*found, *(f"pod or {each.name} must set securityContext.runAsNonRoot=true" for each in lacking)]


def _root_user(pod: _Pod) -> list[str]:
    return [f"{each.name} must not set runAsUser=0" for each in pod.all if each.context.get("runAsUser") == 0]


def _has_seccomp(pod: _Pod) -> list[str]:
    lacking = (each for each in pod.containers if not _seccomp_type(each) and not _seccomp_type(pod.all[0]))
    words = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return [*_seccomp(pod), *(f"pod or {each.name} {words}" for each in lacking)]


def _seccomp_type(secured: _Secured) -> str:
    return str((secured.context.get("seccompProfile") or {}).get("type") or "")


def _quoted(words: Sequence[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


_BASELINE: Final[dict[str, Callable[[_Pod], list[str]]]] = {
    "forbidden AppArmor profiles": _app_armor,
    "non-default capabilities": _capabilities(_CAPABILITIES),
    "host namespaces": _host_namespaces,
    "hostPath volumes": _host_paths,
    "hostPort": _host_ports,
    "privileged": _privileged,
    "procMount": _proc_mount,
    "seLinuxOptions": _se_linux,
    "seccompProfile": _seccomp,
    "forbidden sysctls": _sysctls,
    "hostProcess": _host_process,
}
_RESTRICTED: Final[dict[str, Callable[[_Pod], list[str]]]] = {
    "allowPrivilegeEscalation != false": _escalation,
    "unrestricted capabilities": _dropped,
    "restricted volume types": _volumes,
    "runAsNonRoot != true": _non_root,
    "runAsUser=0": _root_user,
    "seccompProfile": _has_seccomp,
}
"""Beside the rules of `baseline`, but for those that they include."""
_INCLUDED: Final = ("non-default capabilities", "hostPath volumes", "seccompProfile")
