"""CNI configurations, results, capabilities, sysctls and resolv.conf as text and values."""

import fcntl
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from beehive.clock import RealClock
from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.engine.records import PodAddresses
from modules.runtimes.oci.network import announcements, sysctls
from modules.runtimes.oci.network.attachment import Attachment, write_attachment
from modules.runtimes.oci.network.capabilities import (
    EGRESS,
    INGRESS,
    capability_arguments,
    has_nothing_to_do,
    runtime_config,
)
from modules.runtimes.oci.network.configuration import MOST_BYTES, parse_configuration, read_configuration
from modules.runtimes.oci.network.errors import NetworkConfigurationError, PodNamespaceError
from modules.runtimes.oci.network.pause import process as pause
from modules.runtimes.oci.network.pod_network import PodNetwork
from modules.runtimes.oci.network.results import addresses_of
from modules.runtimes.oci.network.rule_watch import AttachedSandbox
from modules.runtimes.oci.network.sysctls import interface_sysctls
from modules.runtimes.oci.sandbox_files import resolv_conf
from modules.runtimes.oci.users import give_to_root
from protos.cri.v1 import api_pb2 as cri


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_a_single_plugin_is_a_list_of_one() -> None:
    """A `.conf` file of the time before lists."""
    network = parse_configuration(encoded({"cniVersion": "0.3.1", "name": "one", "type": "bridge", "mtu": 1400}))
    assert (network.name, network.cni_version) == ("one", "0.3.1")
    assert [plugin["type"] for plugin in network.plugins] == ["bridge"]
    assert network.plugins[0]["mtu"] == 1400


def test_the_latest_version_that_is_spoken_is_taken() -> None:
    """Of `cniVersions`, which CNI 1.1 has brought."""
    plugins = [{"type": "bridge"}]
    text = encoded({"cniVersion": "0.4.0", "cniVersions": ["0.4.0", "1.0.0", "9.0.0"], "name": "n", "plugins": plugins})
    network = parse_configuration(text)
    assert network.cni_version == "1.0.0"
    assert network.at_least("0.4.0")
    assert not network.at_least("1.1.0")


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"{", b'{"name": 1}', b"\xff", b'{"plugins":' + b"[" * 100_000,
        encoded({"name": "n", "plugins": []}),
        encoded({"name": "n", "plugins": [{"type": "x"}] * 33}),
        encoded({"name": "n", "plugins": ["x"]}),
        encoded({"name": "n", "plugins": [{"type": "../../bin/sh"}]}),
        encoded({"name": "n", "plugins": [{"type": 7}]}),
        encoded({"name": "n", "plugins": [{"type": "x", "capabilities": []}]}),
        encoded({"name": "../n", "plugins": [{"type": "x"}]}),
        encoded({"cniVersion": "7.0.0", "name": "n", "plugins": [{"type": "x"}]}),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(content: bytes) -> None:
    """No program outside of the directories, no unknown version, nothing nested without end."""
    with pytest.raises(ValueError, match=r"."):
        parse_configuration(content)


def test_a_long_file_is_refused(tmp_path: Path) -> None:
    """The error names the file and says what to do."""
    path = tmp_path / "10-x.conflist"
    path.write_bytes(b" " * (MOST_BYTES + 1))
    with pytest.raises(NetworkConfigurationError, match=r"10-x\.conflist.*mend or remove the file"):
        read_configuration(path)


@pytest.mark.parametrize(
    ("result", "addresses"),
    [
        ({"ip4": {"ip": "10.1.0.5/24"}, "ip6": {"ip": "fd00::5/64"}}, PodAddresses("10.1.0.5", ("fd00::5",))),
        ({"ips": [{"version": "4", "address": "10.1.0.5/24"}]}, PodAddresses("10.1.0.5")),
        (
            {
                "interfaces": [{"name": "br0"}, {"name": "eth0", "sandbox": "/run/ns/x"}],
                "ips": [
                    {"address": "10.1.0.1/24", "interface": 0},
                    {"address": "fd00::5/64", "interface": 1},
                    {"address": "10.1.0.5/24", "interface": 1, "gateway": "10.1.0.1"},
                ],
                "routes": [{"dst": "0.0.0.0/0"}],
                "dns": {},
            },
            PodAddresses("10.1.0.5", ("fd00::5",)),
        ),
    ],
)
def test_results_of_all_versions_have_addresses(result: dict[str, Any], addresses: PodAddresses) -> None:
    """Those at the pod's interface, IPv4 first."""
    assert addresses_of(result) == addresses


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"ips": 7},
        {"ips": [{"address": "here"}]},
        {"ips": [{"address": "10.0.0.1/24", "interface": 5}], "interfaces": [{"sandbox": "x"}]},
        {"ips": [{"address": "10.0.0.1/24"}] * 65},
    ],
)
def test_a_result_without_addresses_is_refused(result: dict[str, Any]) -> None:
    """And one with too many, or without readable ones."""
    with pytest.raises(ValueError, match=r"."):
        addresses_of(result)


def config() -> cri.PodSandboxConfig:
    """A pod that asks for everything."""
    return cri.PodSandboxConfig(
        dns_config=cri.DNSConfig(servers=["10.0.0.10"], searches=["svc"]),
        port_mappings=[
            cri.PortMapping(container_port=80, host_port=8080),
            cri.PortMapping(container_port=53, host_port=53, protocol=cri.UDP, host_ip="127.0.0.1"),
            cri.PortMapping(container_port=90),
        ],
        annotations={INGRESS: "10M", EGRESS: "1Mi"},
        linux=cri.LinuxPodSandboxConfig(cgroup_parent="/kubepods/podx"),
    )


def test_capabilities_of_plugins_have_the_pods_settings() -> None:
    """Ports without a port of the machine are left out; quantities are bits per second."""
    values = capability_arguments(config(), ["10.1.0.0/24"])
    assert values["portMappings"] == [
        {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
        {"hostPort": 53, "containerPort": 53, "protocol": "udp", "hostIP": "127.0.0.1"},
    ]
    assert values["bandwidth"]["ingressRate"] == 10_000_000
    assert values["bandwidth"]["egressRate"] == 1 << 20
    assert values["dns"] == {"servers": ["10.0.0.10"], "searches": ["svc"], "options": []}
    assert values["ipRanges"] == [[{"subnet": "10.1.0.0/24"}]]
    assert values["cgroupPath"] == "/kubepods/podx"
    assert capability_arguments(cri.PodSandboxConfig()) == {}


def test_a_plugin_gets_its_declared_capabilities() -> None:
    """And nothing else; a plug-in that could only pass the result on is left out."""
    values = capability_arguments(config())
    portmap = {"type": "portmap", "capabilities": {"portMappings": True, "dns": False}}
    assert list(runtime_config(portmap, values)) == ["portMappings"]
    assert not has_nothing_to_do(portmap, values)
    assert has_nothing_to_do(portmap, {})
    assert has_nothing_to_do({"type": "bandwidth"}, {})
    assert not has_nothing_to_do({"type": "bandwidth", "ingressRate": 1000}, {})
    assert not has_nothing_to_do({"type": "firewall"}, {})


@pytest.mark.parametrize(
    ("port", "words"),
    [
        (cri.PortMapping(host_port=80), "0 is no port"),
        (cri.PortMapping(container_port=-1, host_port=80), "-1 is no port"),
        (cri.PortMapping(container_port=80, host_port=65536), "65536 is no port"),
        (cri.PortMapping(container_port=80, host_port=80, host_ip="here"), "'here' is no IP address"),
    ],
)
def test_an_impossible_host_port_is_refused(port: cri.PortMapping, words: str) -> None:
    """Before portmap refuses it, which it would at each attempt to detach the pod, too."""
    with pytest.raises(BadRequestError, match=words):
        capability_arguments(cri.PodSandboxConfig(port_mappings=[port]))


@pytest.mark.parametrize("text", ["", "fast", "-1M", "10", "2P", "1e99", "1" * 100, "1M\n"])
def test_an_invalid_bandwidth_is_refused(text: str) -> None:
    """Less than a kilobit or more than a petabit, as a kubelet refuses them; an empty text means no limit."""
    asked = cri.PodSandboxConfig(annotations={INGRESS: text})
    if not text:
        assert "bandwidth" not in capability_arguments(asked)
        return
    with pytest.raises(BadRequestError, match="ingress-bandwidth"):
        capability_arguments(asked)


def test_sysctls_of_the_interface_wait_for_it() -> None:
    """In both spellings."""
    sysctls = {"net.ipv4.conf.eth0.arp_ignore": "1", "net/ipv6/conf/eth0/mtu": "1400", "net.core.somaxconn": "9"}
    assert sorted(interface_sysctls(sysctls)) == ["net.ipv4.conf.eth0.arp_ignore", "net/ipv6/conf/eth0/mtu"]


def test_resolv_conf_is_the_pods_or_the_machines(tmp_path: Path) -> None:
    """The address of systemd-resolved, which a pod does not reach, gives way to the servers behind it."""
    asked = cri.DNSConfig(servers=["10.10.10.10"], searches=["google.com", "a.b"], options=["ndots:8"])
    assert resolv_conf(asked) == "search google.com a.b\nnameserver 10.10.10.10\noptions ndots:8\n"
    machine, upstream = tmp_path / "resolv.conf", tmp_path / "upstream"
    assert resolv_conf(None, machine, upstream) == ""
    machine.write_text("nameserver 9.9.9.9\n")
    upstream.write_text("nameserver 192.0.2.1\n")
    assert resolv_conf(cri.DNSConfig(), machine, upstream) == "nameserver 9.9.9.9\n"
    machine.write_text("# stub\nnameserver 127.0.0.53\noptions edns0\n")
    assert resolv_conf(None, machine, upstream) == "nameserver 192.0.2.1\n"
    assert "127.0.0.53" in resolv_conf(None, machine, upstream, is_own=False), "a pod of the machine's network"
    upstream.write_text("nameserver ::1\n")
    assert resolv_conf(None, machine, upstream) == "# stub\noptions edns0\n"
    machine.write_text("nameserver 127.0.0.1\nnameserver 9.9.9.9\nsearch lan\n")
    assert resolv_conf(None, machine, upstream) == "nameserver 9.9.9.9\nsearch lan\n"


@pytest.mark.parametrize("word", ["a b", "x\nnameserver 6.6.6.6", ""])
def test_a_word_of_resolv_conf_is_one_word(word: str) -> None:
    """Nothing makes another line."""
    with pytest.raises(BadRequestError, match=r"resolv\.conf"):
        resolv_conf(cri.DNSConfig(searches=[word]))


def _network(directory: Path) -> PodNetwork:
    return PodNetwork(directory, (), RealClock())


def _named(name: str) -> bytes:
    return encoded({"cniVersion": "1.0.0", "name": name, "plugins": [{"type": "bridge"}]})


def test_a_configuration_that_is_replaced_counts_at_once(tmp_path: Path) -> None:
    """Also by one of the same size."""
    network = _network(tmp_path)
    for name in ("one", "two"):
        replaced = tmp_path / "new"
        replaced.write_bytes(_named(name))
        replaced.replace(tmp_path / "10.conflist")
        assert network._configurations.current().name == name


def test_of_a_sandbox_that_was_attached_in_part_no_rules_are_made_again(tmp_path: Path) -> None:
    network = _network(tmp_path)
    chain: Any = Mock()
    network._chain = chain
    sandbox = AttachedSandbox(tmp_path, lambda: tmp_path)
    described = parse_configuration(_named("one"))
    for result, calls in ((None, 0), ({"ips": []}, 1)):
        write_attachment(tmp_path, Attachment(described, "a", "", {}, result))
        network._repeat_ports("a", sandbox)
        assert chain.repeat.call_count == calls


def test_a_detach_waits_for_an_attach_that_has_stored_nothing_yet(tmp_path: Path) -> None:
    """It would leave the sandbox attached for ever. Of another one without an attachment nothing is to be done."""
    network = _network(tmp_path)
    turns: Any = MagicMock()
    network._turns = turns
    for is_attached, waits in ((False, 0), (True, 1)):
        turns.concern.return_value = is_attached
        network.detach("a", tmp_path, None)
        assert turns.to_detach.call_count == waits


@pytest.mark.parametrize(("text", "bits"), [("1e6", 10**6), ("1.5k", 1500), ("2Mi", 2 << 20), ("5000", 5000)])
def test_a_bandwidth_is_a_quantity(text: str, bits: int) -> None:
    """With a suffix of ten or two, or an exponent."""
    asked = cri.PodSandboxConfig(annotations={INGRESS: text})
    assert capability_arguments(asked)["bandwidth"]["ingressRate"] == bits


@pytest.mark.parametrize("is_mapped", [True, False])
def test_files_are_given_to_the_root_of_their_sandbox(monkeypatch: pytest.MonkeyPatch, *, is_mapped: bool) -> None:
    """Else a pod in a user namespace could not write its own terminal."""
    given = list[tuple[object, ...]]()
    monkeypatch.setattr(os, "chown", lambda *asked: given.append(asked))
    config = cri.PodSandboxConfig()
    if is_mapped:
        users = config.linux.security_context.namespace_options.userns_options
        users.mode = cri.POD
        users.uids.add(host_id=70000, container_id=0, length=65536)
        users.gids.add(host_id=80000, container_id=0, length=65536)
    give_to_root(config, "/a", "/b")
    assert given == ([("/a", 70000, 80000), ("/b", 70000, 80000)] if is_mapped else [])


def test_what_a_user_may_not_write_is_an_error_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tee tells it. Here it runs as this user."""
    run = subprocess.run

    def as_this_user(command: list[str], **given: Any) -> Any:
        assert [given.pop(name) for name in ("user", "group", "extra_groups")] == [7, 7, []]
        return run(command, **given)

    monkeypatch.setattr(subprocess, "run", as_this_user)
    sysctls._write_as(7, tmp_path / "there", "kernel.there", "1")
    assert (tmp_path / "there").read_text() == "1"
    with pytest.raises(PodNamespaceError, match=r'set sysctl "kernel\.none" to "1": No such file'):
        sysctls._write_as(7, tmp_path / "none" / "x", "kernel.none", "1")


def test_the_kernel_is_let_announce_addresses_before_the_mac_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(announcements, "write_interface_sysctls", done.extend)
    monkeypatch.setattr(fcntl, "ioctl", lambda *_: done.append("MAC"))
    announcements._announce(bytes(6))
    assert done == ["net.ipv4.conf.eth0.arp_notify", "net.ipv6.conf.eth0.ndisc_notify", "MAC"]


def test_the_user_namespace_is_opened_while_its_file_can_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And entered when the machine's mounts are left: they do not belong to the pod's root."""
    done: list[str] = []
    directory = tmp_path / "pod"
    directory.mkdir()
    (directory / pause.USER).touch()

    def leave_mounts(_: str) -> int:
        directory.rename(tmp_path / "left")
        done.append("mounts")
        return 7

    monkeypatch.setattr(pause, "_enter_empty_root", leave_mounts)
    kernel = SimpleNamespace(
        NEW_USER_NAMESPACE=1, set_namespace=lambda *_: done.append("user"), unshare=lambda _: done.append("pid")
    )
    monkeypatch.setattr(pause, "kernel", kernel)
    assert pause._enter(str(directory), [pause.USER]) == 7
    assert done == ["mounts", "user", "pid"]
