"""The servers' answers before and after all records are known."""

from unittest.mock import Mock

import msgspec
import pytest

from beehive.simulation import Simulation
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.identities import known as module
from modules.cloud.identities.known import NOT_YET, KnownIdentities
from modules.cloud.identities.peer import CertifiedPeer
from modules.cloud.identities.records import JoinToken, NodeIdentity, RevokedCertificate, key_of

OWN = NodeIdentity(name="n1", key="a", since=1.0)
PEER = CertifiedPeer("1F", 0.0, "n1", "system:node:n1", "a")


@pytest.fixture
def known() -> KnownIdentities:
    return KnownIdentities(Simulation(0).clock)


def test_nobody_with_a_certificate_is_accepted_before_all_records_are_known(known: KnownIdentities) -> None:
    """A client without a certificate proves nothing, and need not wait."""
    was_loading = known.is_loading
    assert known.refusal_of(PEER) == known.refusal_of_node("n1", PEER) == NOT_YET
    assert known.refused() == [], "it is refused for a moment only"
    with pytest.raises(ApiStatusError, match="does not know yet") as raised:
        known.refuses_token("n1", 0.0)
    assert raised.value.code == 503
    assert known.refusal_of_node("n1", None) == ""
    assert known.refused() == []
    known.complete([])
    assert (was_loading, known.is_loading) == (True, False)
    assert known.refusal_of(PEER) == ""


def test_connections_wait_for_the_records_only_for_a_moment() -> None:
    """Later ones are refused, with the reason."""
    simulation = Simulation(0)
    known = KnownIdentities(simulation.clock)
    simulation.run_for(10.0)
    assert not known.is_loading


def test_only_what_may_refuse_somebody_is_reported(known: KnownIdentities) -> None:
    told: list[str] = []
    known.on_change(lambda: told.append("changed"))
    known.put(OWN, 3)
    known.put(NodeIdentity(name="n1", key="a", next_key="b", since=1.0), 4)
    known.put(JoinToken(name="t", created_at=0.0, expires_at=1.0), 5)
    assert told == []
    known.put(NodeIdentity(name="n1", key="b", since=1.0), 6)
    known.put(NodeIdentity(name="n1", key="b", since=1.0, revoked_at=5.0), 7)
    known.put(RevokedCertificate(name="1F", revoked_at=5.0), 8)
    assert len(told) == 3
    known.put(NodeIdentity(name="n1", key="b", since=1.0), 9)
    known.put(NodeIdentity(name="n1", key="b", since=1.0, replaced_at=9.0), 10)
    assert len(told) == 4, "tokens of pods of the former machine are refused"


def test_a_server_that_has_ended_hears_of_no_revocation_and_the_others_do(known: KnownIdentities) -> None:
    ended, other = Mock(), Mock()
    end = known.end_connections(ended)
    known.end_connections(other)
    end()
    known.put(RevokedCertificate(name="1F", revoked_at=5.0), 1)
    assert (ended.end_connections.call_count, other.end_connections.call_count) == (0, 1)


def test_connections_end_with_their_certificates_and_credentials(known: KnownIdentities) -> None:
    server = Mock()
    known.end_connections(server, lambda credentials: credentials == "Bearer revoked")
    known.complete([])
    (is_refused,) = server.end_connections.call_args.args
    assert [is_refused(None, f"Bearer {each}") for each in ("revoked", "other")] == [True, False]


def test_nothing_is_kept_of_what_has_gone_and_of_few_that_are_refused(
    known: KnownIdentities, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens come and go, and anybody may ask in any name."""
    monkeypatch.setattr(module, "_MOST_REFUSED", 2)
    before = {name: repr(value) for name, value in vars(known).items()}
    known.put(OWN, 3)
    known.remove(key_of(OWN))
    assert {name: repr(value) for name, value in vars(known).items()} == before
    known.put(OWN)
    known.complete([])
    assert known.records() == []
    for number in range(5):
        known.put(NodeIdentity(name=f"n{number}", revoked_at=5.0), 10 + number)
        assert known.refusal_of_node(f"n{number}", None)
    assert len(known.refused()) == 2


def test_a_machine_that_was_refused_is_shown_until_its_node_connects_again(known: KnownIdentities) -> None:
    """The connection of the node itself, which is looked at with each revocation, stays open meanwhile."""
    known.complete([])
    known.put(OWN, 3)
    other = CertifiedPeer("2F", 0.0, "n1", "system:node:n1", "b")
    assert known.refusal_of_node("n1", other)
    assert known.refusal_of_node("n1", PEER, is_open=True) == ""
    assert [(each.node, each.at) for each in known.refused()] == [("n1", 0.0)]
    assert known.refusal_of_node("n1", PEER) == ""
    assert known.refused() == []


def test_late_news_undoes_no_revocation(known: KnownIdentities) -> None:
    """The watch may tell of an earlier version after this cloudcore has written a later one."""
    known.complete([])
    revoked = NodeIdentity(name="n1", key="a", revoked_at=5.0)
    known.put(revoked, 9)
    known.put(OWN, 8)
    assert "revoked" in known.refusal_of_node("n1", PEER)
    assert [each.node for each in known.refused()] == ["n1"]
    known.forget_versions()
    known.put(OWN, 2)
    assert known.refusal_of_node("n1", PEER) == ""
    assert known.refused() == []
    known.remove(key_of(OWN), 2)
    assert known.records() == [], "of one whose successor has gone, too, the version is told that was known last"


def test_a_key_that_is_new_is_noted_and_a_known_one_is_not() -> None:
    noted: list[CertifiedPeer] = []
    known = KnownIdentities(Simulation(0).clock, noted.append)
    known.complete([])
    known.accepted(PEER)
    known.put(OWN)
    known.accepted(PEER)
    assert noted == [PEER]
    renewed = msgspec.structs.replace(PEER, key="b")
    known.put(msgspec.structs.replace(OWN, next_key="b"))
    known.accepted(renewed)
    assert noted == [PEER, renewed]


def test_connections_of_before_are_looked_at_once_all_records_are_known(known: KnownIdentities) -> None:
    """A node without TLS did not wait for them. While records are read, nobody is cut off for that."""
    server = Mock()
    known.end_connections(server)
    certificate = {"serialNumber": "1F", "subject": ((("commonName", "admin"),),)}
    known.put(RevokedCertificate(name="2F", revoked_at=5.0), 1)
    (is_refused,) = server.end_connections.call_args.args
    assert not is_refused(certificate, "")
    known.complete([("certificate", "2F")])
    assert server.end_connections.call_count == 2
    assert not is_refused(certificate, "")
    assert is_refused({**certificate, "serialNumber": "2F"}, "")


def test_a_record_that_was_written_after_the_first_list_was_made_stays_in_force(known: KnownIdentities) -> None:
    """The watch tells of it later; until then a revoked node would be accepted again."""
    known.put(NodeIdentity(name="n1", key="a", revoked_at=5.0), 9)
    known.put(RevokedCertificate(name="2F", revoked_at=5.0), 7)
    known.complete([], 8)
    assert "revoked" in known.refusal_of_node("n1", PEER)
    assert [key_of(each) for each in known.records()] == [("node", "n1")]
    known.put(RevokedCertificate(name="2F", revoked_at=6.0), 2)
    assert len(known.records()) == 2, "the version of a record that has gone counts for nothing"
