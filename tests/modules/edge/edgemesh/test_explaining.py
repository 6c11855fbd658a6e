"""What `edgecore resolve` shows: the queries of a pod, and who answers."""

import pytest

from beehive.testing import FakeContext
from modules.edge.edgemesh.backends import backends_of_slices
from modules.edge.edgemesh.counters import MeshCounters
from modules.edge.edgemesh.dns.explaining import Resolution, candidates, explain
from modules.edge.edgemesh.dns.resolving import DnsNames
from modules.edge.edgemesh.dns.upstream import LONGEST_TTL, UpstreamResolver
from modules.edge.edgemesh.dns.wire import (
    Code,
    DnsAnswer,
    Parsed,
    Question,
    Record,
    Type,
    WireError,
    address_data,
    read_question,
)
from modules.edge.edgemesh.dns.zone import Zone
from modules.edge.edgemesh.objects import ServiceKey
from modules.edge.edgemesh.tables import cluster_ips
from tests.modules.edge.edgemesh.objects import endpoint, service, slice_of

Z = "cluster.local"


class Node:
    """The names of a node with two Services, and one other server, in virtual time."""

    def __init__(self, *, is_known: bool = True) -> None:
        self.clock = FakeContext().simulation
        self.is_up = True
        context = FakeContext()
        self.simulation = context.simulation
        self.zone = Zone(Z, context.clock.random)
        self.zone.is_known = is_known
        if is_known:
            port = {"name": "http", "port": 80, "targetPort": 8080}
            web = service(ports=[port])
            self.zone.put(ServiceKey("default", "web"), web, cluster_ips(web), [])
            ends = slice_of(endpoint("192.0.2.7", hostname="a"), name="set", ports=[{"name": "http", "port": 8080}])
            headless = service("set", "None", ports=[port])
            self.zone.put(ServiceKey("default", "set"), headless, (), list(backends_of_slices([ends])))
        resolver = UpstreamResolver(lambda _: ["192.0.2.53"], context.clock, MeshCounters(), self._ask)
        self.names = DnsNames(self.zone, resolver)

    def _ask(self, server: str, raw: bytes, seconds: float, mismatch: object) -> Parsed:
        if not self.is_up:
            raise TimeoutError
        asked = read_question(b"\0\1\1\0\0\1\0\0\0\0\0\0" + raw)
        assert not isinstance(asked, Code) and asked is not None
        is_there = asked.name == "example.com" and asked.type == Type.A
        records = (Record("example.com", Type.A, 60, address_data("192.0.2.80")),) if is_there else ()
        return Parsed(1, 0x8180 | (0 if asked.name == "example.com" else Code.NXDOMAIN), raw, records, ())

    def resolve(self, name: str, type_: str = "", namespace: str = "default") -> Resolution:
        """What is shown."""
        return explain(self.names, name, namespace, type_)


def outcomes(found: Resolution) -> list[tuple[str, str, str, str]]:
    """The queries, and the source of each answer."""
    return [(each.name, each.type, each.code, each.source) for each in found.asked]


def test_a_name_is_looked_for_as_by_a_pod() -> None:
    assert candidates("web", "ns", Z) == [f"web.ns.svc.{Z}", f"web.svc.{Z}", f"web.{Z}", "web"]
    assert candidates("a.b.c.d.e.f", "ns", Z)[0] == "a.b.c.d.e.f"
    assert candidates("web.", "ns", Z) == ["web"]
    assert candidates("192.0.2.1", "ns", Z) == ["1.2.0.192.in-addr.arpa"]


def test_a_service_is_found_immediately_and_in_its_namespace_only() -> None:
    node = Node()
    found = node.resolve("web")
    assert found.addresses == ("10.96.0.1",)
    assert outcomes(found) == [
        (f"web.default.svc.{Z}", "A", "NOERROR", "this node"),
        (f"web.default.svc.{Z}", "AAAA", "NOERROR", "this node"),
    ]
    elsewhere = node.resolve("web", namespace="other")
    assert elsewhere.addresses == ()
    assert outcomes(elsewhere)[-1] == ("web", "AAAA", "NXDOMAIN", "192.0.2.53")


def test_records_are_shown_as_texts() -> None:
    node = Node()
    (srv,) = node.resolve("_http._tcp.set", "SRV").asked[0].records
    assert (srv.ttl, srv.value) == (5, f"0 100 8080 a.set.default.svc.{Z}")
    (name,) = node.resolve("10.96.0.1").asked[0].records
    assert (name.type, name.value) == ("PTR", f"web.default.svc.{Z}")
    assert node.resolve(f"dns-version.{Z}.", "TXT").asked[0].records[0].value == "1.1.0"


@pytest.mark.parametrize(
    ("type_", "data", "value"),
    [
        (Type.TXT, b"\x02hi", "hi"),
        (Type.TXT, b"\x02hi\x03you", "hiyou"),
        (Type.TXT, b"", ""),
        (Type.A, b"abc", "616263"),
        (Type.SRV, b"\0\0", "0000"),
        (Type.HINFO, b"\1x", "0178"),
    ],
)
def test_data_of_others_that_is_no_text_is_shown_in_hexadecimal_digits(type_: Type, data: bytes, value: str) -> None:
    class Others:
        domain = Z

        def explained(self, question: Question) -> tuple[DnsAnswer, str]:
            """Answer whatever is asked."""
            return DnsAnswer(Code.NOERROR, (Record(question.name, type_, 5, data),)), "192.0.2.53"

    ((shown,),) = (each.records for each in explain(Others(), "a.org.", "default", "TXT").asked)
    assert (shown.type, shown.value) == (type_.name, value)


def test_other_names_are_answered_by_others_from_memory_and_by_nobody() -> None:
    node = Node()
    found = node.resolve("example.com.")
    assert (found.addresses, found.asked[0].source) == (("192.0.2.80",), "192.0.2.53")
    node.is_up = False
    assert node.resolve("example.com.").asked[0].source == "192.0.2.53, remembered"
    node.simulation.run_for(LONGEST_TTL)
    stale = node.resolve("example.com.").asked[0]
    assert (stale.source, stale.records[0].ttl) == ("192.0.2.53, remembered: no name server answers", 30)
    for source in ("nobody: no name server answers", "nobody: no name server has answered lately"):
        nothing = node.resolve("other.example.").asked
        assert [(each.code, each.source) for each in nothing] == [("SERVFAIL", source)] * 2


def test_before_the_cloud_has_sent_its_services_nothing_is_known() -> None:
    found = Node(is_known=False).resolve("web")
    assert outcomes(found) == [(f"web.default.svc.{Z}", each, "SERVFAIL", "this node") for each in ("A", "AAAA")]


@pytest.mark.parametrize("name", ["a..b", "a" * 64, ".".join(["abcdefgh"] * 40)])
def test_other_texts_than_names_are_refused(name: str) -> None:
    with pytest.raises(WireError):
        Node().resolve(name)
