"""The module `identities` on the records of an API server: who joins, renews and keeps a name."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from beehive.testing import Harness
from modules.cloud.identities import module
from modules.cloud.identities.messages import (
    ALLOW,
    ENROL,
    LIST,
    MAKE_TOKEN,
    NAME,
    REVOKE,
    USED,
    WITHDRAW_TOKEN,
    Identities,
    KeyEnrolment,
    Revocation,
    TokenSettings,
    Withdrawal,
)
from modules.cloud.identities.peer import CertifiedPeer
from modules.cloud.identities.records import JoinToken, Key, NodeIdentity, Record
from modules.cloud.identities.store import IdentityStore, RecordChange
from tests.modules.cloud.identities.test_lives import Site

HOUR = 3600.0


@pytest.fixture
def site() -> Iterator[Site]:
    with Harness() as bee:
        yield Site(bee, Random(0))  # noqa: S311 - reproducible


def new_token(site: Site, **settings: Any) -> str:
    """Return the id of a new token."""
    made: JoinToken = site.ask(MAKE_TOKEN, TokenSettings(**settings)).content_as(JoinToken)
    return made.name


def join(site: Site, key: str, token: str, node: str = "n1") -> str:
    """Return why a machine may not join, or ""."""
    return site.refusal(ENROL, KeyEnrolment(node=node, key=key, token=token))


def renew(site: Site, present: str, following: str) -> str:
    """Return why a certificate is not renewed, or ""."""
    return site.refusal(ENROL, KeyEnrolment(node="n1", key=following, peer=peer(present)))


def peer(key: str) -> CertifiedPeer:
    """Return a certificate of the node."""
    return CertifiedPeer("1F", 0.0, "n1", "system:node:n1", key)


def record(site: Site) -> NodeIdentity:
    """Return the node's record."""
    records = site.ask(LIST, None).content_as(Identities).records
    (found,) = (each for each in records if isinstance(each, NodeIdentity))
    return found


def test_a_token_that_replaces_a_machine_is_for_one(site: Site) -> None:
    assert join(site, "a", new_token(site)) == ""
    token = new_token(site, node="n1", replace=True)
    assert join(site, "b", token) == join(site, "b", token) == ""
    assert "has joined with it" in join(site, "c", token)
    assert record(site).key == "b"


def test_a_token_that_is_withdrawn_during_a_join_joins_nobody(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator is faster, between the look at it and its use."""
    token, read = new_token(site, once=True), IdentityStore.read

    def withdraw(self: IdentityStore, key: Key, done: Callable[[Record | None, str], None]) -> None:
        def gone(_: object, failure: str) -> None:
            assert not failure
            read(self, key, done)

        if key[0] == "node":
            self.change(("token", token), lambda _: RecordChange(deletes=True), gone)
        else:
            read(self, key, done)

    monkeypatch.setattr(IdentityStore, "read", withdraw)
    assert join(site, "a", token) == "the token was withdrawn"
    assert site.ask(LIST, None).content_as(Identities).records == []


def test_a_node_that_is_allowed_again_keeps_its_name(site: Site) -> None:
    token = new_token(site)
    assert join(site, "a", token) == ""
    assert site.refusal(REVOKE, Revocation(kind="node", name="n1")) == ""
    assert site.refusal(ALLOW, Revocation(kind="node", name="n1")) == ""
    assert "belongs to the key of another machine" in join(site, "b", token)
    assert join(site, "a", token) == ""


def test_a_revocation_with_another_reason_begins_no_later(site: Site) -> None:
    """A token that was made in between takes the name to another machine."""
    assert join(site, "a", new_token(site)) == ""
    assert site.refusal(REVOKE, Revocation(kind="node", name="n1")) == ""
    site.bee.run_for(10.0)
    token = new_token(site, node="n1", replace=True)
    site.bee.run_for(10.0)
    assert site.refusal(REVOKE, Revocation(kind="node", name="n1", reason="stolen")) == ""
    assert record(site).reason == "stolen"
    assert join(site, "b", token) == ""


def test_a_renewal_is_decided_by_the_record(site: Site) -> None:
    """The server that took the certificate may not know the newest revocation."""
    assert join(site, "a", new_token(site)) == ""
    assert site.refusal(REVOKE, Revocation(kind="node", name="n1")) == ""
    assert "is revoked" in renew(site, "a", "b")


def test_a_name_moves_with_each_renewal_that_is_used(site: Site) -> None:
    """Also when one follows soon after the other; a machine that is refused does not take it."""
    assert join(site, "a", new_token(site)) == ""
    for present, following in ("ab", "bc"):
        assert renew(site, present, following) == ""
        site.known.accepted(peer(following))
        site.bee.settle()
        assert record(site).key == following
    site.bee.hive.send(NAME, site.bee.message(NAME, USED, peer("d")))
    site.bee.settle()
    assert record(site).key == "c"


def test_a_token_is_known_for_a_day_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a join is then that it has expired."""
    monkeypatch.setattr(module, "_PERIOD", 1.0)
    with Harness() as bee:
        site = Site(bee, Random(0))  # noqa: S311 - reproducible
        name = new_token(site, seconds=1.0)
        for hours, known in ((3, [name]), (24, [])):
            bee.clock.jump_wall(hours * HOUR)
            bee.run_for(2.0)
            records = site.ask(LIST, None).content_as(Identities).records
            assert [each.name for each in records] == known


def test_who_has_a_name_joins_again_though_all_are_taken(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    token = new_token(site)
    assert join(site, "a", token) == ""
    other = new_token(site)
    monkeypatch.setattr(module, "MOST_RECORDS", 3)
    assert join(site, "a", token) == ""
    assert "names and tokens are taken" in join(site, "b", token, "n2")
    assert site.refusal(WITHDRAW_TOKEN, Withdrawal(name=other)) == ""
    site.bee.run_for(1.0)
    assert join(site, "b", token, "n2") == "", "its place is free again"
