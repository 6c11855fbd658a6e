"""Which certificates are accepted, and the owner key of a name."""

import msgspec
import pytest

from modules.cloud.identities import rules
from modules.cloud.identities.messages import KeyEnrolment
from modules.cloud.identities.peer import CertifiedPeer, normal_serial, read_peer
from modules.cloud.identities.records import (
    JoinToken,
    NodeIdentity,
    Record,
    RevokedCertificate,
    RevokedUser,
    key_of,
    object_name,
    object_of,
    record_in,
)
from tests.support.presence import present

NOW = 1000.5
OWN = NodeIdentity(name="n1", key="a", since=900.0, pinned_at=900.0)
TOKEN = JoinToken(name="t", created_at=800.0, expires_at=2000.0)


def peer(key: str = "a", begins: float = 500.0, serial: str = "1F", user: str = "system:node:n1") -> CertifiedPeer:
    return CertifiedPeer(serial, begins, "n1", user, key)


def token(**changes: object) -> JoinToken:
    return msgspec.structs.replace(TOKEN, **changes)


REPLACING = token(node="n1", once=True, replace=True)


@pytest.mark.parametrize(
    ("identity", "presented", "words"),
    [
        (None, peer(), ""),
        (OWN, peer(), ""),
        (OWN, peer("b"), "belongs to the key of another machine since 1970-01-01T00:15:00Z"),
        (OWN, peer("b", 899.0), "belongs to the key"),
        (OWN, peer("b", 900.0), "was renewed, and the new one is in use: restart its edgecore"),
        (msgspec.structs.replace(OWN, pinned_at=0.0), peer("b"), "belongs to the key"),
        (OWN, peer("b", 901.0), ""),
        (OWN, peer("", 0.0), ""),
        (msgspec.structs.replace(OWN, next_key="b"), peer("b"), ""),
        (msgspec.structs.replace(OWN, revoked_at=950.0, reason="stolen"), peer(), "revoked since 1970-01-01T00:15:50Z"),
        (msgspec.structs.replace(OWN, revoked_at=950.0), peer("b", 2000.0), "cloudcore allow node n1"),
        (NodeIdentity(name="n1", revoked_at=950.0), peer("", 0.0), "revoked"),
    ],
)
def test_a_node_is_accepted_by_its_key(identity: NodeIdentity | None, presented: CertifiedPeer, words: str) -> None:
    """A certificate of another key counts if it was issued later: it was issued under the rules."""
    why = rules.refusal(presented, identity)
    assert words in why
    assert bool(words) == bool(why)


@pytest.mark.parametrize(
    ("presented", "is_refused"),
    [(peer(begins=999.0), True), (peer(begins=1000.0), False), (peer(begins=1000.0, serial="2A"), True)],
)
def test_a_users_earlier_certificates_are_refused(presented: CertifiedPeer, *, is_refused: bool) -> None:
    """Up to a second; those of that second by their serial numbers, so that the next kubeconfig works at once."""
    revoked = RevokedUser(name="admin", revoked_at=NOW, serials=("2A",))
    assert bool(rules.refusal(presented, None, user=revoked)) == is_refused


def test_a_certificate_is_refused_by_its_serial_number() -> None:
    assert "certificate 1F is revoked" in rules.refusal(peer(), OWN, RevokedCertificate(name="1F", revoked_at=NOW))


def test_a_name_goes_to_the_first_key_that_is_seen_and_moves_with_its_renewals() -> None:
    """The former key is taken until the next one is used: the answer to a renewal may be lost."""
    pinned = present(rules.used(peer("a"), None, NOW))
    assert rules.used(peer("a"), pinned, NOW) is None
    assert rules.refusal(peer("b", 999.0), pinned)
    renewed = present(rules.renewed(pinned, peer("a"), "c", NOW + 10).identity)
    assert (rules.refusal(peer("a"), renewed), rules.refusal(peer("c"), renewed)) == ("", "")
    moved = present(rules.used(peer("c", 1010.0), renewed, NOW + 20))
    assert rules.refusal(peer("a"), moved)
    assert rules.refusal(peer("c", 1010.0), moved) == ""


def test_a_cloud_of_an_earlier_backup_knows_its_nodes() -> None:
    """The name moves to a key whose certificate was issued after the backup, and the older key is refused."""
    assert rules.refusal(peer("a"), present(rules.used(peer("later", 950.0), OWN, NOW)))


@pytest.mark.parametrize(
    ("identity", "by", "key", "words"),
    [
        (None, TOKEN, "a", ""),
        (None, None, "a", ""),
        (OWN, TOKEN, "a", ""),
        (OWN, TOKEN, "b", "cloudcore token --node n1 --replace"),
        (OWN, None, "b", "belongs to the key"),
        (OWN, REPLACING, "b", ""),
        (OWN, token(node="n2"), "b", "for node n2 only"),
        (None, token(node="n"), "b", "for node n only"),
        (None, token(once=True, used_by="n1", used_key="a"), "b", "n1 has joined with it"),
        (msgspec.structs.replace(OWN, next_key="b"), TOKEN, "b", ""),
        (None, token(once=True, used_by="n2", used_key="b"), "a", "n2 has joined with it"),
        (OWN, token(once=True, used_by="n1", used_key="a"), "a", ""),
        (msgspec.structs.replace(OWN, revoked_at=850.0), TOKEN, "a", "is revoked"),
        (msgspec.structs.replace(OWN, revoked_at=850.0), REPLACING, "b", "is revoked"),
        (msgspec.structs.replace(OWN, revoked_at=750.0), REPLACING, "b", ""),
        (NodeIdentity(name="n1"), TOKEN, "b", ""),
    ],
)
def test_who_joins(identity: NodeIdentity | None, by: JoinToken | None, key: str, words: str) -> None:
    """Another machine needs a token that was made for that, after the revocation if there is one."""
    outcome = rules.joined(identity, by, KeyEnrolment(node="n1", key=key), NOW)
    assert words in outcome.refusal
    assert (outcome.identity is None) == bool(words)
    if outcome.identity is not None:
        assert key in (outcome.identity.key, outcome.identity.next_key)
        assert outcome.identity.revoked_at == 0.0
        assert rules.refusal(peer("c", 1000.0), outcome.identity), "what others got before counts no more"


@pytest.mark.parametrize(
    ("identity", "by", "words"),
    [
        (None, TOKEN, "cloudcore token --node n1"),
        (None, None, "whose kubelet has not joined"),
        (NodeIdentity(name="n1"), TOKEN, "whose kubelet has not joined"),
        (None, token(node="n1"), ""),
        (None, REPLACING, ""),
        (OWN, TOKEN, ""),
    ],
)
def test_the_name_of_another_kubelets_node_is_not_free(
    identity: NodeIdentity | None, by: JoinToken | None, words: str
) -> None:
    """Any token would otherwise read the secrets of the pods on a cluster's own nodes; one for this name may."""
    outcome = rules.joined(identity, by, KeyEnrolment(node="n1", key="a", has_other_kubelet=True), NOW)
    assert words in outcome.refusal
    assert (outcome.identity is None) == bool(words)


@pytest.mark.parametrize(
    ("labels", "status", "is_other"),
    [
        ({}, {"nodeInfo": {"kubeletVersion": "v1.32.13"}}, True),
        (None, {"nodeInfo": {"kubeletVersion": "v1.32.13"}}, True),
        ({"node-role.kubernetes.io/edge": ""}, {"nodeInfo": {"kubeletVersion": "v1.32.13"}}, False),
        ({}, {"nodeInfo": {"kubeletVersion": ""}}, False),
        ({}, None, False),
    ],
)
def test_whose_kubelet_a_node_has(labels: object, status: object, *, is_other: bool) -> None:
    """An edge's has KubeEdge's label; a Node that an administrator has prepared has no facts of a kubelet."""
    assert rules.is_of_other_kubelet({"metadata": {"labels": labels}, "status": status}) == is_other
    assert not rules.is_of_other_kubelet(None)


def test_labels_are_of_the_last_token_that_had_some() -> None:
    labelled = token(labels={"zone": "a"})
    joined = rules.joined(None, labelled, KeyEnrolment(node="n1", key="a"), NOW).identity
    for by in (TOKEN, REPLACING, None):
        assert present(rules.joined(joined, by, KeyEnrolment(node="n1", key="a"), NOW).identity).labels == {"zone": "a"}


def test_a_replaced_machine_is_out_also_when_the_cloud_s_clock_was_put_back() -> None:
    replaced = present(rules.joined(OWN, REPLACING, KeyEnrolment(node="n1", key="b"), 100.0).identity)
    assert rules.refusal(peer("a", 900.0), replaced)
    assert rules.refusal(peer("b", 100.0), replaced) == ""
    renewed = present(rules.used(peer("c", 110.0), msgspec.structs.replace(replaced, next_key="c"), 120.0))
    assert rules.refusal(peer("a", 900.0), renewed)


def test_a_token_for_one_is_used_up_once() -> None:
    assert rules.consumed(present(rules.consumed(token(once=True), "n1", "a")), "n1", "a") is None
    assert rules.consumed(TOKEN, "n1", "a") is None


@pytest.mark.parametrize(
    "record", [OWN, REPLACING, RevokedUser(name="Ada L.", revoked_at=1.0), RevokedCertificate(name="1F", revoked_at=1)]
)
def test_records_are_configmaps(record: Record) -> None:
    """With names that an API server takes; renamed ones and others do not count."""
    made = object_of(record, "kubeedge", None)
    assert record_in(made) == record
    assert record_in({**made, "metadata": {"name": "other"}}) is None
    assert record_in({**made, "data": {"record.json": "{"}}) is None
    assert record_in({}) is None
    again = object_of(record, "kubeedge", {**made, "metadata": {**made["metadata"], "resourceVersion": "7"}})
    assert again["metadata"]["resourceVersion"] == "7"


def test_names_of_objects_are_subdomains() -> None:
    assert object_name(key_of(OWN)) == "node.n1"
    assert len(object_name(("node", "n" * 253))) < 253
    for name in ("Ada L.", "ada"):  # one form, or a name of the one could be that of the other
        assert len(object_name(("user", name))) == len("user.") + 40
        assert object_name(("user", name)).removeprefix("user.").isalnum()


@pytest.mark.parametrize(
    ("text", "serial"), [("0x1f", "1F"), ("01:23:45:67:89:ab:cd:EF", "123456789ABCDEF"), ("00FF", "FF"), ("0", "0")]
)
def test_serial_numbers_have_one_spelling(text: str, serial: str) -> None:
    assert normal_serial(text) == serial


@pytest.mark.parametrize("text", ["", "xyz", "1" * 41, "-1"])
def test_other_texts_than_serial_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        normal_serial(text)


def test_a_certificate_without_a_node_is_a_user() -> None:
    subject = ((("organizationName", "system:masters"),), (("commonName", "admin"),))
    found = read_peer({"subject": subject, "serialNumber": "0A", "notBefore": "Jan  1 00:00:10 1970 GMT"})
    assert found == CertifiedPeer("A", 10.0, "", "admin", "")
    assert read_peer(None) is None


@pytest.mark.parametrize(
    ("before", "key", "refused"),
    [(OWN, "b", True), (OWN, "a", False), (msgspec.structs.replace(OWN, revoked_at=950.0), "a", True)],
)
def test_tokens_of_pods_are_of_the_machine_that_got_them(before: NodeIdentity, key: str, *, refused: bool) -> None:
    """The tokens that the former machine got are refused; a renewal, and the same key again, end none."""
    replacing = token(node="n1", replace=True, created_at=960.0)
    found = present(rules.joined(before, replacing, KeyEnrolment(node="n1", key=key), NOW).identity)
    assert rules.refuses_token(found, NOW - 5) == refused
    assert rules.refuses_token(found, int(NOW)) == refused, "the former machine got it in the same second"
    assert not rules.refuses_token(found, int(NOW) + 1)
    renewed = present(rules.renewed(found, peer(key), "c", NOW + 50).identity)
    assert [rules.refuses_token(renewed, at) for at in (NOW - 5, NOW + 10)] == [refused, False]
    assert rules.refuses_token(msgspec.structs.replace(found, revoked_at=NOW), NOW + 10)
    assert not rules.refuses_token(None, 0.0)


def test_a_renewal_lets_no_certificate_of_before_move_the_name() -> None:
    """The name is the next key's once that is used, and no key is next after it."""
    peer = CertifiedPeer("1", 5.0, "n1", key="a")
    made = present(rules.renewed(NodeIdentity(name="n1", key="a", since=1.0), peer, "b", 10.5).identity)
    assert (made.key, made.next_key, made.since) == ("a", "b", 10.0)
    assert rules.refusal_of_node(CertifiedPeer("2", 7.0, "n1", key="c"), made)
    moved = present(rules.used(CertifiedPeer("3", 10.0, "n1", key="b"), made, 11.0))
    assert (moved.key, moved.next_key) == ("b", "")
