"""Messages of the name server beside dnspython's, which reads and writes them by the RFCs and not by our code."""

import struct

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.edge.edgemesh.dns.wire import (
    HEADER,
    Code,
    DnsAnswer,
    Question,
    Record,
    Type,
    WireError,
    address_data,
    minimum_of,
    query,
    read_message,
    read_question,
    soa_data,
    write,
)
from tests.modules.edge.edgemesh.test_dns import Z, reply

_DB = f"db.default.svc.{Z}."


def _asked(
    name: str, type_: str, *, is_recursive: bool = True, payload: int | None = None
) -> tuple[dns.message.Message, dns.message.Message]:
    """A query, and our answer."""
    asked = dns.message.make_query(name, type_)
    if payload is not None:
        asked.use_edns(0, payload=payload)
    if not is_recursive:
        asked.flags &= ~dns.flags.RD
    answer = dns.message.from_wire(reply(asked.to_wire()), raise_on_truncation=True)
    assert asked.is_response(answer)
    assert answer.opcode() == asked.opcode()
    return asked, answer


def _lines(section: list[dns.rrset.RRset]) -> set[str]:
    return {line for each in section for line in each.to_text().split("\n")}


@pytest.mark.parametrize(
    ("name", "type_", "answers", "additional"),
    [
        (f"web.default.svc.{Z}", "A", {f"web.default.svc.{Z}. 5 IN A 10.96.0.1"}, set()),
        (f"web.default.svc.{Z}", "AAAA", {f"web.default.svc.{Z}. 5 IN AAAA fd00::1"}, set()),
        (f"in.default.svc.{Z}", "A", {
            f"in.default.svc.{Z}. 5 IN CNAME web.default.svc.{Z}.", f"web.default.svc.{Z}. 5 IN A 10.96.0.1",
        }, set()),
        (f"_sql._tcp.{_DB}", "SRV", {
            f"_sql._tcp.{_DB} 5 IN SRV 0 100 5432 {host}.{_DB}" for host in ("db-0", "db-1", "10-86-0-4")
        }, {f"db-0.{_DB} 5 IN A 10.86.0.2", f"db-1.{_DB} 5 IN A 10.86.0.3", f"10-86-0-4.{_DB} 5 IN A 10.86.0.4"}),
        (_DB, "SRV", {
            f"{_DB} 5 IN SRV 0 100 {port} {host}.{_DB}"
            for port in (5432, 8080) for host in ("db-0", "db-1", "10-86-0-4")
        }, {f"db-0.{_DB} 5 IN A 10.86.0.2", f"db-1.{_DB} 5 IN A 10.86.0.3", f"10-86-0-4.{_DB} 5 IN A 10.86.0.4"}),
        (f"web.default.svc.{Z}", "SRV", {f"web.default.svc.{Z}. 5 IN SRV 0 100 80 web.default.svc.{Z}."},
         {f"web.default.svc.{Z}. 5 IN A 10.96.0.1", f"web.default.svc.{Z}. 5 IN AAAA fd00::1"}),
        ("1.0.96.10.in-addr.arpa", "PTR", {f"1.0.96.10.in-addr.arpa. 5 IN PTR web.default.svc.{Z}."}, set()),
        (f"dns-version.{Z}", "TXT", {f'dns-version.{Z}. 5 IN TXT "1.1.0"'}, set()),
        (Z, "NS", {f"{Z}. 5 IN NS ns.dns.{Z}."}, set()),
        (Z, "SOA", {f"{Z}. 5 IN SOA ns.dns.{Z}. hostmaster.{Z}. 10 7200 1800 86400 5"}, set()),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_recursive", [False, True])
@pytest.mark.parametrize("payload", [None, 1232])
def test_answers_of_the_zone(
    name: str, type_: str, answers: set[str], additional: set[str], *, is_recursive: bool, payload: int | None
) -> None:
    asked, answer = _asked(name, type_, is_recursive=is_recursive, payload=payload)
    assert _lines(answer.answer) == answers
    assert (_lines(answer.authority), _lines(answer.additional)) == (set(), additional)
    flags = dns.flags.QR | dns.flags.AA | dns.flags.RA | (asked.flags & dns.flags.RD)
    assert (answer.flags, answer.rcode()) == (flags, dns.rcode.NOERROR)
    assert (answer.edns, answer.payload) == ((-1, 0) if payload is None else (0, 1232))


@pytest.mark.parametrize(
    ("name", "type_", "code"),
    [(f"no.default.svc.{Z}", "A", "NXDOMAIN"), (f"web.default.svc.{Z}", "TXT", "NOERROR"), (Z, "A", "NOERROR")],
)
def test_the_lack_of_a_record_has_the_zone(name: str, type_: str, code: str) -> None:
    _, answer = _asked(name, type_)
    assert (answer.answer, dns.rcode.to_text(answer.rcode())) == ([], code)
    assert _lines(answer.authority) == {f"{Z}. 5 IN SOA ns.dns.{Z}. hostmaster.{Z}. 10 7200 1800 86400 5"}


def test_an_answer_of_another_server_is_not_ours() -> None:
    record = Record("a.test", Type.A, 300, address_data("192.0.2.1"))
    question = _question(dns.message.make_query("a.test", "A"))
    assert isinstance(question, Question)
    answer = dns.message.from_wire(write(question, DnsAnswer(Code.NOERROR, (record,), is_ours=False), udp=True))
    assert answer.flags == dns.flags.QR | dns.flags.RA | dns.flags.RD
    assert _lines(answer.answer) == {"a.test. 300 IN A 192.0.2.1"}


def test_a_refusal_has_the_header_only() -> None:
    """With the operation and the wish for recursion of the query, as far as they could be read."""
    data = HEADER.pack(77, 0x0100 | 4 << 11, 0, 0, 0, 0)
    answer = dns.message.from_wire(reply(data))
    assert (answer.id, answer.rcode(), answer.opcode()) == (77, dns.rcode.FORMERR, 4)
    assert (answer.flags & 0x87F0, len(answer.question)) == (dns.flags.QR | dns.flags.RD, 0)


def test_another_operation_is_not_implemented() -> None:
    asked = dns.message.make_query("a.test", "A")
    asked.set_opcode(dns.opcode.NOTIFY)
    answer = dns.message.from_wire(reply(asked.to_wire()))
    assert (answer.rcode(), answer.opcode()) == (dns.rcode.NOTIMP, dns.opcode.NOTIFY)


def test_our_query_is_a_query() -> None:
    asked = dns.message.make_query("a.test", "AAAA")
    ours = dns.message.from_wire(query(9, asked.to_wire()[12:]))
    assert (ours.id, ours.flags, ours.edns, ours.payload) == (9, dns.flags.RD, 0, 1232)
    assert ours.question == asked.question


def _question(asked: dns.message.Message) -> Question | Code | None:
    return read_question(asked.to_wire())


def test_options_of_edns_are_passed_over() -> None:
    options: list[dns.edns.Option] = [dns.edns.GenericOption("COOKIE", b"cookie-8")]
    found = _question(dns.message.make_query("a.test", "A", use_edns=0, payload=900, options=options))
    assert isinstance(found, Question)
    assert (found.has_edns, found.size, found.edns_version) == (True, 900, 0)
    newer = _question(dns.message.make_query("a.test", "A", use_edns=3, payload=100))
    assert isinstance(newer, Question)
    assert (newer.has_edns, newer.size, newer.edns_version) == (True, 512, 3)


@pytest.mark.parametrize("owner", ["b.test.", "."])
def test_another_additional_record_is_not_edns(owner: str) -> None:
    asked = dns.message.make_query("a.test", "A")
    asked.additional.append(dns.rrset.from_text(owner, 7, "IN", "A", "192.0.2.1"))
    found = _question(asked)
    assert isinstance(found, Question)
    assert (found.has_edns, found.size, found.name) == (False, 512, "a.test")


def test_edns_that_is_cut_off_is_malformed() -> None:
    options: list[dns.edns.Option] = [dns.edns.GenericOption("COOKIE", b"cookie-8")]
    whole = dns.message.make_query("a.test", "A", use_edns=0, options=options).to_wire()
    end = len(whole) - 23
    cut = {bytes_: read_question(whole[:bytes_]) for bytes_ in range(end, len(whole))}
    assert set(cut.values()) == {Code.FORMERR}
    assert isinstance(read_question(whole), Question)


_LABELS = st.text("abcxyz019-_", min_size=1, max_size=12) | st.sampled_from(["a" * 63, "b"])
_NAMES = st.lists(st.sampled_from(["a", "b", "test", "example"]) | _LABELS, max_size=3).map(
    lambda labels: ".".join([*labels, "t."])
)
_BYTES = st.integers(0, 255)
_SHORTS = st.integers(0, 65_535)
_LONGS = st.integers(0, (1 << 32) - 1)
_DATA = st.one_of(
    st.tuples(st.just("A"), st.lists(_BYTES, min_size=4, max_size=4).map(lambda each: ".".join(map(str, each)))),
    st.tuples(st.just("AAAA"), _SHORTS.map(lambda each: f"2001:db8::{each:x}")),
    st.tuples(st.sampled_from(["NS", "CNAME", "PTR"]), _NAMES),
    st.tuples(st.just("SOA"), st.tuples(_NAMES, _NAMES, *[_LONGS] * 5).map(lambda each: " ".join(map(str, each)))),
    st.tuples(st.just("MX"), st.tuples(_SHORTS, _NAMES).map(lambda each: f"{each[0]} {each[1]}")),
    st.tuples(st.just("SRV"), st.tuples(*[_SHORTS] * 3, _NAMES).map(lambda each: " ".join(map(str, each)))),
    st.tuples(st.just("TXT"), st.text("abc", max_size=20).map(lambda each: f'"{each}"')),
)
_RECORDS = st.lists(st.tuples(_NAMES, st.integers(0, (1 << 31) - 1), _DATA), max_size=6)


def _sections(records: list[tuple[str, int, tuple[str, str]]]) -> list[dns.rrset.RRset]:
    return [dns.rrset.from_text(owner, ttl, "IN", type_, text) for owner, ttl, (type_, text) in records]


def _as_ours(section: list[dns.rrset.RRset]) -> tuple[Record, ...]:
    return tuple(
        Record(each.name.to_text(omit_final_dot=True), each.rdtype, each.ttl, each[0].to_wire(origin=dns.name.root))
        for each in section
    )


@given(_NAMES, _RECORDS, _RECORDS)
def test_messages_of_others_are_read_and_written_again(
    name: str, answers: list[tuple[str, int, tuple[str, str]]], authority: list[tuple[str, int, tuple[str, str]]]
) -> None:
    """With the names in their data, which they compress."""
    theirs = dns.message.make_response(dns.message.make_query(name, "A"))
    theirs.answer, theirs.authority = _sections(answers), _sections(authority)
    found = read_message(theirs.to_wire(max_size=65_535))
    assert (found.id, found.is_response, found.is_cut, found.code) == (theirs.id, True, False, 0)
    assert (found.answers, found.authority) == (_as_ours(theirs.answer), _as_ours(theirs.authority))
    question = read_question(dns.message.make_query(name, "A").to_wire())
    assert isinstance(question, Question)
    ours = write(question, DnsAnswer(Code.NOERROR, found.answers, (), found.authority), udp=False)
    again = dns.message.from_wire(ours, one_rr_per_rrset=True)
    assert (again.answer, again.additional) == (theirs.answer, theirs.authority)
    ttls = [each.ttl for each in theirs.answer]
    assert [each.ttl for each in again.answer] == ttls


@given(_NAMES, _RECORDS, st.integers(1, 400))
def test_a_message_that_is_cut_off_is_malformed(
    name: str, answers: list[tuple[str, int, tuple[str, str]]], cut: int
) -> None:
    theirs = dns.message.make_response(dns.message.make_query(name, "A"))
    theirs.answer = _sections(answers)
    data = theirs.to_wire(max_size=65_535)
    with pytest.raises(WireError):
        read_message(data[: max(0, len(data) - cut)])


@pytest.mark.parametrize("type_", ["NS", "CNAME", "PTR", "SOA", "MX", "SRV"])
@pytest.mark.parametrize("change", [-1, 1])
def test_data_of_another_length_than_its_names_is_malformed(type_: str, change: int) -> None:
    text = {"SOA": "a.t. b.t. 1 2 3 4 5", "MX": "1 a.t.", "SRV": "1 2 3 a.t."}.get(type_, "a.t.")
    theirs = dns.message.make_response(dns.message.make_query("q.test", "A"))
    whole = theirs.to_wire()
    data = dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.from_text(type_), text).to_wire()
    assert data is not None
    head = struct.pack("!HHHIH", 0xC00C, dns.rdatatype.from_text(type_), 1, 5, len(data) + change)
    with pytest.raises(WireError):
        read_message(whole[:6] + b"\0\1" + whole[8:] + head + data + b"\0")


@pytest.mark.parametrize(("ttl", "minimum", "expected"), [(300, 20, 20), (20, 300, 20)])
def test_a_lack_is_remembered_for_the_lesser_of_two_times(ttl: int, minimum: int, expected: int) -> None:
    """RFC 2308 §5; the shortest record has two root names."""
    assert minimum_of(Record("t", Type.SOA, ttl, soa_data("t", 1, minimum))) == expected
    shortest = b"\0\0" + struct.pack("!IIIII", 1, 2, 3, 4, minimum)
    assert minimum_of(Record("", Type.SOA, ttl, shortest)) == expected
    assert minimum_of(Record("", Type.SOA, ttl, shortest[1:])) == 0
