"""Checks of facts: a healthy node, and each problem with its remedy."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from edgehub.certificates.certificate import Certificate
from modules.processes.common.doctor.check_result import Level, failed, lines, ok, unknown, warning
from modules.processes.edgecore.doctor.checks import check_all
from modules.processes.edgecore.doctor.facts import (
    CloudReach,
    Condition,
    Configured,
    DatabaseFile,
    Directory,
    DockerNeeds,
    Facts,
    Identity,
    Kernel,
    Listening,
    MapperSocket,
    OciNeeds,
    PodNetworkNeeds,
    Reach,
    RootlessNeeds,
    Running,
    Runtime,
    Shortage,
)
from modules.processes.edgecore.runtime_kinds import LeftKind, RuntimeKind

NOW = 1795139667.0
DAY = 86400.0
EXPIRED = "the token has expired: at 2026-11-20 01:00:00 UTC"
with_: Any = msgspec.structs.replace

CERTIFICATE = Certificate("system:node:edge-1", "system:nodes", "KubeEdge", NOW - DAY, NOW + 300 * DAY)
LINK = Reach(purpose="link", host="cloud", port=10000, addresses=("10.0.0.1",), answers=True, ahead=0.4)
CERTIFICATES = with_(LINK, purpose="certificates", port=10002)
ROOT = Directory(
    purpose="rootDirectory", path="/var/lib/kubelet", exists=True, writable=True, free=9 << 30, inodes=9 << 20
)
PORT = Listening(purpose="readOnlyPort", address="127.0.0.1", port=10255, taken="by process 7 (python)")
RUNTIME = Runtime(
    endpoint="unix:///run/containerd/containerd.sock",
    version="containerd 1.7",
    conditions=(Condition("RuntimeReady", true=True), Condition("NetworkReady", true=True)),
    cgroup_driver="systemd",
)
HEALTHY = Facts(
    now=NOW,
    configured=Configured(
        source="edgecore.yaml", node="edge-1", runs_container_runtime=False, cgroup_driver="systemd", own_cgroups=True
    ),
    running=Running(pid="7", health="ok", connected=True, tunnel=True, waiting=2),
    directories=(ROOT,),
    ports=(PORT,),
    mappers=MapperSocket(path="/etc/kubeedge/dmi.sock", group="kubeedge"),
    runtime=RUNTIME,
    kernel=Kernel(root=True, cgroups=(2,), conntrack=True, swap=False),
    identity=Identity(certificate=CERTIFICATE),
    cloud=CloudReach(secure=True, link=LINK, certificates=CERTIFICATES),
    database=DatabaseFile(path="/var/lib/kubeedge/edgecore.db", exists=True, size=4 << 20, changed=NOW - 40),
    outbox=DatabaseFile(path="/var/lib/kubeedge/edgecore-outbox.db", exists=True, rows=3),
    damaged=(),
    other_kinds=(),
    lost=0,
    others=(),
)


@dataclass(frozen=True)
class Broken:
    """What is changed on the healthy node, and what must be said of it."""

    change: dict[str, Any]
    check: str
    text: str
    level: Level = Level.FAILED


def of_identity(**changes: Any) -> dict[str, Any]:
    """Another certificate or token."""
    return {"identity": with_(HEALTHY.identity, **changes)}


def of_link(**changes: Any) -> dict[str, Any]:
    """Another way to the cloud."""
    return {"cloud": with_(HEALTHY.cloud, link=with_(LINK, **changes))}


def of_directory(**changes: Any) -> dict[str, Any]:
    """Another directory."""
    return {"directories": (with_(ROOT, **changes),)}


BROKEN = {
    "not running": Broken({"running": Running(), "ports": ()}, "edgecore", "edgecore does not run"),
    "hangs": Broken({"running": Running(pid="7", problem="timed out")}, "edgecore", "cannot be asked: timed out"),
    "refused by the cloud": Broken(
        {"running": Running(pid="7", health="ok", connected=False, link_problem="1008 node n1 is revoked")},
        "link", "not connected to the cloud, 0 messages wait for it: 1008 node n1 is revoked",
    ),
    "another machine with the name": Broken(
        {"running": Running(pid="7", health="ok", connected=True, replaced_at=NOW - 60)},
        "node name", "another machine seems to be node",
    ),
    "not well": Broken({"running": Running(pid="7", health="edged: waiting")}, "edgecore", "not well: edged: waiting"),
    "no tunnel": Broken({"running": with_(HEALTHY.running, tunnel=False)}, "stream tunnel", "there", Level.WARNING),
    "away": Broken({"running": with_(HEALTHY.running, connected=False)}, "link", "not connected to the cloud, 2 mess"),
    "not writable": Broken(of_directory(writable=False), "directory rootDirectory", "cannot be written to"),
    "read-only": Broken(
        of_directory(writable=False, read_only="/var"), "directory rootDirectory", "system /var is mounted read-only"
    ),
    "not even by root": Broken(of_directory(writable=False, by_root=True), "directory rootDirectory", "cannot be"),
    "cannot be made": Broken(of_directory(writable=False, exists=False), "directory rootDirectory", "is missing and"),
    "disk full": Broken(of_directory(free=1 << 20), "directory rootDirectory", "1.0 MiB are free"),
    "disk nearly full": Broken(of_directory(free=1 << 29), "directory rootDirectory", "512.0 MiB", Level.WARNING),
    "no inodes": Broken(of_directory(inodes=3), "directory rootDirectory", "3 inodes are free"),
    "port taken": Broken({"running": Running()}, "port readOnlyPort", "127.0.0.1:10255 is taken: by process 7 ("),
    "port not ours": Broken({"ports": (with_(PORT, taken=""),)}, "port readOnlyPort", "does not listen", Level.WARNING),
    "not root": Broken({"kernel": with_(HEALTHY.kernel, root=False)}, "permissions", "not root"),
    "no cgroups": Broken({"kernel": with_(HEALTHY.kernel, cgroups=())}, "cgroups", "no control groups"),
    "no conntrack": Broken({"kernel": with_(HEALTHY.kernel, conntrack=False)}, "conntrack", "not l", Level.WARNING),
    "swap": Broken({"kernel": with_(HEALTHY.kernel, swap=True)}, "swap", "swap is on", Level.WARNING),
    "no sub-ids": Broken(
        {"rootless": RootlessNeeds(shortages=(Shortage("sub-ids", "eve has none", "usermod --add-subuids"),))},
        "sub-ids",
        "eve has none",
    ),
    "no linger": Broken(
        {"rootless": RootlessNeeds(user="eve", ends_at_log_out=True)},
        "linger",
        "systemd ends containers when eve logs out",
        Level.WARNING,
    ),
    "not delegated": Broken(
        {"rootless": RootlessNeeds(user="eve", unlimited=Shortage("cpu", "systemd delegates it not", "printf"))},
        "cgroups",
        "limits of cpu are not enforced: systemd delegates it not",
        Level.WARNING,
    ),
    "no crun": Broken({"oci": OciNeeds(missing=("crun (or runc)",))}, "programs", "not installed: crun (or runc)"),
    "no mosquitto": Broken({"broker": ""}, "MQTT broker", "mosquitto is not installed"),
    "no overlayfs": Broken({"oci": OciNeeds(overlay=False)}, "overlayfs", "the kernel has no overlayfs", Level.WARNING),
    "old crun": Broken({"oci": OciNeeds(old="crun 1.8 lacks fixes")}, "crun", "crun 1.8 lacks", Level.WARNING),
    "no mappers": Broken(
        {"mappers": MapperSocket(path="/d.sock", problem="none")}, "mappers", "on /d.sock: none", Level.WARNING
    ),
    "not its group": Broken(
        {"mappers": MapperSocket(path="/d.sock", problem="no", denied=True)}, "mappers", "register on", Level.WARNING
    ),
    "dead mapper": Broken(
        {"running": with_(HEALTHY.running, mappers={"boilers": False, "doors": True})},
        "mapper", "boilers has ended: nobody listens on its socket", Level.WARNING,
    ),
    "devices without mapper": Broken(
        {"unserved": {"modbus": [f"ns/d{number}" for number in range(7)]}},
        "devices", "for the protocol modbus, and nobody has reported of ns/d0, ns/d1, ns/d2, ns/d3, ns/d4 and 2 more",
        Level.WARNING,
    ),
    "dead broker": Broken(
        {"running": with_(HEALTHY.running, brokers={"internal": False})},
        "MQTT", "not connected to the internal broker", Level.WARNING,
    ),
    "no docker": Broken({"docker": DockerNeeds(problem="d.sock: no such file")}, "docker", "d.sock: no such file"),
    "docker's cgroup driver": Broken(
        {"docker": DockerNeeds(api="1.41", cgroup_driver="cgroupfs")}, "cgroup driver", "Docker uses cgroupfs, this"
    ),
    "no plug-ins": Broken(
        {"pod_network": PodNetworkNeeds(missing=("iptables", "CNI plug-ins (portmap)"))},
        "pod network", "not installed: iptables, CNI plug-ins (portmap)",
    ),
    "spoilt conflist": Broken(
        {"pod_network": PodNetworkNeeds(problem="1.conflist: no JSON")}, "pod network", "1.conflist: no JSON"
    ),
    "name servers of the machine's own": Broken(
        {"pod_network": PodNetworkNeeds(name_servers=("127.0.0.53",))},
        "names in pods", "only the machine itself reaches its name servers (127.0.0.53)", Level.WARNING,
    ),
    "no forwarding": Broken(
        {"pod_network": PodNetworkNeeds(bridge="cni0", switched_off=("net.ipv4.ip_forward",))},
        "forwarding", "net.ipv4.ip_forward is 0", Level.WARNING,
    ),
    "forwarding dropped": Broken(
        {"pod_network": PodNetworkNeeds(bridge="cni0", dropping=("iptables",))},
        "forwarding", "(iptables) drops forwarded packets, and accepts none of cni0", Level.WARNING,
    ),
    "no runtime": Broken({"runtime": with_(RUNTIME, problem="no such file")}, "runtime", "answer: no such file"),
    "no network": Broken(
        {"runtime": with_(RUNTIME, conditions=(Condition("NetworkReady", true=False, why="cni not initialized"),))},
        "NetworkReady", "false: cni not initialized",
    ),
    "another cgroup driver": Broken(
        {"runtime": with_(RUNTIME, cgroup_driver="cgroupfs")}, "cgroup driver", "uses cgroupfs, this node systemd"
    ),
    "runtime hangs": Broken({"runtime": None}, "runtime", "in time", Level.UNKNOWN),
    "damaged": Broken(
        {"database": with_(HEALTHY.database, problem="file is not a database")}, "database", "file is not a database"
    ),
    "no database": Broken({"database": DatabaseFile(path="/d")}, "database", "/d is not there", Level.WARNING),
    "much waits": Broken({"outbox": with_(HEALTHY.outbox, rows=5000)}, "outbox", "5000 messages", Level.WARNING),
    "damaged outbox": Broken({"outbox": with_(HEALTHY.outbox, problem="malformed")}, "outbox", "malformed"),
    "expired": Broken(
        of_identity(certificate=CERTIFICATE._replace(not_after=NOW - 3 * DAY)), "certificate", "expired at 2026-11-17"
    ),
    "not valid yet": Broken(
        of_identity(certificate=CERTIFICATE._replace(not_before=NOW + DAY)), "certificate", "valid from 2026-11-21"
    ),
    "not renewed": Broken(
        of_identity(certificate=CERTIFICATE._replace(not_before=NOW - 99 * DAY, not_after=NOW + DAY)),
        "certificate", "not renewed", Level.WARNING,
    ),
    "wrong node": Broken(
        of_identity(certificate=CERTIFICATE._replace(common_name="system:node:b")), "certificate", "for system:node:b",
    ),
    "no certificate": Broken(of_identity(certificate=None), "certificate", "there is none, and no token"),
    "expired token": Broken(
        of_identity(certificate=None, has_token=True, token_problem=EXPIRED), "token", "expired"
    ),
    "no PEM": Broken(of_identity(certificate_problem="the file holds no certificate"), "certificate", "holds no cert"),
    "no CA": Broken(of_identity(authority_problem="/ca: No such file"), "CA", "/ca: No such file"),
    "another key": Broken(of_identity(key_problem="the private key is not that"), "key", "the private key is not that"),
    "open key": Broken(of_identity(key_mode=0o622), "key", "others can open it (mode 0622)", Level.WARNING),
    "no name": Broken(of_link(name_problem="Name or service not known"), "cloud, link", "the name cloud cannot be"),
    "no way": Broken(of_link(tcp_problem="Connection refused"), "cloud, link", "(10.0.0.1) cannot be reached: Conn"),
    "no TLS": Broken(of_link(tls_problem="signed by another CA"), "cloud, link", "signed by another CA"),
    "not HTTP": Broken(of_link(answers=False), "cloud, link", "does not answer in HTTP"),
    "another CA": Broken({"cloud": with_(HEALTHY.cloud, other_authority=True)}, "CA", "the cloud has another CA"),
    "clock behind": Broken(
        {"cloud": CloudReach(secure=True, link=with_(LINK, ahead=2 * DAY))},
        "clock",
        "2 days behind: it says 2026-11-20",
    ),
    "clock ahead": Broken(
        {"cloud": CloudReach(secure=True, link=with_(LINK, ahead=-300.0))}, "clock", "5 minutes ahead"
    ),
    "a spoilt file": Broken(
        {"damaged": ("/var/lib/edged/damaged/c.1",)}, "damaged files", "damaged/c.1", Level.WARNING
    ),
    "containers without files": Broken(
        {"lost": 3},
        "lost pods", "processes of pods run on whose files are gone: 3", Level.WARNING,
    ),
    "a runtime that was configured before": Broken(
        {"other_kinds": (LeftKind(RuntimeKind.OCI, "/var/lib/edged/oci", 2),)},
        "other runtimes", "embedded://oci is not configured and has 2 pods in /var/lib/edged/oci", Level.WARNING,
    ),
    "a kubelet": Broken({"others": ("process 9 is a kubelet",)}, "other agents", "process 9", Level.WARNING),
    "keys without effect": Broken(
        {"configured": with_(HEALTHY.configured, without_effect=4)}, "configuration", "4 keys are set", Level.WARNING
    ),
}  # fmt: skip


def test_a_healthy_node_has_nothing_but_ok() -> None:
    """And every part was looked at."""
    results = check_all(HEALTHY)
    assert [each for each in results if each.level is not Level.OK] == []
    assert {"edgecore", "link", "runtime", "database", "certificate", "clock"} <= {each.check for each in results}


@pytest.mark.parametrize("what", BROKEN)
def test_wrong_parts_are_named(what: str) -> None:
    """In its own line, as bad as it is, and with what to do."""
    case = BROKEN[what]
    found = [each for each in check_all(with_(HEALTHY, **case.change)) if each.level is not Level.OK]
    line = next((each for each in found if each.check == case.check and each.level is case.level), None)
    assert line is not None, found
    assert case.text in line.text
    assert line.hint


@pytest.mark.parametrize(
    "part",
    ["running", "directories", "ports", "kernel", "identity", "cloud", "database", "damaged", "other_kinds", "others"],
)
def test_a_late_check_is_unknown_and_no_failure(part: str) -> None:
    """A part that did not come back says so in its line."""
    results = check_all(with_(HEALTHY, **{part: None}))
    assert any(each.level is Level.UNKNOWN for each in results)
    assert not any(each.level is Level.FAILED for each in results if part != "running")


def test_without_tls_there_is_no_check_of_certificates() -> None:
    """A link over `ws://` needs none."""
    facts = with_(HEALTHY, identity=Identity(), cloud=CloudReach(secure=False, link=LINK))
    assert not any(each.check in ("certificate", "CA", "key", "token") for each in check_all(facts))


def test_of_several_cloudcores_an_absent_one_is_a_warning_as_long_as_another_answers() -> None:
    away = with_(LINK, host="b", tcp_problem="refused", answers=False)
    for first, other, level in ((LINK, away, Level.WARNING), (away, LINK, Level.WARNING), (away, away, Level.FAILED)):
        results = check_all(with_(HEALTHY, cloud=CloudReach(secure=False, link=first, backups=(other,))))
        assert {each.level for each in results if "refused" in each.text} == {level}


def test_a_container_runtime_is_not_asked_for_when_edgecore_is_down() -> None:
    """It is edgecore itself; one failure is named, not two."""
    configured = with_(HEALTHY.configured, runs_container_runtime=True)
    facts = with_(
        HEALTHY, configured=configured, running=Running(), ports=(), runtime=with_(RUNTIME, problem="no socket")
    )
    assert [each.check for each in check_all(facts) if each.level is Level.FAILED] == ["edgecore"]


def test_lines_are_signs_on_a_terminal_and_words_elsewhere() -> None:
    """So that a log or a pipe has something to search for."""
    results = [ok("a", "well"), failed("bcd", "ill", "heal"), warning("e", "so", "look"), unknown("f", "?")]
    assert lines(results, terminal=False) == [
        "ok      a    well",
        "FAIL    bcd  ill — heal",
        "warning e    so — look",
        "unknown f    ?",
    ]
    assert ["✔" in each or "✘" in each for each in lines(results, terminal=True)] == [True, True, False, False]
