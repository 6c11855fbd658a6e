"""What pods get of a machine's resolv.conf, by the files of systems as they come (in `resolv_conf/`)."""

import shutil
from pathlib import Path

import pytest

from edged.pod_workers.host_dns import UPLINKS, read_host_dns
from edged.pods.config.dns import ResolvConf, is_the_machines, parse_resolv_conf

_MACHINES = Path(__file__).with_name("resolv_conf")


_STUB = "run/systemd/resolve/stub-resolv.conf"
"""What the machine's /etc/resolv.conf is a link to, where systemd-resolved has made it."""


def _root(machine: str, directory: Path) -> tuple[Path, list[Path]]:
    root = directory / machine
    shutil.copytree(_MACHINES / machine, root)
    file = root / "etc" / "resolv.conf"
    if (root / _STUB).exists():
        file.parent.mkdir()
        file.symlink_to(f"../{_STUB}")
    return file, [root / each.relative_to("/") for each in UPLINKS]


@pytest.mark.parametrize(
    ("machine", "own"),
    [
        ("ubuntu-24.04", ResolvConf(("192.0.2.1", "2001:db8::1"))),
        ("fedora-41", ResolvConf(("192.0.2.1",), ("lan",))),
        ("debian-12", ResolvConf(("192.0.2.1",), ("lan",))),
        ("raspberry-pi-os-12", ResolvConf(("192.0.2.1",), ("lan",))),
        ("alpine-3.20", ResolvConf(("192.0.2.1",), ("lan",))),
        ("networkmanager-dnsmasq", ResolvConf(("192.0.2.1",), ("lan",))),
        ("dnsmasq-and-another", ResolvConf(("192.0.2.1",), ("lan",))),
        ("unbound", ResolvConf()),
    ],
)
def test_pods_get_servers_that_they_reach(machine: str, own: ResolvConf, tmp_path: Path) -> None:
    """Pods on the machine's network get all that the machine has."""
    path, uplinks = _root(machine, tmp_path)
    found = read_host_dns(path, uplinks)
    assert (found.host, found.own) == (parse_resolv_conf(path.read_text()), own)
    assert found.unreachable == (("::1", "127.0.0.1") if machine == "unbound" else ())


def test_a_machine_without_the_file_misses_no_server(tmp_path: Path) -> None:
    found = read_host_dns(tmp_path / "resolv.conf", [tmp_path / "none"])
    assert (found.host, found.own, found.unreachable) == (ResolvConf(), ResolvConf(), ())


def test_the_neighbour_is_that_of_the_file_to_which_a_link_leads(tmp_path: Path) -> None:
    """/etc/resolv.conf leads to the stub, in whatever directory that is."""
    stub, link = tmp_path / "run" / "stub-resolv.conf", tmp_path / "etc" / "resolv.conf"
    for each in (stub, link):
        each.parent.mkdir()
    stub.write_text("nameserver 127.0.0.53\n")
    stub.with_name("resolv.conf").write_text("nameserver 192.0.2.1\n")
    link.symlink_to(stub)
    assert read_host_dns(link, []).own.servers == ("192.0.2.1",)


def test_a_comment_in_another_encoding_hides_no_server(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_bytes(b"# f\xfcr das Ger\xe4t\nnameserver 192.0.2.1\n")
    assert read_host_dns(path, []).own.servers == ("192.0.2.1",)


def test_the_neighbour_of_a_stub_comes_first(tmp_path: Path) -> None:
    """Of the file that `resolvConf` names."""
    stub, other = tmp_path / "stub-resolv.conf", tmp_path / "other"
    stub.write_text("nameserver 127.0.0.53\n")
    other.write_text("nameserver 192.0.2.2\n")
    assert read_host_dns(stub, [other]).own.servers == ("192.0.2.2",)
    (tmp_path / "resolv.conf").write_text("nameserver 192.0.2.1\n")
    assert read_host_dns(stub, [other]).own.servers == ("192.0.2.1",)


@pytest.mark.parametrize(
    ("server", "expected"),
    [("127.0.0.53", True), ("127.255.0.1", True), ("::1", True), ("::ffff:127.0.0.1", True), ("0.0.0.0", True),  # noqa: S104 - nothing is bound

     ("::", True), ("fe80::1%eth0", True), ("fe80::1", True), ("192.0.2.1", False), ("169.254.20.10", False),
     ("2001:db8::1", False), ("::ffff:192.0.2.1", False), ("no address", False)],
)  # fmt: skip
def test_servers_that_only_the_machine_reaches(server: str, *, expected: bool) -> None:
    """Addresses of IPv4's links are not: clouds and node-local caches have servers there."""
    assert is_the_machines(server) is expected
