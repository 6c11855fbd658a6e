"""What a container is, as it finds itself, and what it shares with the machine and with others."""

from pathlib import Path

import pytest

from tests.end_to_end.crowd.crowd import Crowd, once, wants
from tests.end_to_end.pods import state_of

_STATUS = "grep -E '^(%s):' /proc/self/status | tr -d '\\t' | cut -d: -f2"
_MASKED = (
    "for f in kcore keys timer_list; do [ ! -e /proc/$f ] || [ -c /proc/$f ] || echo $f; done; echo masked;"
    " s=/proc/sys/vm/swappiness; (cat $s > $s) 2>/dev/null || echo read-only"
)
_NAMESPACES = "for n in pid ipc net uts; do readlink /proc/self/ns/$n; done"


def _host(kind: str) -> str:
    return str(Path(f"/proc/self/ns/{kind}").readlink())


def _capabilities() -> str:
    """All that this machine's root may do."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in status if line.startswith("CapEff:"))


_GROUPS = {"runAsUser": 1000, "runAsGroup": 2000, "supplementalGroups": [3000], "fsGroup": 4000}
_ONE_CAPABILITY = {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}


@wants(
    once("isolation-user", "id -u; id -g; id -G", securityContext=_GROUPS),
    once("isolation-own-user", "id -u; id -g", security={"runAsUser": 7}, securityContext=_GROUPS),
    once("isolation-capability", _STATUS % "CapEff", security=_ONE_CAPABILITY),
    once("isolation-stuck", _STATUS % "NoNewPrivs", security={"allowPrivilegeEscalation": False}),
    once("isolation-filtered", _STATUS % "Seccomp", securityContext={"seccompProfile": {"type": "RuntimeDefault"}}),
    once("isolation-plain", f"{_STATUS % 'NoNewPrivs|Seccomp'}; touch /x && echo wrote; {_MASKED}"),
    once("isolation-privileged", _STATUS % "CapEff", security={"privileged": True}),
)
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("isolation-user", ["1000", "2000", "2000 3000 4000"]),
        ("isolation-own-user", ["7", "2000"]),
        ("isolation-capability", ["0000000000000400"]),
        ("isolation-stuck", ["1"]),
        ("isolation-filtered", ["2"]),
        ("isolation-plain", ["0", "0", "wrote", "masked", "read-only"]),
        ("isolation-privileged", [_capabilities()]),
    ],
)
def test_users_and_privileges(crowd: Crowd, name: str, lines: list[str]) -> None:
    """securityContext of pod and container, as a process finds it."""
    assert crowd.said(name) == lines


@wants(
    once("isolation-own", _NAMESPACES),
    once("isolation-host", _NAMESPACES, hostPID=True, hostIPC=True, hostNetwork=True),
)
def test_namespaces_are_the_pods_unless_it_asks_for_the_machines(crowd: Crowd) -> None:
    theirs = [_host(kind) for kind in ("pid", "ipc", "net", "uts")]
    assert crowd.said("isolation-host")[:3] == theirs[:3]
    assert not set(crowd.said("isolation-own")) & set(theirs)


_ALIASES = [{"ip": "192.0.2.9", "hostnames": ["one.test", "two.test"]}]
_DNS = {"nameservers": ["192.0.2.53"], "searches": ["a.test"], "options": [{"name": "ndots", "value": "2"}]}
_PORT = {"sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}]}


@wants(
    once("isolation-named", "hostname; hostname -f", hostname="web", subdomain="sub", setHostnameAsFQDN=True),
    once("isolation-aliased", "grep two.test /etc/hosts", hostAliases=_ALIASES),
    once("isolation-resolver", "cat /etc/resolv.conf", dnsPolicy="None", dnsConfig=_DNS),
    once("isolation-port", "cat /proc/sys/net/ipv4/ip_unprivileged_port_start", securityContext=_PORT),
)
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("isolation-named", ["web.sub.default.svc.cluster.local"] * 2),
        ("isolation-aliased", ["192.0.2.9\tone.test\ttwo.test"]),
        ("isolation-resolver", ["search a.test", "nameserver 192.0.2.53", "options ndots:2"]),
        ("isolation-port", ["80"]),
    ],
)
def test_names_and_network(crowd: Crowd, name: str, lines: list[str]) -> None:
    """Hosts, DNS and sysctls of a pod."""
    assert crowd.said(name) == lines


@wants(
    once("isolation-host-aliased", "grep -c -E 'localhost|two.test' /etc/hosts", hostAliases=_ALIASES, hostNetwork=True)
)
def test_aliases_of_a_pod_on_the_machines_network_are_beside_the_machines_own(crowd: Crowd) -> None:
    assert int(crowd.said("isolation-host-aliased")[0]) >= 2


@wants(once("isolation-root", "true", securityContext={"runAsNonRoot": True}))
def test_root_is_refused_where_the_pod_forbids_it(crowd: Crowd) -> None:
    root = crowd.wait("isolation-root", lambda obj: bool(state_of(obj, "waiting").get("message")))
    assert state_of(root, "waiting")["reason"] == "CreateContainerConfigError"
    assert "runAsNonRoot" in state_of(root, "waiting")["message"]


@wants(once("isolation-sysctl", "true", securityContext={"sysctls": [{"name": "vm.swappiness", "value": "1"}]}))
def test_a_parameter_of_the_whole_machine_is_refused(crowd: Crowd) -> None:
    assert crowd.failed("isolation-sysctl")[0] == "SysctlForbidden"
