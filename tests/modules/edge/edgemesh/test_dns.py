"""Names of Services: the zone, the wire format and the server, on loopback addresses."""

import errno
import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import permutations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from beehive.clock import RealClock
from beehive.testing import FakeContext
from modules.edge.edgemesh.backends import backends_of_slices
from modules.edge.edgemesh.counters import MeshCounters
from modules.edge.edgemesh.dns import host as dns_host
from modules.edge.edgemesh.dns.host import Clients, HostServers, open_sockets
from modules.edge.edgemesh.dns.resolving import DnsNames, answer_to
from modules.edge.edgemesh.dns.server import BURST, MOST_CONNECTIONS, DnsConnection, Limiter, NameServer
from modules.edge.edgemesh.dns.turns import MOST_OF_CLIENT, MOST_WAITING, PLACES, AskingTurns
from modules.edge.edgemesh.dns.upstream import (
    MOST_MISMATCHES,
    STALE_SECONDS,
    Ask,
    Cache,
    UpstreamResolver,
    ask,
    trusted,
)
from modules.edge.edgemesh.dns.wire import (
    HEADER,
    Code,
    DnsAnswer,
    Parsed,
    Question,
    Record,
    Type,
    WireError,
    address_data,
    name_data,
    read_message,
    read_question,
    soa_data,
    target_of,
    write,
)
from modules.edge.edgemesh.dns.zone import MOST_ALIASES, Zone
from modules.edge.edgemesh.nft.addresses import AddressError, HostAddresses
from modules.edge.edgemesh.objects import Service, ServiceKey
from modules.edge.edgemesh.tables import cluster_ips
from tests.modules.edge.edgemesh.objects import endpoint, pod, service, slice_of
from tests.support.failing import Attempt, Failing, fail_at_each_call
from tests.support.patience import PATIENCE

Z = "cluster.local"
WEB = f"web.default.svc.{Z}"


def question(
    name: str, type_: int = Type.A, *, edns: int = 0, version: int = 0, flags: int = 0x0100, number: int = 7
) -> bytes:
    """A query; the name keeps its letters."""
    extra = b"\0" + struct.pack("!HHIH", 41, edns, version << 16, 0) if edns else b""
    raw = b"".join(bytes([len(each)]) + each.encode() for each in name.split(".") if each) + b"\0"
    return HEADER.pack(number, flags, 1, 0, 0, bool(extra)) + raw + struct.pack("!HH", type_, 1) + extra


def parsed(data: bytes) -> Question:
    found = read_question(data)
    assert isinstance(found, Question)
    return found


def zone(*services: Any, known: bool = True, **endpoints: Any) -> Zone:
    """A zone of Services of the namespace default, with endpoints by the Service's name."""
    made = Zone(Z, FakeContext().clock.random)
    for each in services:
        name = each.metadata.name
        slices = [endpoints[name]] if name in endpoints else []
        made.put(ServiceKey("default", name), each, cluster_ips(each), list(backends_of_slices(slices)))
    made.is_known = known
    return made


def data_of(answer: DnsAnswer) -> list[str]:
    """The addresses and names of an answer."""
    found = []
    for each in answer.answers:
        is_address = each.type in (Type.A, Type.AAAA)
        family = socket.AF_INET if each.type == Type.A else socket.AF_INET6
        found.append(socket.inet_ntop(family, each.data) if is_address else target_of(each))
    return found


HEADLESS = service(
    "db", ip="None", ports=[{"name": "sql", "port": 5432, "targetPort": 5432}, {"name": "web", "port": 80}]
)
MEMBERS = slice_of(
    endpoint("10.86.0.2", hostname="db-0"),
    endpoint("10.86.0.3", hostname="db-1"),
    endpoint("10.86.0.4"),
    endpoint("10.86.0.5", hostname="db-9", ready=False),
    name="db",
    ports=[{"name": "sql", "port": 5432}, {"name": "web", "port": 8080}],
)
FULL = zone(
    service(clusterIPs=["10.96.0.1", "fd00::1"], ports=[{"name": "http", "port": 80}]),
    service("four", "10.96.0.4"),
    HEADLESS,
    service("empty", "None"),
    service("out", "", type="ExternalName", externalName="www.example.org"),
    service("dot", "", type="ExternalName", externalName="WWW.example.org."),
    service("in", "", type="ExternalName", externalName=f"web.default.svc.{Z}"),
    service("loop", "", type="ExternalName", externalName=f"pool.default.svc.{Z}"),
    service("pool", "", type="ExternalName", externalName=f"loop.default.svc.{Z}"),
    db=MEMBERS,
    four=slice_of(endpoint("10.86.0.7", hostname="web-0"), endpoint("10.86.0.8")),
)
FULL.set_pods(frozenset({("default", "10.86.0.2")}))
OK, NX = Code.NOERROR, Code.NXDOMAIN


@pytest.mark.parametrize(
    ("name", "type_", "code", "expected"),
    [
        ("web.default.svc", Type.A, OK, ["10.96.0.1"]),
        ("web.default.svc", Type.AAAA, OK, ["fd00::1"]),
        ("four.default.svc", Type.AAAA, OK, []),
        ("web.default.svc", Type.TXT, OK, []),
        ("nothing.default.svc", Type.A, NX, []),
        ("web.other.svc", Type.A, NX, []),
        ("default.svc", Type.A, OK, []),
        ("other.svc", Type.A, NX, []),
        ("svc", Type.A, OK, []),
        ("pod", Type.A, OK, []),
        ("a.b.web.default.svc", Type.A, NX, []),
        ("db-0.db.default.svc", Type.A, OK, ["10.86.0.2"]),
        ("10-86-0-4.db.default.svc", Type.A, OK, ["10.86.0.4"]),
        ("db-9.db.default.svc", Type.A, NX, []),
        ("db-0.web.default.svc", Type.A, NX, []),
        ("web-0.four.default.svc", Type.A, OK, ["10.86.0.7"]),
        ("10-86-0-8.four.default.svc", Type.A, NX, []),
        ("empty.default.svc", Type.A, NX, []),
        ("10-86-0-2.default.pod", Type.A, OK, ["10.86.0.2"]),
        ("10-86-0-9.default.pod", Type.A, NX, []),
        ("x.default.pod", Type.A, NX, []),
        ("out.default.svc", Type.A, OK, ["www.example.org"]),
        ("x.out.default.svc", Type.A, NX, []),
        ("dot.default.svc", Type.A, OK, ["www.example.org"]),
        ("in.default.svc", Type.A, OK, [f"web.default.svc.{Z}", "10.96.0.1"]),
        ("in.default.svc", Type.CNAME, OK, [f"web.default.svc.{Z}"]),
        ("loop.default.svc", Type.A, Code.SERVFAIL, []),
        ("_sql._tcp.none.default.svc", Type.SRV, NX, []),
        ("_no._tcp.db.default.svc", Type.SRV, NX, []),
        ("_sql._udp.db.default.svc", Type.SRV, NX, []),
        ("_sql._tcp.db.default.svc", Type.A, OK, []),
    ],
)
def test_names_of_the_specification(name: str, type_: Type, code: Code, expected: list[str]) -> None:
    """Cases 27, 28, 29, 32: a name without data has the SOA record, like an unknown name."""
    answer = FULL.answer(f"{name}.{Z}", type_)
    assert (answer.code, data_of(answer)) == (code, expected)
    assert [each.type for each in answer.authority] == ([Type.SOA] if not expected and code != Code.SERVFAIL else [])
    assert len(answer.answers) <= MOST_ALIASES + 1


def test_srv_records_have_each_endpoint_with_its_port_and_address() -> None:
    """Case 30."""
    answer = FULL.answer(f"_web._tcp.db.default.svc.{Z}", Type.SRV)
    targets = {(struct.unpack("!HHH", each.data[:6]), each.data[6:]) for each in answer.answers}
    owner = f"db.default.svc.{Z}"
    hosts = ("db-0", "db-1", "10-86-0-4")
    assert targets == {((0, 100, 8080), name_data(f"{host}.{owner}")) for host in hosts}
    assert {each.name for each in answer.additional} == {f"{host}.{owner}" for host in hosts}
    assert len(FULL.answer(owner, Type.SRV).answers) == 6
    one = FULL.answer(f"_http._tcp.web.default.svc.{Z}", Type.SRV)
    assert [each.data[6:] for each in one.answers] == [name_data(f"web.default.svc.{Z}")]
    assert {each.type for each in one.additional} == {Type.A, Type.AAAA}
    unnamed = FULL.answer(f"four.default.svc.{Z}", Type.SRV)
    assert [each.data[4:] for each in unnamed.answers] == [b"\0\x50" + name_data(f"four.default.svc.{Z}")]


def test_addresses_have_names_if_they_are_services() -> None:
    """Case 31."""

    def name_of(reverse: str) -> list[str] | None:
        answer = FULL.reverse(reverse)
        return None if answer is None else data_of(answer)

    assert name_of("1.0.96.10.in-addr.arpa") == [f"web.default.svc.{Z}"]
    assert name_of("2.0.86.10.in-addr.arpa") == [f"db-0.db.default.svc.{Z}"]
    six = ".".join(reversed("fd000000000000000000000000000001"))
    assert name_of(f"{six}.ip6.arpa") == [f"web.default.svc.{Z}"]
    for other in ("8.8.8.8.in-addr.arpa", "x.8.8.8.in-addr.arpa", "8.8.in-addr.arpa", "z.ip6.arpa", "arpa"):
        assert name_of(other) is None


def test_before_the_cloud_has_sent_services_no_name_is_reported_not_to_exist() -> None:
    """Case 34."""
    early = zone(service(), known=False)
    assert early.answer(f"web.default.svc.{Z}", Type.A).code == OK
    assert early.answer(f"other.default.svc.{Z}", Type.A).code == Code.SERVFAIL
    early.is_known = True
    assert early.answer(f"other.default.svc.{Z}", Type.A).code == NX


def test_a_service_that_goes_takes_its_names_along() -> None:
    made = zone(service(), HEADLESS, db=MEMBERS)
    for name in ("web", "db"):
        made.put(ServiceKey("default", name), None, (), ())
        assert made.answer(f"{name}.default.svc.{Z}", Type.A).code == NX
    assert made.reverse("2.0.86.10.in-addr.arpa") is made.reverse("1.0.96.10.in-addr.arpa") is None
    assert made.answer(f"default.svc.{Z}", Type.A).code == NX


def test_a_service_of_the_same_name_in_another_namespace_keeps_its_names() -> None:
    made = zone(HEADLESS, db=MEMBERS)
    made.put(ServiceKey("other", "db"), HEADLESS, (), list(backends_of_slices([MEMBERS])))
    made.put(ServiceKey("default", "db"), None, (), ())
    found = made.reverse("2.0.86.10.in-addr.arpa")
    assert found is not None
    assert data_of(found) == [f"db-0.db.other.svc.{Z}"]
    assert made.answer(f"db.default.svc.{Z}", Type.A).code == NX
    assert made.answer(f"db.other.svc.{Z}", Type.A).code == OK


def test_a_pod_has_a_name_in_its_own_namespace_only() -> None:
    made = zone(service())
    made.set_pods(frozenset({("default", "10.86.0.9")}))
    assert made.answer(f"10-86-0-9.default.pod.{Z}", Type.A).code == OK
    assert made.answer(f"10-86-0-9.other.pod.{Z}", Type.A).code == NX


def test_endpoints_with_one_host_name_share_it() -> None:
    members = slice_of(endpoint("10.86.0.2", hostname="a"), endpoint("10.86.0.3", hostname="a"), name="db")
    assert sorted(data_of(zone(HEADLESS, db=members).answer(f"a.db.default.svc.{Z}", Type.A))) == [
        "10.86.0.2",
        "10.86.0.3",
    ]


def test_no_label_of_an_address_ends_with_a_dash() -> None:
    members = slice_of(endpoint("fd01:4::"), name="db")
    answer = zone(HEADLESS, db=members).answer(f"fd01-4--0.db.default.svc.{Z}", Type.AAAA)
    assert data_of(answer) == ["fd01:4::"]


def test_a_name_that_only_ends_like_the_clusters_is_others() -> None:
    assert not zone().is_below(f"my{Z}")
    assert zone().is_below(f"my.{Z}")


def test_an_endpoint_of_two_services_keeps_a_name_when_one_of_them_goes() -> None:
    """Until then it has that of the first one."""
    other = service("other", ip="None", ports=[{"name": "sql", "port": 5432}])
    made = zone(HEADLESS, other, db=MEMBERS, other=MEMBERS)
    first = made.reverse("2.0.86.10.in-addr.arpa")
    assert first is not None
    assert data_of(first) == [f"db-0.db.default.svc.{Z}"]
    made.put(ServiceKey("default", "db"), None, (), ())
    found = made.reverse("2.0.86.10.in-addr.arpa")
    assert found is not None
    assert data_of(found) == [f"db-0.other.default.svc.{Z}"]


def _of_tenant(namespace: str, name: str, created: str, ip: str = "None") -> tuple[ServiceKey, Service]:
    given = service(name, ip, ports=[{"name": "sql", "port": 5432}])
    metadata = replace(given.metadata, namespace=namespace, creation_timestamp=created)
    return ServiceKey(namespace, name), replace(given, metadata=metadata)


@pytest.mark.parametrize(
    ("address", "reverse", "owner", "others"),
    [
        ("10.96.0.9", "9.0.96.10", ("bank", "cards", "2026-01-02T00:00:00Z", "10.96.0.9"), "2026-01-01T00:00:00Z"),
        ("10.86.0.2", "2.0.86.10", ("bank", "cards", "2026-01-02T00:00:00Z"), "2026-01-01T00:00:00Z"),
        ("10.86.9.2", "2.9.86.10", ("bank", "cards", "2026-01-01T00:00:00Z"), "2026-01-02T00:00:00Z"),
    ],
)
def test_no_endpoint_of_another_namespace_changes_the_name_of_an_address(
    address: str, reverse: str, owner: tuple[str, ...], others: str
) -> None:
    """Of a Service, of a pod of this node, of another machine's pod; whatever comes and changes in whatever order."""
    mine, tenants = _of_tenant(*owner), _of_tenant("a", "cards", others)
    members = list(backends_of_slices([slice_of(endpoint(address, hostname="db"), name="cards")]))
    for several in permutations([mine, tenants, mine]):
        made = zone()
        made.set_pods(frozenset({("bank", "10.86.0.2")}))
        for key, each in several:
            made.put(key, each, cluster_ips(each), members)
        found = made.reverse(f"{reverse}.in-addr.arpa")
        assert found is not None
        assert data_of(found)[0].endswith(f"cards.bank.svc.{Z}")


def test_unready_addresses_are_published_on_request() -> None:
    """Case 29; the node's pods have it from the Service, the cloud's slices say so themselves."""
    made = zone(HEADLESS, db=slice_of(endpoint("10.86.0.5", hostname="db-9"), name="db"))
    assert data_of(made.answer(f"db-9.db.default.svc.{Z}", Type.A)) == ["10.86.0.5"]


def names_of(made: Zone, servers: Callable[[Question], DnsAnswer] | None = None) -> DnsNames:
    """Names, with the test's answers in place of other servers'."""

    class Others(UpstreamResolver):
        def __init__(self) -> None:
            super().__init__(lambda _: [], FakeContext().clock, MeshCounters())

        def resolve(self, question: Question, client: str = "") -> DnsAnswer:
            return servers(question) if servers is not None else super().resolve(question, client)

    return DnsNames(made, Others())


def reply(data: bytes, names: DnsNames | None = None, *, udp: bool = True) -> Any:
    """What is answered, without other servers."""
    return answer_to(data, names or names_of(FULL), lambda _: None, udp=udp)


@pytest.mark.parametrize("name", [f"web.default.svc.{Z}", f"WeB.default.SVC.{Z}", f"web.default.svc.{Z}."])
def test_the_question_comes_back_unchanged(name: str) -> None:
    """Case 27."""
    asked = question(name)
    data = reply(asked)
    assert data[:2] == asked[:2]
    assert data[12 : len(asked)] == asked[12:]
    found = read_message(data)
    assert [each.data for each in found.answers] == [address_data("10.96.0.1")]
    assert found.answers[0].name == f"web.default.svc.{Z}"


def test_long_answers_are_cut_over_udp_and_whole_over_tcp() -> None:
    """Case 33."""
    many = slice_of(*(endpoint(f"10.86.1.{number}") for number in range(60)), name="db")
    names = names_of(zone(service("db", "None"), db=many))
    owner = f"db.default.svc.{Z}"
    short, whole = reply(question(owner), names), reply(question(owner), names, udp=False)
    assert len(short) <= 512
    assert read_message(short).is_cut
    assert len(read_message(whole).answers) == 60
    edns = reply(question(owner, edns=4096), names)
    assert len(read_message(edns).answers) == 60
    assert len(edns) <= 1232


LARGE = [endpoint(f"10.{number >> 8}.{number & 255}.1") for number in range(6_000)]
LARGE_ZONE = zone(
    service("db", "None", ports=[{"name": "sql", "port": 5432}]),
    db=slice_of(*LARGE, name="db", ports=[{"name": "sql", "port": 5432}]),
)


@pytest.mark.parametrize("owner", [f"db.default.svc.{Z}", f"_sql._tcp.db.default.svc.{Z}"])
@pytest.mark.parametrize(
    ("edns", "udp", "limit"), [(0, True, 512), (100, True, 512), (4096, True, 1232), (0, False, 65535)]
)
def test_an_answer_that_is_too_long_has_the_records_that_fit(owner: str, edns: int, udp: bool, limit: int) -> None:
    type_ = Type.SRV if owner.startswith("_") else Type.A
    data = reply(question(owner, type_, edns=edns), names_of(LARGE_ZONE), udp=udp)
    found = read_message(data)
    assert found.is_cut
    assert limit - 80 < len(data) <= limit
    assert {each.type for each in found.answers} == {type_}
    assert len({each.data for each in found.answers}) == len(found.answers)
    again = read_message(reply(question(owner, type_, edns=edns), names_of(LARGE_ZONE), udp=udp))
    assert again.answers != found.answers


def test_no_more_records_are_made_than_fit() -> None:
    """A thousand queries in a second made as many millions of records."""
    owner = f"db.default.svc.{Z}"
    found = names_of(LARGE_ZONE).at_once(parsed(question(owner)), 512)
    ports = names_of(LARGE_ZONE).at_once(parsed(question(owner, Type.SRV)), 512)
    assert found is not None
    assert ports is not None
    assert len(found.answers) <= 512 // 16 + 1
    assert len(ports.answers) <= 512 // 40


def test_authorities_that_do_not_fit_are_left_out() -> None:
    asked = parsed(question("a.b"))
    long = tuple(Record(f"{'x' * 60}.c", Type.NS, 1, name_data("y" * 60)) for _ in range(9))
    answer = DnsAnswer(OK, (a_record("a.b"),), long, (a_record("c.d"),))
    found = read_message(write(asked, answer, udp=True))
    assert (len(found.answers), found.is_cut) == (1, True)
    assert 0 < len(found.authority) < 9
    whole = read_message(write(asked, answer, udp=False))
    assert (len(whole.authority), whole.is_cut) == (9, False)
    cut = read_message(write(asked, DnsAnswer(OK, long, (a_record("c.d"),)), udp=True))
    assert (cut.is_cut, cut.authority) == (True, ()), "after what is cut nothing follows"


HEAD = HEADER.pack(7, 0x0100, 1, 0, 0, 0)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", None),
        (b"abc", None),
        (question("a.b", flags=0x8000), None),
        (HEADER.pack(7, 0, 0, 0, 0, 0), Code.FORMERR),
        (HEADER.pack(7, 0, 2, 0, 0, 0) + question("a.b")[12:] * 2, Code.FORMERR),
        (HEAD + b"\xc0\x0c\0\1\0\1", Code.FORMERR),
        (HEAD + b"\x40" + b"a" * 64 + b"\0\0\1\0\1", Code.FORMERR),
        (HEAD + (b"\x3f" + b"a" * 63) * 4 + b"\0\0\1\0\1", Code.FORMERR),
        (HEAD + b"\1a\0\0", Code.FORMERR),
        (question("a.b", flags=0x2800), Code.NOTIMP),
        (question("a.b")[:-1] + b"\3", Code.REFUSED),
        (question("a.b", Type.AXFR), Code.REFUSED),
        (question("a.b", Type.IXFR), Code.REFUSED),
        (question("a.b", Type.ANY), Code.NOERROR),
        (question(WEB, Type.ANY), Code.NOERROR),
        (question(f"no.{WEB}", Type.ANY), Code.NXDOMAIN),
    ],
)
def test_other_packets_than_queries_of_a_name_are_refused_or_not_answered(data: bytes, expected: Code | None) -> None:
    """Case 39."""
    answer = reply(data)
    if expected is None:
        assert answer is None
    else:
        assert answer[3] & 0xF == expected


def test_another_version_of_edns_is_refused_in_the_extended_code() -> None:
    """RFC 6891 §6.1.3: the upper bits of BADVERS are in the answer's own OPT record."""
    answer = reply(question("a.b", edns=1232, version=1))
    assert (answer[3] & 0xF, answer[-11:]) == (0, b"\0" + struct.pack("!HHIH", 41, 1232, 1 << 24, 0))


def record(owner: bytes, type_: int, data: bytes, ttl: int = 300, class_: int = 1) -> bytes:
    """A record of another server's message, whose question is `a.b` at 12."""
    return owner + struct.pack("!HHIH", type_, class_, ttl, len(data)) + data


HERE = b"\xc0\x0c"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (record(HERE, 1, b"\1\2\3\4"), [Record("a.b", 1, 300, b"\1\2\3\4")]),
        (record(HERE, 1, b"\1\2\3\4", 1 << 31), [Record("a.b", 1, 0, b"\1\2\3\4")]),  # RFC 2181 §8
        (record(HERE, 1, b"\1\2\3\4", class_=3), []),
        (record(HERE, 15, b"\0\7\1m" + HERE), [Record("a.b", 15, 300, b"\0\7\1m\1a\1b\0")]),
        (record(b"\3a.b\0", 1, b"\1\2\3\4"), [Record("a\xffb", 1, 300, b"\1\2\3\4")]),
    ],
    ids=["plain", "ttl", "class", "mx", "dot-in-label"],
)
def test_records_of_others_are_read_as_they_are_meant(given: bytes, found: list[Record]) -> None:
    data = HEADER.pack(7, 0x8000, 1, 1, 0, 0) + question("a.b")[12:] + given
    assert list(read_message(data).answers) == found


@pytest.mark.parametrize(("last", "is_name"), [(58, True), (59, False)])
def test_a_name_of_255_bytes_is_the_longest(last: int, *, is_name: bool) -> None:
    """A longer one could not be written in an answer."""
    owner = (b"\x3f" + b"a" * 63) * 3 + bytes([last - 1]) + b"a" * (last - 1) + HERE
    data = HEADER.pack(7, 0x8000, 1, 1, 0, 0) + question("a.b")[12:] + record(owner, 1, b"\1\2\3\4")
    if is_name:
        assert len(name_data(read_message(data).answers[0].name)) == 255
    else:
        with pytest.raises(WireError):
            read_message(data)


class Steps(bytes):
    """A message that counts how often one of its bytes is looked at."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        self.looks += not isinstance(at, slice)
        return super().__getitem__(at)


def _answers(records: Iterable[bytes], head: bytes = b"") -> Steps:
    """Another server's answer, as long as TCP allows."""
    data, number = question("a.b")[12:] + head, 0
    for each in records:
        if 12 + len(data) + len(each) > 65_535:
            break
        data, number = data + each, number + 1
    return Steps(HEADER.pack(7, 0x8000, 1, number, 0, 0) + data)


def test_the_cost_of_an_answer_is_in_proportion_to_its_length() -> None:
    """Answers of 64 KiB whose 4,000 names had 127 labels, by pointers: 1,000,000 steps, and half a second."""
    long = record(b"\1x" * 125 + b"\0", 16, b"")  # at 21
    shared = _answers((record(b"\xc0\x15", 5, b"\xc0\x15") for _ in range(6_000)), long)
    shared = Steps(shared[:6] + struct.pack("!H", int.from_bytes(shared[6:8], "big") + 1) + shared[8:])
    shared.looks = 0
    assert len(read_message(shared).answers) > 4_000
    assert shared.looks < 2 * len(shared)
    distinct = _answers((record(bytes((1, 97 + number % 26)) + b"\xc0\x15", 1, b"") for number in range(6_000)), long)
    distinct.looks = 0
    with pytest.raises(WireError, match="too many labels"):
        read_message(distinct)
    assert distinct.looks < 3 * len(distinct)


@given(st.binary(max_size=300) | st.binary(max_size=80).map(lambda data: HEAD + data))
def test_no_query_raises(data: bytes) -> None:
    """And no answer is longer than asked."""
    found = reply(data)
    assert found is None or isinstance(found, Question) or len(found) <= 1232


@given(st.binary(max_size=300) | st.binary(max_size=200).map(lambda data: question("a.b")[:6] + b"\0\3\0\1\0\1" + data))
def test_no_answer_of_a_server_raises_but_a_wire_error(data: bytes) -> None:
    try:
        found = read_message(data)
    except WireError:
        return
    answer = trusted(parsed(question("a.b")), found)
    write(parsed(question("a.b")), answer, udp=True)


def message(asked: bytes, *records: Record, authority: tuple[Record, ...] = (), code: int = 0) -> Parsed:
    """An answer of another server."""
    return Parsed(7, 0x8000 | code, asked[12:], records, authority)


def a_record(name: str, address: str = "192.0.2.1", ttl: int = 300) -> Record:
    return Record(name, Type.A, ttl, address_data(address))


def test_only_the_chain_from_the_question_is_believed() -> None:
    """Case 37: a record of another name in the answer is not remembered."""
    asked = question("www.example.org")
    alias = Record("www.example.org", Type.CNAME, 300, name_data("web.example.net"))
    soa = Record("bank.example", Type.SOA, 300, soa_data("bank.example", 1, 5))
    found = trusted(
        parsed(asked),
        message(asked, alias, a_record("web.example.net"), a_record("bank.example"), authority=(soa,)),
    )
    assert [each.name for each in found.answers] == ["www.example.org", "web.example.net"]
    assert found.authority == ()


def test_nothing_but_the_answer_and_the_lack_in_its_own_zone_is_believed() -> None:
    asked, soa = question("no.example.org"), soa_data("x", 1, 5)
    text = Record("no.example.org", Type.TXT, 300, b"\0")
    found = trusted(
        parsed(asked), message(asked, text, authority=(Record("example.net", Type.SOA, 300, soa),), code=NX)
    )
    assert found == DnsAnswer(NX, is_ours=False)
    own = (Record("example.org", Type.SOA, 300, soa),)
    assert trusted(parsed(asked), message(asked, authority=own, code=NX)).authority == own


class _Compared(Record):
    """A record that counts how often it is compared with another one."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        type(self).comparisons += 1
        return tuple.__eq__(self, other)

    __hash__ = Record.__hash__


def test_a_long_answer_is_not_compared_with_itself_record_by_record() -> None:
    asked = question("a.b")
    records = [_Compared("a.b", Type.A, 60, number.to_bytes(4, "big")) for number in range(1000)]
    assert len(trusted(parsed(asked), message(asked, *records)).answers) == 1000
    assert _Compared.comparisons < 10_000


class Servers:
    """Other servers, as the resolver sees them."""

    def __init__(self) -> None:
        self._time = FakeContext()
        self.asked: list[str] = []
        self.dead: set[str] = set()
        self.failing: set[str] = set()
        self.seconds: list[float] = []
        self.ttl = 300
        self.counters = MeshCounters()
        self.servers = ["a", "b"]
        self.resolver = UpstreamResolver(lambda _: self.servers, self._time.clock, self.counters, self._ask)

    def _ask(self, server: str, raw: bytes, seconds: float, _mismatch: Callable[[], None]) -> Parsed:
        self.asked.append(server)
        self.seconds.append(seconds)
        if server in self.dead:
            self.wait(seconds)
            raise TimeoutError
        if server in self.failing:
            return message(HEAD + raw, code=Code.SERVFAIL)
        name = parsed(HEAD + raw).name
        if name.startswith("no."):
            soa = Record("org", Type.SOA, self.ttl, soa_data("org", 1, 5 if self.ttl == 300 else self.ttl))
            return message(HEAD + raw, authority=(soa,), code=3)
        return message(HEAD + raw, a_record(name, ttl=self.ttl))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._time.simulation.run_for(seconds)

    def resolve(self, name: str = "www.example.org") -> DnsAnswer:
        """Ask for a name."""
        return self.resolver.resolve(parsed(question(name)))


def test_answers_are_remembered_for_their_time_and_longer_while_no_server_answers() -> None:
    """Case 36."""
    servers = Servers()
    assert servers.resolve().answers[0].ttl == 300
    servers.wait(100)
    assert servers.resolve().answers[0].ttl == 200
    assert servers.asked == ["a"]
    servers.dead = {"a", "b"}
    servers.wait(1000)
    assert servers.resolve().answers[0].ttl == 30
    assert servers.counters.stale == 1
    assert servers.resolve("never.example.org").code == Code.SERVFAIL
    servers.wait(STALE_SECONDS + 1000)
    assert servers.resolve().code == Code.SERVFAIL


def test_servers_that_do_not_answer_are_waited_for_once_in_a_while_for_each_name() -> None:
    """The recheck timer of RFC 8767: 30 seconds. Then they are asked again, and a new answer counts at once."""
    servers = Servers()
    servers.resolve()
    servers.dead = {"a", "b"}
    servers.wait(1000)
    servers.resolve()
    asked = len(servers.asked)
    servers.wait(29)
    assert servers.resolve().answers[0].ttl == 30
    assert servers.resolver.remembered("www.example.org", Type.A) == servers.resolve()
    assert len(servers.asked) == asked
    servers.wait(1)
    servers.dead = set()
    assert servers.resolve().answers[0].ttl == 300
    servers.wait(100)
    assert servers.resolve().answers[0].ttl == 200
    servers.dead = {"a", "b"}
    servers.wait(STALE_SECONDS + 190)
    servers.resolve()
    servers.wait(20)
    assert servers.resolve().code == Code.SERVFAIL, "not longer than a day, either"


def test_an_answer_is_given_for_a_day_after_its_own_time() -> None:
    servers = Servers()
    servers.wait(100_000)
    servers.ttl = 3600
    servers.resolve()
    servers.dead = {"a", "b"}
    for seconds, code in ((3600 + STALE_SECONDS - 20, OK), (40, Code.SERVFAIL)):
        servers.wait(seconds)
        assert servers.resolve().code == code


def test_a_server_that_does_not_answer_rests() -> None:
    servers = Servers()
    servers.dead = {"a"}
    for number in range(3):
        servers.resolve(f"{number}.example.org")
    assert servers.asked == ["a", "b", "b", "b"]
    servers.wait(60)
    servers.dead = set()
    servers.resolve("x.example.org")
    assert servers.asked[-1] == "a"


def test_a_server_that_fails_is_passed_over_and_all_that_fail_are_as_silent() -> None:
    servers = Servers()
    servers.failing = {"a"}
    assert servers.resolve().code == OK
    servers.failing = {"a", "b"}
    servers.wait(1000)
    assert servers.resolve().answers[0].ttl == 30
    assert servers.counters.stale == 1


def test_the_time_for_a_name_ends_also_with_several_servers() -> None:
    servers = Servers()
    servers.servers = ["a", "b", "c", "d"]
    servers.dead = set(servers.servers)
    assert servers.resolve().code == Code.SERVFAIL
    assert servers.seconds == [2.0, 2.0, 1.0]


@pytest.mark.parametrize(("name", "longest"), [("www.example.org", 3600), ("no.example.org", 30)])
def test_nothing_is_remembered_for_too_long(name: str, longest: int) -> None:
    servers = Servers()
    servers.ttl = 1 << 20
    servers.resolve(name)
    for seconds, asked in ((longest - 1, 1), (1, 2)):
        servers.wait(seconds)
        servers.resolve(name)
        assert len(servers.asked) == asked


def test_names_that_do_not_exist_are_remembered_for_a_moment() -> None:
    servers = Servers()
    assert servers.resolve("no.such.org").code == NX
    servers.resolve("no.such.org")
    assert len(servers.asked) == 1
    servers.wait(6)
    servers.resolve("no.such.org")
    assert len(servers.asked) == 2


def test_the_memory_is_bounded() -> None:
    cache = Cache(most=3, most_bytes=1500)
    for number in range(10):
        cache.put((str(number), 1), DnsAnswer(OK, (a_record(str(number)),)), 0.0)
    assert len(cache) == 3
    cache.put(("big", 1), DnsAnswer(OK, tuple(a_record("big", f"10.0.0.{each}") for each in range(200))), 0.0)
    assert len(cache) == 3
    assert cache.get(("7", 1), 1.0) is not None
    cache.put(("10", 1), DnsAnswer(OK, (a_record("10"),)), 1.0)
    assert [name for name in "789" if cache.get((name, 1), 1.0)] == ["7", "9"]  # the least recently used makes room
    for _ in range(100):
        cache.put(("7", 1), DnsAnswer(OK, (a_record("7"),)), 1.0)
    assert len(cache) == 3
    for long in ("a" * 250, "b" * 250, "c" * 250, "d" * 250):  # each counts twice, in the question and in the answer
        cache.put((long, 1), DnsAnswer(OK, (a_record(long),)), 2.0)
    assert [bool(cache.get((letter * 250, 1), 2.0)) for letter in "abcd"] == [False, False, True, True]


def test_nothing_is_kept_of_clients_and_services_that_are_gone() -> None:
    cache = Cache(most=1)
    for number in range(3):
        cache.put((str(number), 1), DnsAnswer(OK, (a_record("x"),)), 0.0, str(number))
    assert [*cache._shares] == ["2"]
    turns: AskingTurns[str] = AskingTurns()
    turns.put("client", "question")
    assert turns.next() == ("client", "question")
    turns.end("client")
    assert not turns._under_way
    names = zone(HEADLESS, db=MEMBERS)
    names.put(ServiceKey("default", "db"), None, (), ())
    assert not names._by_address


def test_a_client_that_asks_for_many_names_displaces_its_own_answers() -> None:
    cache = Cache(most=10)
    for number in range(4):
        cache.put((f"other{number}", 1), DnsAnswer(OK, (a_record("x"),)), 0.0, "other")
    cache.put(("other0", 1), DnsAnswer(OK, (a_record("x"),)), 0.0, "hostile")
    for number in range(100):
        cache.put((f"many{number}", 1), DnsAnswer(OK, (a_record("x"),)), 0.0, "hostile")
    assert all(cache.get((f"other{number}", 1), 1.0) for number in range(4))
    assert (len(cache), bool(cache.get(("many99", 1), 1.0))) == (10, True)


def test_whoever_has_most_in_memory_now_makes_room() -> None:
    """Not who had most some time ago."""
    cache = Cache(most=10)
    for client, names in (("a", 30), ("b", 30)):
        for number in range(names):
            cache.put((f"{client}{number}", 1), DnsAnswer(OK, (a_record("x.org"),)), 0.0, client)
    kept = {
        client: sum(cache.get((f"{client}{number}", 1), 1.0) is not None for number in range(30)) for client in "ab"
    }
    assert kept == {"a": 5, "b": 5}


def test_the_letters_of_each_query_are_large_or_small_by_chance() -> None:
    """Who forges an answer must guess them all (draft-vixie-dnsext-dns0x20). Nothing else of the question changes."""
    servers = Servers()
    asked, seen = question("a-1.bcd.example.org", Type.AAAA)[12:], list[bytes]()
    exchange = servers.resolver._exchange

    def keep(server: str, raw: bytes, seconds: float, mismatch: Callable[[], None]) -> Parsed:
        seen.append(raw)
        return exchange(server, raw, seconds, mismatch)

    servers.resolver._exchange = keep
    servers.failing = {"a", "b"}
    for _ in range(40):
        servers.resolver.resolve(parsed(HEAD + asked))
        servers.wait(10)
    assert {each.lower() for each in seen} == {asked.lower()}
    for place, byte in enumerate(asked[:-4]):
        assert len({each[place] for each in seen}) == (2 if chr(byte).isalpha() else 1)


def test_equal_questions_at_a_time_are_one() -> None:
    begun, go = threading.Event(), threading.Event()
    asked: list[str] = []

    def slow(server: str, raw: bytes, _seconds: float, _mismatch: Callable[[], None]) -> Parsed:
        asked.append(server)
        begun.set()
        assert go.wait(PATIENCE)
        return message(HEAD + raw, a_record("www.example.org"))

    resolver = UpstreamResolver(lambda _: ["a"], FakeContext().clock, MeshCounters(), slow)
    found: list[DnsAnswer] = []
    threads = [
        threading.Thread(target=lambda: found.append(resolver.resolve(parsed(question("www.example.org")))))
        for _ in range(3)
    ]
    threads[0].start()
    assert begun.wait(PATIENCE)
    for each in threads[1:]:
        each.start()
    go.set()
    for each in threads:
        each.join(PATIENCE)
    assert (len(found), asked) == (3, ["a"])
    assert [data_of(each) for each in found] == [["192.0.2.1"]] * 3


def test_an_external_name_is_asked_of_other_servers() -> None:
    others: list[bytes] = []

    def answer_of_others(asked: Question) -> DnsAnswer:
        others.append(asked.raw)
        return DnsAnswer(OK, (a_record(asked.name),), is_ours=False)

    names = names_of(FULL, answer_of_others)
    asked = reply(question(f"out.default.svc.{Z}"), names)
    assert isinstance(asked, Question)
    answer = names.by_others(asked)
    assert [each.name for each in answer.answers] == [f"out.default.svc.{Z}", "www.example.org"]
    assert others == [question("www.example.org")[12:]]
    assert isinstance(reply(question("8.8.8.8.in-addr.arpa", Type.PTR), names), Question)


def test_nobody_is_asked_for_a_service_that_has_an_address_by_then() -> None:
    names = names_of(FULL, lambda _: pytest.fail("another server is asked"))
    answer = names.by_others(parsed(question(f"web.default.svc.{Z}")))
    assert data_of(answer) == ["10.96.0.1"]


def test_a_client_that_asks_too_much_is_not_answered_for_a_while() -> None:
    """Case 38: the others are."""
    time = FakeContext()
    limiter = Limiter(time.clock)
    assert sum(limiter.allows("a") for _ in range(int(BURST) * 2)) == BURST
    assert limiter.allows("b")
    time.simulation.run_for(1)
    assert limiter.allows("a")


def test_a_client_may_ask_a_thousand_names_a_second_and_save_up_two_thousand() -> None:
    time = FakeContext()
    limiter = Limiter(time.clock)
    time.simulation.run_for(100)
    for seconds, allowed in ((0, BURST), (0.5, 500), (0.001, 1), (1000, BURST), (2, BURST), (0, 0)):
        time.simulation.run_for(seconds)
        assert sum(limiter.allows("a") for _ in range(3000)) == pytest.approx(allowed, abs=1)


def test_a_client_that_goes_on_asking_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else others' first queries gave it a new allowance. The one that has not asked for longest is forgotten."""
    monkeypatch.setattr("modules.edge.edgemesh.dns.server.MOST_CLIENTS", 2)
    limiter = Limiter(FakeContext().clock)
    for client in "ab":
        while limiter.allows(client):
            pass
    assert not limiter.allows("a")
    assert limiter.allows("c")
    assert not limiter.allows("a")
    assert limiter.allows("b")
    assert len(limiter._clients) == 2


def test_a_flood_of_names_costs_the_others_nothing() -> None:
    """Case 38: 10,000 random names a second from one pod, of servers that do not answer for 5 s; others ask now and
    then, and their questions are never refused, and asked of the servers at once or with the next place.
    """
    time, turns = FakeContext(), AskingTurns[tuple[str, float]]()
    limiter, under_way = Limiter(time.clock), list[tuple[float, str]]()
    waited, refused = list[float](), Counter[str]()

    def pump(now: float) -> None:
        for end, client in [each for each in under_way if each[0] <= now]:
            under_way.remove((end, client))
            turns.end(client)
        for client, (_, asked) in iter(turns.next, None):
            under_way.append((now + (5.0 if client == "flood" else 0.02), client))
            if client != "flood":
                waited.append(now - asked)

    for millisecond in range(20_000):
        now = time.clock.monotonic()
        clients = ["flood"] * 10 + (["a"] if millisecond % 10 == 0 else []) + (["b"] if millisecond % 100 == 0 else [])
        for client in clients:
            if not limiter.allows(client):
                refused[client] += 1
            elif (gives_way := turns.put(client, (client, now))) is not None:
                refused[gives_way[0]] += 1
            pump(now)
        time.simulation.run_for(0.001)
    assert len(waited) == 2_200
    assert set(refused) == {"flood"}
    assert max(waited) < 0.01


def test_long_answers_count_as_many_queries() -> None:
    time = FakeContext()
    limiter = Limiter(time.clock)
    number = 0
    while limiter.allows("a"):
        limiter.charge("a", 65535)
        number += 1
    assert number == -(-BURST // (1 + 65535 // 1232))
    assert limiter.allows("b")
    limiter.charge("c", 65535)
    assert limiter.allows("c")
    for _ in range(1000):
        limiter.charge("a", 65535)
    time.simulation.run_for(2.1)
    assert limiter.allows("a"), "a debt has an end"
    time.simulation.run_for(1)
    assert limiter.allows("a")


Connected = tuple[DnsConnection, socket.socket, FakeContext]
"""The server's end of a connection, the client's, and the time."""


@pytest.fixture
def connected() -> Iterator[Connected]:
    time = FakeContext()
    own, client = socket.socketpair()
    own.settimeout(0)
    with own, client:
        yield DnsConnection(own, "a", time.clock), client, time


def test_a_client_that_drips_is_read_and_stays(connected: Connected) -> None:
    connection, client, time = connected
    asked = question("a.org")
    found = []
    for byte in struct.pack("!H", len(asked)) + asked + b"\0\0":
        time.simulation.run_for(10)
        client.send(bytes([byte]))
        found += connection.read()
    assert found == [asked, b""]
    assert connection.at == time.clock.monotonic()


def test_a_client_that_takes_a_long_answer_slowly_stays(connected: Connected) -> None:
    connection, client, time = connected
    message = bytes(65_535)
    for _ in range(10):
        connection.queue(message)
    assert 0 < len(connection.unsent) <= 256 * 1024 + len(message) + 2
    begun = connection.at
    time.simulation.run_for(10)
    connection.send()
    assert connection.at == begun
    client.recv(1 << 18)
    connection.send()
    assert connection.at == time.clock.monotonic()


def test_messages_that_come_together_are_read_one_by_one(connected: Connected) -> None:
    """The last one may come in parts."""
    connection, client, _ = connected
    whole = b"".join(struct.pack("!H", len(each)) + each for each in (b"abcdef", b"", b"ghij"))
    client.send(whole[:-1])
    assert connection.read() == [b"abcdef", b""]
    assert connection.read() == []
    client.send(whole[-1:])
    assert connection.read() == [b"ghij"]


def test_a_client_that_is_gone_is_sent_nothing_more(connected: Connected) -> None:
    connection, client, _ = connected
    client.close()
    connection.queue(b"abc")
    assert not connection.is_open
    before = bytes(connection.unsent)
    connection.queue(b"def")
    assert bytes(connection.unsent) == before


def test_a_message_that_is_too_long_for_a_query_ends_the_connection(connected: Connected) -> None:
    connection, client, _ = connected
    client.send(framed(bytes(4096)))
    assert connection.read() == [bytes(4096)]
    client.send(struct.pack("!H", 4097))
    assert connection.read() == []
    assert not connection.is_open


def test_a_client_that_asks_too_much_over_tcp_loses_its_connection() -> None:
    with (
        serving() as (address, port, counters),
        patch.object(Limiter, "allows", lambda *_: False),
        socket.create_connection((address, port), PATIENCE) as stream,
    ):
        stream.sendall(framed(question("a.b")))
        assert not stream.recv(1)
    assert counters.dropped == 1


def test_an_answer_without_room_is_sent_when_there_is_some() -> None:
    def queue(connection: DnsConnection, message: bytes) -> None:
        connection.unsent += struct.pack("!H", len(message)) + message

    with (
        patch.object(DnsConnection, "queue", queue),
        serving() as (address, port, _),
        socket.create_connection((address, port), PATIENCE) as stream,
    ):
        stream.sendall(framed(question("a.b")))
        assert stream.recv(1)


def test_a_connection_that_idles_and_one_of_a_stranger_end() -> None:
    with (
        patch("modules.edge.edgemesh.dns.server.IDLE_SECONDS", 0.05),
        serving() as (address, port, counters),
        socket.create_connection((address, port), PATIENCE) as stream,
        socket.create_connection((address, port), PATIENCE, ("127.0.0.9", 0)) as stranger,
    ):
        assert not stranger.recv(1)
        assert counters.dropped == 1
        assert not stream.recv(1)


Served = tuple[str, int, MeshCounters]
"""Address and port of a server, and its counters."""


@contextmanager
def asking(client: str, server: tuple[str, int]) -> Iterator[socket.socket]:
    """A socket of a client with an address of its own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.settimeout(PATIENCE)
        channel.bind((client, 0))
        channel.connect(server)
        yield channel


def over_udp(client: socket.socket, name: str, number: int = 7) -> Parsed:
    """The answer to a query for an address."""
    client.send(question(name, number=number))
    return read_message(client.recv(9999))


def framed(data: bytes) -> bytes:
    """A message over TCP."""
    return struct.pack("!H", len(data)) + data


def _frame(stream: socket.socket) -> bytes:
    size = struct.unpack("!H", stream.recv(2, socket.MSG_WAITALL))[0]
    return stream.recv(size, socket.MSG_WAITALL)


def over_tcp(stream: socket.socket, name: str) -> Parsed:
    """The answer to a query for an address."""
    stream.sendall(framed(question(name)))
    return read_message(_frame(stream))


def own_sockets() -> tuple[socket.socket, socket.socket]:
    """A UDP and a TCP socket with one free number: a number may be free for one of them only."""
    while True:
        try:
            return open_sockets("127.0.0.1", HostAddresses(["/nowhere/program"]), 0)
        except OSError as error:
            assert error.errno == errno.EADDRINUSE


class Upstream:
    """Another server on UDP and TCP, whose answers a test makes."""

    def __init__(self, answers: Callable[[bytes], list[bytes]], whole: Callable[[bytes], bytes] | None = None) -> None:
        self.udp, self.tcp = own_sockets()
        self.port = self.udp.getsockname()[1]
        self._answers, self._whole = answers, whole
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._serve_udp, self._serve_tcp)]
        for each in self._threads:
            each.start()

    def close(self) -> None:
        """End."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", ("127.0.0.1", self.port))
        socket.create_connection(("127.0.0.1", self.port)).close()
        for each in self._threads:
            each.join(PATIENCE)
        self.udp.close()
        self.tcp.close()

    def _serve_udp(self) -> None:
        while True:
            data, source = self.udp.recvfrom(65535)
            if not data:
                return
            for each in self._answers(data):
                self.udp.sendto(each, source)

    def _serve_tcp(self) -> None:
        while True:
            accepted, _ = self.tcp.accept()
            with accepted:
                head = accepted.recv(2)
                if not head:
                    return
                asked = accepted.recv(struct.unpack("!H", head)[0])
                if self._whole is not None:
                    data = self._whole(asked)
                    accepted.sendall(struct.pack("!H", len(data)) + data)


def answered(asked: bytes, address: str = "192.0.2.1", *, cut: bool = False) -> bytes:
    """A server's answer to a query, in its letters."""
    found = parsed(asked)
    data = write(found, DnsAnswer(OK, (a_record(found.name, address),), is_ours=False), udp=True)
    return data[:2] + bytes([data[2] | (2 if cut else 0)]) + data[3:]


def test_a_server_that_does_not_keep_the_case_of_letters_is_asked_over_tcp() -> None:
    """Some routers do not; over TCP nobody can answer in a server's place."""

    def changed(asked: bytes) -> bytes:
        return HEADER.pack(*HEADER.unpack_from(asked)) + asked[12:].lower()

    mismatches: list[int] = []
    raw = question("WwW.example.org")[12:]
    server = Upstream(lambda asked: [answered(changed(asked), "192.0.2.66")], lambda asked: answered(changed(asked)))
    with closing(server):
        found = ask(RealClock(), f"127.0.0.1#{server.port}", raw, PATIENCE, lambda: mismatches.append(1))
    assert (found.answers[0].data, len(mismatches)) == (address_data("192.0.2.1"), 1)


def test_forged_answers_are_ignored_and_many_of_them_make_it_ask_over_tcp() -> None:
    """Case 37: a wrong id, another name, other letters."""

    def forge(asked: bytes) -> list[bytes]:
        right = answered(asked, "192.0.2.66")
        wrong_id = bytes([right[0] ^ 1]) + right[1:]
        other_letters = bytes([right[0] ^ 1]) + right[1:13] + bytes([right[13] ^ 0x20]) + right[14:]
        other_name = right[:13] + bytes([right[13] + 1]) + right[14:]
        return [wrong_id, other_letters, other_name, b"junk"]

    mismatches: list[int] = []
    raw = question("WwW.example.org")[12:]
    with closing(Upstream(lambda asked: [*forge(asked), answered(asked)])) as server:
        found = ask(RealClock(), f"127.0.0.1#{server.port}", raw, PATIENCE, lambda: mismatches.append(1))
    assert (found.answers[0].data, len(mismatches)) == (address_data("192.0.2.1"), 4)
    with closing(Upstream(lambda asked: forge(asked) * (MOST_MISMATCHES // 4), answered)) as server:
        found = ask(RealClock(), f"127.0.0.1#{server.port}", raw, PATIENCE, lambda: None)
    assert found.answers[0].data == address_data("192.0.2.1")


def test_an_answer_that_is_cut_is_asked_for_over_tcp() -> None:
    with closing(Upstream(lambda asked: [answered(asked, "192.0.2.66", cut=True)], answered)) as server:
        found = ask(RealClock(), f"127.0.0.1#{server.port}", question("a.org")[12:], PATIENCE, lambda: None)
    assert found.answers[0].data == address_data("192.0.2.1")


def test_an_answer_over_tcp_must_be_one_to_the_question() -> None:
    def another(asked: bytes) -> bytes:
        return bytes([asked[0] ^ 1]) + answered(asked)[1:]

    with closing(Upstream(lambda asked: [answered(asked, cut=True)], another)) as server, pytest.raises(WireError):
        ask(RealClock(), f"127.0.0.1#{server.port}", question("a.org")[12:], PATIENCE, lambda: None)


class Stepping(RealClock):
    """A clock on which a second passes from one look to the next."""

    def __init__(self) -> None:
        super().__init__()
        self._at = 0.0

    def monotonic(self) -> float:
        """Return a second more than before."""
        self._at += 1.0
        return self._at


@pytest.mark.parametrize("is_cut", [False, True], ids=["udp", "tcp"])
def test_the_time_for_a_server_ends_for_any_spread_of_its_bytes(*, is_cut: bool) -> None:
    """A forged answer now and then, or a byte, began the time again: a few servers could hold all places for hours."""
    mismatches: list[int] = []
    with (
        closing(Upstream(lambda asked: [answered(asked, cut=True)] if is_cut else [b"junk"] * 9, answered)) as server,
        pytest.raises(TimeoutError, match="no answer in time"),
    ):
        ask(Stepping(), f"127.0.0.1#{server.port}", question("a.org")[12:], 2.5, lambda: mismatches.append(1))
    assert len(mismatches) == (0 if is_cut else 2)


@contextmanager
def serving(
    *servers: str, allowed: str = "127.0.0.1/32", made: Zone = FULL, exchange: Ask | None = None
) -> Iterator[Served]:
    """A server of a zone that asks others for all else."""
    clock, counters = RealClock(), MeshCounters()
    names = DnsNames(made, UpstreamResolver(lambda _: servers, clock, counters, exchange))
    ports: list[int] = []

    def opened() -> tuple[socket.socket, socket.socket]:
        udp, tcp = own_sockets()
        ports.append(udp.getsockname()[1])
        ready.set()
        return udp, tcp

    ready = threading.Event()
    server = NameServer(names, opened, Clients([allowed], names), clock, counters)
    server.start()
    try:
        assert ready.wait(PATIENCE)
        yield "127.0.0.1", ports[0], counters
    finally:
        server.stop()
        clock.close()


@pytest.fixture
def served() -> Iterator[Served]:
    """A server that asks another one over sockets."""
    other = Upstream(lambda asked: [answered(asked)])
    with serving(f"127.0.0.1#{other.port}") as made:
        yield made
    other.close()


def test_others_are_answered_while_a_client_asks_for_names_whose_servers_do_not_answer() -> None:
    """As many questions as there are places would wait for seconds, and more of them were refused for all clients."""
    go = threading.Event()

    def exchange(_server: str, raw: bytes, _seconds: float, _mismatch: Callable[[], None]) -> Parsed:
        name = parsed(HEAD + raw).name
        assert not name.endswith("slow.org") or go.wait(PATIENCE * 10)
        return message(HEAD + raw, a_record(name))

    with (
        serving("a", allowed="127.0.0.0/8", exchange=exchange) as (address, port, _),
        asking("127.0.0.2", (address, port)) as hostile,
        asking("127.0.0.2", (address, port)) as hostile_too,
        asking("127.0.0.3", (address, port)) as other,
    ):
        sources = [hostile, hostile_too]
        try:
            for number in range(PLACES + MOST_OF_CLIENT):
                sources[number % 2].send(question(f"{number}.slow.org", number=number))
            for name in ("a.org", "b.org"):
                other.send(question(name))
                assert read_message(other.recv(9999)).answers[0].name == name
        finally:
            go.set()
        answers = [read_message(sources[number % 2].recv(9999)) for number in range(PLACES + MOST_OF_CLIENT)]
    assert sum(each.code == Code.SERVFAIL for each in answers) == PLACES // 2


def test_the_server_goes_on_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    """Without its thread the node would have no names until it restarts."""
    failures = list[Exception]()
    allows = Limiter.allows

    def fails_once(self: Limiter, client: str) -> bool:
        if failures:
            raise failures.pop()
        return allows(self, client)

    began = threading.Semaphore(0)

    def opened() -> tuple[socket.socket, socket.socket]:
        found = own_sockets()
        ports.append(found[0].getsockname())
        began.release()
        return found

    clock, counters, ports = RealClock(), MeshCounters(), list[tuple[str, int]]()
    names = DnsNames(FULL, UpstreamResolver(lambda _: [], clock, counters))
    server = NameServer(names, opened, Clients(["127.0.0.1/32"], names), clock, counters)
    with patch.object(Limiter, "allows", fails_once):
        server.start()
        try:
            asked = question(f"web.default.svc.{Z}")
            assert began.acquire(timeout=PATIENCE)
            with asking("127.0.0.1", ports[0]) as client, socket.create_connection(ports[0], PATIENCE) as stream:
                assert over_tcp(stream, WEB).code == OK
                failures.append(RuntimeError("nobody has thought of this"))
                client.send(asked)
                assert not stream.recv(1)
            assert began.acquire(timeout=PATIENCE)
            for _ in range(2):
                with asking("127.0.0.1", ports[1]) as client:
                    assert over_udp(client, WEB).code == OK
        finally:
            server.stop()
            clock.close()
    assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]


class Firewalled(socket.socket):
    """A socket that may not send answers to queries with the number 1."""

    def sendto(self, data: Any, *address: Any) -> int:
        """Send it, or fail."""
        if data[:2] == b"\0\1":
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return super().sendto(data, *address)


def test_an_answer_that_cannot_be_sent_is_lost_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    udp, tcp = own_sockets()
    found = Firewalled(fileno=udp.detach()), tcp
    monkeypatch.setattr(f"{__name__}.own_sockets", lambda: found)
    with (
        serving("a", exchange=lambda _server, raw, *_: message(HEAD + raw, a_record("www.org"))) as (address, port, _),
        asking("127.0.0.1", (address, port)) as client,
    ):
        for name in (WEB, "www.org"):
            client.send(question(name, number=1))
            assert over_udp(client, name).code == OK


def test_a_question_that_fails_is_answered_and_ends_its_turn(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is wrong with it; a client whose turns never end has no names of others."""

    def exchange(_server: str, raw: bytes, _seconds: float, _mismatch: Callable[[], None]) -> Parsed:
        name = parsed(HEAD + raw).name
        if "bad" in name:
            raise RuntimeError("nobody has thought of this")
        return message(HEAD + raw, a_record(name))

    with (
        serving("a", exchange=exchange) as (address, port, _),
        asking("127.0.0.1", (address, port)) as client,
    ):
        for number in range(PLACES + 1):
            assert over_udp(client, f"{number}.bad.org", number).code == Code.SERVFAIL
        assert over_udp(client, "good.org").answers[0].name == "good.org"
    assert len([record for record in caplog.records if record.exc_info]) == PLACES + 1


def test_without_descriptors_its_thread_sleeps_and_names_are_answered_over_udp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that waits is accepted later."""
    accept, tries, lack = socket.socket.accept, list[int](), threading.Event()
    tried = threading.Event()

    def accepts(listening: socket.socket) -> tuple[socket.socket, Any]:
        tries.append(1)
        tried.set()
        if lack.is_set():
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return accept(listening)

    lack.set()
    monkeypatch.setattr(socket.socket, "accept", accepts)
    monkeypatch.setattr("modules.edge.edgemesh.dns.server.REST_SECONDS", 60.0)
    with (
        serving() as (address, port, _),
        asking("127.0.0.1", (address, port)) as client,
        socket.create_connection((address, port), PATIENCE) as stream,
    ):
        assert tried.wait(PATIENCE)
        assert over_udp(client, WEB).code == OK
        assert len(tries) <= 2
        lack.clear()
        assert over_udp(client, WEB).code == OK
        assert over_tcp(stream, WEB).code == OK


def test_the_oldest_connection_of_the_client_with_most_makes_room() -> None:
    with (
        serving(allowed="127.0.0.0/8") as (address, port, counters),
        ExitStack() as opened,
    ):

        def connect(client: str) -> socket.socket:
            stream = socket.create_connection((address, port), PATIENCE, (client, 0))
            return opened.enter_context(stream)

        def is_answered(stream: socket.socket) -> bool:
            asked = question(f"web.default.svc.{Z}")
            try:
                stream.sendall(framed(asked))
                return bool(_frame(stream))
            except (OSError, struct.error):
                return False

        hostile = [connect("127.0.0.2") for _ in range(MOST_CONNECTIONS)]
        assert all(is_answered(each) for each in hostile)
        others = [connect("127.0.0.3"), connect("127.0.0.4")]
        assert all(is_answered(each) for each in others)
        assert not is_answered(connect("127.0.0.2"))
        assert [is_answered(each) for each in hostile[:3]] == [False, False, True]
    assert counters.dropped == 1


@pytest.mark.parametrize(
    ("asked", "under_way", "refused"),
    [
        ({"a": PLACES}, {"a": PLACES // 2}, 0),
        ({"a": 100, "b": 1}, {"a": PLACES // 2, "b": 1}, 100 - PLACES // 2 - MOST_OF_CLIENT),
        ({"a": 30, "b": 30, "c": 3}, {"a": 16, "b": 8, "c": 3}, 0),
    ],
)
def test_some_places_are_free_for_the_next_client(
    asked: dict[str, int], under_way: dict[str, int], refused: int
) -> None:
    turns: AskingTurns[str] = AskingTurns()
    begun: list[str] = []
    given_up = 0
    for client, number in asked.items():
        for _ in range(number):
            given_up += turns.put(client, client) is not None
            begun += [client for client, _ in iter(turns.next, None)]
    assert (Counter(begun), given_up) == (under_way, refused)


def test_clients_that_wait_take_turns_and_the_longest_queue_gives_way() -> None:
    turns: AskingTurns[str] = AskingTurns()
    for client in (f"{number}" for number in range(PLACES)):
        turns.put(client, client)
    begun = [client for client, _ in iter(turns.next, None)]
    for client in ("a", "a", "a", "b"):
        turns.put(client, client)
    order = []
    for client in begun[:4]:
        turns.end(client)
        order += [each for each, _ in iter(turns.next, None)]
    assert order == ["a", "b", "a"]
    clients = [f"10.86.0.{number}" for number in range(MOST_WAITING)]
    assert not any(turns.put(client, client) for client in clients[: -MOST_OF_CLIENT - 1])
    for number in range(MOST_OF_CLIENT):
        turns.put("c", f"c{number}")
    assert turns.put("d", "d") == f"c{MOST_OF_CLIENT - 1}"


def test_clients_take_turns_also_while_places_are_free() -> None:
    turns: AskingTurns[str] = AskingTurns()
    for client in ("a", "a", "a", "b"):
        turns.put(client, client)
    assert [each for each, _ in iter(turns.next, None)] == ["a", "b", "a", "a"]


def test_the_server_answers_over_udp_and_tcp(served: Served) -> None:
    """Case 40 too: an address that may not ask gets no answer, and is counted."""
    address, port, counters = served
    asked = question(f"web.default.svc.{Z}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.0.0.9", 0))
        stranger.sendto(asked, (address, port))
        with asking("127.0.0.1", (address, port)) as client:
            for name in (f"web.default.svc.{Z}", "www.example.org", "www.example.org"):
                assert over_udp(client, name).answers[0].name == name
        assert counters.dropped == 1
    with socket.create_connection((address, port), PATIENCE) as stream:
        two = b"".join(struct.pack("!H", len(each)) + each for each in (question("b.example.org"), asked))
        stream.sendall(two)
        names = {read_message(_frame(stream)).answers[0].name for _ in range(2)}
    assert names == {"b.example.org", f"web.default.svc.{Z}"}
    assert counters.answers["NOERROR"] == 5


def test_the_server_cuts_long_answers_over_udp_only() -> None:
    many = slice_of(*(endpoint(f"10.86.1.{number}") for number in range(60)), name="db")
    with (
        serving(made=zone(HEADLESS, db=many)) as (host, port, _),
        asking(host, (host, port)) as client,
        socket.create_connection((host, port), PATIENCE) as stream,
    ):
        assert over_udp(client, f"db.default.svc.{Z}").is_cut
        assert len(over_tcp(stream, f"db.default.svc.{Z}").answers) == 60


def test_long_answers_of_other_servers_are_cut_over_udp_only() -> None:
    def exchange(_server: str, raw: bytes, _seconds: float, _mismatch: Callable[[], None]) -> Parsed:
        name = parsed(HEAD + raw).name
        return message(HEAD + raw, *(a_record(name, f"10.86.1.{number}") for number in range(60)))

    charged: list[int] = []
    with (
        patch.object(Limiter, "charge", lambda _self, _client, size: charged.append(size)),
        serving("a", exchange=exchange) as (host, port, _),
        asking(host, (host, port)) as client,
        socket.create_connection((host, port), PATIENCE) as stream,
    ):
        for name, is_remembered in (("u.org", False), ("t.org", False), ("t.org", True)):
            asked = question(name)
            if name == "u.org":
                assert over_udp(client, name).is_cut
                continue
            stream.sendall(framed(asked))
            answer = _frame(stream)
            assert len(read_message(answer).answers) == 60
            assert charged == [len(answer)] * is_remembered, "what the memory of others costs is not the client's"


def test_a_connection_that_has_ended_is_looked_at_no_more() -> None:
    tidy, turns = NameServer._tidy, list[int]()

    def counted(self: NameServer, poll: Any) -> None:
        turns.append(1)
        tidy(self, poll)

    with (
        patch.object(NameServer, "_tidy", counted),
        serving() as (host, port, _),
        asking(host, (host, port)) as client,
    ):
        for _ in range(3):
            with socket.create_connection((host, port), PATIENCE) as stream:
                assert over_tcp(stream, WEB).code == OK
            over_udp(client, WEB)
    assert len(turns) <= 30


def test_a_client_of_as_many_connections_as_another_takes_none_of_its(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else they would take each other's in turn."""
    monkeypatch.setattr("modules.edge.edgemesh.dns.server.MOST_CONNECTIONS", 3)
    asked = question(f"web.default.svc.{Z}")
    with (
        serving(allowed="127.0.0.0/8") as (host, port, counters),
        ExitStack() as opened,
    ):

        def connect(client: str) -> socket.socket:
            stream = opened.enter_context(socket.create_connection((host, port), PATIENCE, (client, 0)))
            with suppress(OSError):
                stream.sendall(framed(asked))
            return stream

        streams = [connect(client) for client in ("127.0.0.2", "127.0.0.2", "127.0.0.3")]
        assert [read_message(_frame(each)).code for each in streams] == [OK] * 3
        with suppress(ConnectionError):
            assert not connect("127.0.0.3").recv(1)
        assert read_message(_frame(connect("127.0.0.4"))).code == OK
        assert not streams[0].recv(1), "the oldest of the client with most"
    assert counters.dropped == 1


def test_the_server_learns_names_and_listens_as_soon_as_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then the node's owner sees why nobody is answered."""
    monkeypatch.setattr("modules.edge.edgemesh.dns.server.AGAIN_SECONDS", 0.001)
    is_free, tried, ports = threading.Event(), threading.Semaphore(0), list[tuple[str, int]]()

    def opened() -> tuple[socket.socket, socket.socket]:
        if not is_free.is_set():
            tried.release()
            raise OSError("another server is there")
        found = own_sockets()
        ports.append(found[0].getsockname())
        tried.release()
        return found

    clock, counters = RealClock(), MeshCounters()
    names = DnsNames(zone(known=False), UpstreamResolver(lambda _: [], clock, counters))
    server = NameServer(names, opened, Clients(["127.0.0.1/32"], names), clock, counters)
    server.start()
    try:
        for _ in range(3):
            assert tried.acquire(timeout=PATIENCE)
        assert server.explain("web", "default", "").problem.endswith("another server is there")
        is_free.set()
        while not ports:
            assert tried.acquire(timeout=PATIENCE)
        web, of_pod = f"web.default.svc.{Z}", f"192-0-2-9.default.pod.{Z}"
        with asking("127.0.0.1", ports[0]) as client:

            def code_of(name: str) -> int:
                return over_udp(client, name).code

            assert code_of(web) == Code.SERVFAIL
            server.known()
            assert code_of(web) == NX
            server.put(ServiceKey("default", "web"), service(), ("10.96.0.1",), [])
            assert (code_of(web), code_of(of_pod)) == (OK, NX)
            server.pods_changed((pod(ip="192.0.2.9"),))
            assert code_of(of_pod) == OK
        found = server.explain("web", "default", "A")
        assert (found.problem, found.addresses) == ("", ("10.96.0.1",))
    finally:
        server.stop()
        clock.close()


@pytest.mark.parametrize("is_allowed", [False, True])
@pytest.mark.parametrize(("address", "added"), [("127.0.0.1", []), ("192.0.2.53", ["192.0.2.53"])])
def test_the_node_gets_the_servers_address_unless_it_is_a_loopback_one(
    address: str, added: list[str], *, is_allowed: bool
) -> None:
    """A user that may not give it may listen all the same, if it is there: here it is not."""
    asked_for: list[str] = []

    class Machine(HostAddresses):
        def add_address(self, address: str) -> None:
            """Note it."""
            asked_for.append(address)
            if not is_allowed:
                raise AddressError("not permitted")

    if added:
        with pytest.raises(OSError, match="assign"):
            open_sockets(address, Machine(), 0)
    else:
        for each in open_sockets(address, Machine(), 0):
            each.close()
    assert asked_for == added


def test_another_number_is_tried_where_a_port_is_free_for_one_protocol_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that was asked for has no other."""
    failing = Failing(0, OSError("the address is in use"))
    monkeypatch.setattr(dns_host, "_bound", failing.call(lambda *given: given))
    assert [*open_sockets("127.0.0.1", HostAddresses(), 0)] == ["127.0.0.1", 0]
    monkeypatch.setattr(dns_host, "_bound", Failing(0, OSError("the address is in use")).call(print))
    with pytest.raises(OSError, match="in use"):
        open_sockets("127.0.0.1", HostAddresses(), 53)


def test_pods_may_ask_and_neighbours_may_not() -> None:
    """Case 40."""
    names = names_of(zone(service()))
    clients = Clients(["10.86.0.0/16"], names)
    assert clients("10.86.7.7")
    assert not clients("192.0.2.9")
    assert not clients("fd00::9")
    assert not clients("no address")
    names.pods_changed((pod(ip="192.0.2.9"),))
    assert clients("192.0.2.9")


def test_a_pod_has_its_name_while_it_is_there() -> None:
    names, asked = names_of(zone(service())), question(f"192-0-2-9.default.pod.{Z}")
    for pods, code in (((), NX), ((pod(ip="192.0.2.9"),), OK), ((), NX)):
        names.pods_changed(pods)
        assert read_message(reply(asked, names)).code == code


def test_servers_of_a_name(tmp_path: Any) -> None:
    """The longest domain first; never this server itself."""
    file = tmp_path / "resolv.conf"
    file.write_text("nameserver 169.254.20.10\nnameserver 192.0.2.53\n")
    servers = HostServers(file, (), {"example.org": "192.0.2.1", "a.example.org.": "192.0.2.2"}, "169.254.20.10")
    assert servers("www.other.org") == ["192.0.2.53"]
    assert servers("x.example.org") == ["192.0.2.1"]
    assert servers("b.a.example.org") == ["192.0.2.2"]
    assert servers("notexample.org") == ["192.0.2.53"]
    assert HostServers(file, ("192.0.2.7",), {}, "169.254.20.10")("x") == ["192.0.2.7"]
    assert HostServers(tmp_path / "none", (), {}, "169.254.20.10")("x") == []


@pytest.mark.parametrize(("listed", "expected"), [("127.0.0.53", "192.0.2.9"), ("192.0.2.53", "192.0.2.53")])
def test_in_the_place_of_systemd_s_server_its_servers_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str, expected: str
) -> None:
    """It may ask this one, and that would go round in a circle."""
    file, real = tmp_path / "resolv.conf", tmp_path / "real.conf"
    file.write_text(f"nameserver {listed}\n")
    real.write_text("nameserver 192.0.2.9\n")
    monkeypatch.setattr("modules.edge.edgemesh.dns.host.REAL_LIST", real)
    assert HostServers(file, (), {}, "169.254.20.10")("x") == [expected]


def test_a_question_that_ends_in_an_error_is_asked_again_and_nobody_waits_for_it() -> None:
    def make(failing: Failing) -> Attempt:
        servers = Servers()
        servers.resolver._exchange = failing.call(servers.resolver._exchange)
        return Attempt(servers.resolve, (servers.resolver,))

    assert fail_at_each_call(make, ValueError("of this test")) == 1
