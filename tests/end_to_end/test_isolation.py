"""What a container is and what it may do, looked at from inside of it and from the machine.

Each case is a pod; those of one test run beside each other on one node. The embedded runtime isolates nothing, so all
of this is containerd's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edged.cgroups.hierarchies import read_hierarchies
from modules.cloud.apiserver.kinds import JsonObject
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import GREEDY, container, is_ready, phase, pod, state_of, status_of
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import ContainerdUnderTest

pytestmark = pytest.mark.containerd
MIB = 2**20
_STATUS = "grep -E '^(%s):' /proc/self/status | tr -d '\\t' | cut -d: -f2"
_MASKED = (
    "for f in kcore keys timer_list; do [ ! -e /proc/$f ] || [ -c /proc/$f ] || echo $f; done; echo masked;"
    " s=/proc/sys/vm/swappiness; (cat $s > $s) 2>/dev/null || echo read-only"
)
_NAMESPACES = "for n in pid ipc net uts; do readlink /proc/self/ns/$n; done"


@pytest.fixture
def node(containerd: ContainerdUnderTest) -> Iterator[Machine]:
    """A machine on containerd, not started yet."""
    made = Machine(containerd)
    try:
        yield made
    finally:
        made.close()


def once(name: str, script: str, **fields: Any) -> JsonObject:
    """A pod whose one container says something and ends. `security`, `resources` are its container's."""
    own = {"securityContext": fields.pop("security", {}), "resources": fields.pop("resources", {})}
    return pod(name, container(script, **own), restartPolicy="Never", **fields)


def said(machine: Machine, *pods: JsonObject) -> dict[str, list[str]]:
    """What the pods print, which run at the same time, by their names; each must succeed."""
    machine.cloud.apply(*pods)
    lines = {}
    for each in pods:
        name = each["metadata"]["name"]
        ended = machine.cloud.pods.wait(name, lambda obj: phase(obj) in ("Succeeded", "Failed"))
        assert phase(ended) == "Succeeded", (name, status_of(ended), machine.edge.lines(ended))
        lines[name] = machine.edge.lines(ended)
    return lines


def _host(kind: str) -> str:
    return str(Path(f"/proc/self/ns/{kind}").readlink())


def test_users_privileges_and_files(node: Machine) -> None:
    """securityContext of pod and container, as a process finds it."""
    node.start()
    groups = {"runAsUser": 1000, "runAsGroup": 2000, "supplementalGroups": [3000], "fsGroup": 4000}
    drop = {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}
    lines = said(
        node,
        once("user", "id -u; id -g; id -G", securityContext=groups),
        once("own-user", "id -u; id -g", security={"runAsUser": 7}, securityContext=groups),
        once("caps", _STATUS % "CapEff", security=drop),
        once("stuck", _STATUS % "NoNewPrivs", security={"allowPrivilegeEscalation": False}),
        once("filtered", _STATUS % "Seccomp", securityContext={"seccompProfile": {"type": "RuntimeDefault"}}),
        once("plain", f"{_STATUS % 'NoNewPrivs|Seccomp'}; touch /x && echo wrote; {_MASKED}"),
        once("read-only", "touch /x 2>/dev/null || echo refused", security={"readOnlyRootFilesystem": True}),
        once(
            "privileged",
            _STATUS % "CapEff",
            security={"privileged": True},
        ),
    )
    assert lines == {
        "user": ["1000", "2000", "2000 3000 4000"],
        "own-user": ["7", "2000"],
        "caps": ["0000000000000400"],
        "stuck": ["1"],
        "filtered": ["2"],
        "plain": ["0", "0", "wrote", "masked", "read-only"],
        "read-only": ["refused"],
        "privileged": [_capabilities()],
    }


def test_namespaces_names_and_network(node: Machine) -> None:
    """What a pod shares with the machine and its containers with each other; its names, hosts, DNS and sysctls."""
    node.start()
    dns = {"nameservers": ["192.0.2.53"], "searches": ["a.test"], "options": [{"name": "ndots", "value": "2"}]}
    aliases = [{"ip": "192.0.2.9", "hostnames": ["one.test", "two.test"]}]
    port = {"sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}]}
    together = pod("together", *(container("readlink /proc/self/ns/pid", n) for n in "ab"), restartPolicy="Never")
    together["spec"]["shareProcessNamespace"] = True
    lines = said(
        node,
        once("own", _NAMESPACES),
        once("host", _NAMESPACES, hostPID=True, hostIPC=True, hostNetwork=True),
        once("named", "hostname; hostname -f", hostname="web", subdomain="sub", setHostnameAsFQDN=True),
        once("aliased", "grep two.test /etc/hosts", hostAliases=aliases),
        once("host-aliased", "grep -c -E 'localhost|two.test' /etc/hosts", hostAliases=aliases, hostNetwork=True),
        once("resolver", "cat /etc/resolv.conf", dnsPolicy="None", dnsConfig=dns),
        once("port", "cat /proc/sys/net/ipv4/ip_unprivileged_port_start", securityContext=port),
    )
    theirs = [_host(kind) for kind in ("pid", "ipc", "net", "uts")]
    assert lines["host"][:3] == theirs[:3]
    assert not set(lines["own"]) & set(theirs)
    assert lines["named"] == ["web.sub.default.svc.cluster.local"] * 2
    assert lines["aliased"] == ["192.0.2.9\tone.test\ttwo.test"]
    assert int(lines["host-aliased"][0]) >= 2
    assert lines["resolver"] == ["search a.test", "nameserver 192.0.2.53", "options ndots:2"]
    assert lines["port"] == ["80"]
    node.cloud.apply(together)
    ended = node.cloud.pods.wait("together", lambda obj: phase(obj) == "Succeeded")
    assert node.edge.lines(ended, "a") == node.edge.lines(ended, "b") != []


def test_what_a_node_refuses(node: Machine) -> None:
    """Each says why: root where the pod forbids it, a runtime that nobody has, a parameter of the whole machine."""
    node.start()
    node.cloud.apply(
        once("root", "true", securityContext={"runAsNonRoot": True}),
        once("class", "true", runtimeClassName="unheard-of"),
        once("sysctl", "true", securityContext={"sysctls": [{"name": "vm.swappiness", "value": "1"}]}),
    )
    root = node.cloud.pods.wait("root", lambda obj: bool(state_of(obj, "waiting").get("message")))
    assert state_of(root, "waiting")["reason"] == "CreateContainerConfigError"
    assert "runAsNonRoot" in state_of(root, "waiting")["message"]
    node.cloud.pods.wait("class", lambda obj: "unheard-of" in state_of(obj, "waiting").get("message", ""))
    sysctl = node.cloud.pods.wait("sysctl", lambda obj: phase(obj) == "Failed")
    assert sysctl["status"]["reason"] == "SysctlForbidden"


def _capabilities() -> str:
    """All that this machine's root may do."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in status if line.startswith("CapEff:"))


def _cgroup(machine: Machine, path: str) -> list[Path]:
    """A cgroup's directories, in each hierarchy."""
    where = f"{machine.edge.cgroup_root}/kubepods/{path}".strip("/")
    found = read_hierarchies(Path("/proc/self/mountinfo").read_text())
    return [each.mount / where for each in found if (each.mount / where).is_dir()]


def _first(directories: list[Path], *files: str) -> str:
    return next(text for d in directories for f in files if (d / f).exists() for text in [(d / f).read_text().strip()])


def test_control_groups_limits_and_what_happens_beyond_them(node: Machine) -> None:
    """Each pod is in the cgroup of its class, with its limits; one that takes more memory is killed and says so;
    nothing of them is left when the pods have gone, also of one that was deleted while edgecore was not there.
    """
    node.edge.kubelet["pod_pids_limit"] = 64
    node.start()
    quick: dict[str, Any] = {"terminationGracePeriodSeconds": 1}
    both = {"cpu": "100m", "memory": "32Mi"}
    score = "cat /proc/self/oom_score_adj; exec sleep 600"
    greedy = once("greedy", GREEDY, resources={"limits": {"memory": "16Mi"}})
    node.cloud.apply(
        greedy,
        pod("guaranteed", container(score, resources={"limits": both}), **quick),
        pod("burstable", container(score, resources={"requests": {"cpu": "250m", "memory": "32Mi"}}), **quick),
        pod("besteffort", container(score), **quick),
    )
    made = {name: node.cloud.pods.wait(name, is_ready) for name in ("guaranteed", "burstable", "besteffort")}
    uids = {name: str(obj["metadata"]["uid"]) for name, obj in made.items()}
    where = {
        "guaranteed": f"pod{uids['guaranteed']}",
        "burstable": f"burstable/pod{uids['burstable']}",
        "besteffort": f"besteffort/pod{uids['besteffort']}",
    }
    groups = {name: _cgroup(node, path) for name, path in where.items()}
    assert _first(groups["guaranteed"], "memory.limit_in_bytes", "memory.max") == str(32 * MIB)
    assert _first(groups["guaranteed"], "cpu.cfs_quota_us", "cpu.max").split()[0] == "10000"
    assert {_first(group, "pids.max") for group in groups.values()} == {"64"}
    assert _first(groups["burstable"], "cpu.shares", "cpu.weight") in ("256", "10")
    assert _first(_cgroup(node, "burstable"), "cpu.shares", "cpu.weight") in ("256", "10")
    assert _first(groups["besteffort"], "cpu.shares", "cpu.weight") in ("2", "1")
    inside = {name: sum(1 for d in group for _ in d.iterdir() if _.is_dir()) for name, group in groups.items()}
    assert all(inside.values()), f"the runtime's own cgroups are below the pods': {inside}"
    wait_until(lambda: all(node.edge.lines(obj) for obj in made.values()), "each has said its score")
    scores = {name: int(node.edge.lines(obj)[0]) for name, obj in made.items()}
    assert scores["guaranteed"] <= scores["burstable"] < scores["besteffort"] == 1000
    assert {status["status"]["qosClass"] for status in made.values()} == {"Guaranteed", "Burstable", "BestEffort"}
    ended = node.cloud.pods.wait("greedy", lambda obj: phase(obj) == "Failed")
    terminated = status_of(ended)["state"]["terminated"]
    assert (terminated["reason"], terminated["exitCode"]) == ("OOMKilled", 137)
    uid = str(ended["metadata"]["uid"])
    wait_until(lambda: not _cgroup(node, f"burstable/pod{uid}"), "a pod that has ended has no cgroup")
    node.edge.kill()
    node.cloud.delete("Pod", "guaranteed", grace=0)
    for name in ("burstable", "besteffort"):
        node.cloud.delete("Pod", name)
    node.start_edge()
    for name in where:
        node.cloud.pods.wait_gone(name)
    wait_until(lambda: not any(_cgroup(node, path) for path in where.values()), "the cgroups are removed")
