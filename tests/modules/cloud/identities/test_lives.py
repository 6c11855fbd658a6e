"""Laws of names, keys and revocations over random lives of two machines that want one name, and of an administrator."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from beehive.names import Operation
from beehive.testing import Harness
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.identities.messages import (
    ALLOW,
    ENROL,
    MAKE_TOKEN,
    NAME,
    RESOURCE,
    REVOKE,
    WITHDRAW_TOKEN,
    KeyEnrolment,
    Revocation,
    TokenSettings,
    Withdrawal,
)
from modules.cloud.identities.module import IdentitiesModule, known_identities
from modules.cloud.identities.peer import CertifiedPeer
from modules.cloud.identities.records import JoinToken
from tests.modules.cloud.edgecontroller.controller import add_api_server
from tests.modules.cloud.objects import in_memory
from tests.support.slow import one_in

NODE = "n1"


@dataclass
class Machine:
    """A machine that joins, renews its certificate, and connects."""

    name: str
    key: str = ""
    certificate: CertifiedPeer | None = None
    """The last one that it got."""
    all: list[CertifiedPeer] = field(default_factory=list)


class Site:
    """A cloud with its machines, and what must be true of them."""

    def __init__(self, bee: Harness, random: Random) -> None:
        self.bee, self.random = bee, random
        self.known = known_identities(bee.hive)
        api = add_api_server(bee, Cluster(bee.clock))
        bee.add(EdgeController, api, in_memory(), None, None)
        bee.add(IdentitiesModule, self.known, api.connect, "kube-system")
        bee.start()
        bee.run_for(5.0)
        self.machines = [Machine("a"), Machine("b")]
        self.owner: Machine | None = None
        self.owned_since = 0.0
        self.is_replaced = False
        """Whether another machine had the name before."""
        self.revoked_at = 0.0
        self.serials: set[str] = set()
        """Revoked certificates."""
        self.admins: list[CertifiedPeer] = []
        self.admins_revoked = 0
        """How many of the administrator's certificates are revoked."""
        self.tokens: list[JoinToken] = []
        self.joined: dict[str, str] = {}
        """Which key has used a token for one."""
        self.connected: list[CertifiedPeer] = []
        self.known.on_change(self._end_refused)
        self._count = 0
        self.goes_back = random.random() < 0.5
        self.is_set_back = False
        """Whether the clock was set back: then the times of tokens and certificates say less."""

    def _end_refused(self) -> None:
        self.connected = [each for each in self.connected if not self.known.refusal_of(each)]

    @property
    def now(self) -> float:
        """The cloud's clock."""
        return self.bee.clock.now()

    def ask(self, operation: str, content: Any) -> Any:
        """Ask the module; return the answer, or the text of a refusal."""
        answer = self.bee.ask(NAME, self.bee.message(RESOURCE, operation, content))
        return answer.content_as(str) if answer.route.operation == Operation.ERROR else answer

    def refusal(self, operation: str, content: Any) -> str:
        """Return why a request is refused, or ""."""
        answer = self.ask(operation, content)
        return answer if isinstance(answer, str) else str(answer.content_as(str))

    def unique(self) -> str:
        """Return a new name."""
        self._count += 1
        return f"{self._count:X}"

    def issued(self, machine: Machine, key: str) -> CertifiedPeer:
        """Return a new certificate of the node."""
        peer = CertifiedPeer(self.unique(), float(int(self.now)), NODE, f"system:node:{NODE}", key)
        machine.all.append(peer)
        return peer

    def make_token(self) -> None:
        """An administrator makes a token."""
        node = self.random.choice(("", NODE, NODE, NODE, "n2"))
        settings = TokenSettings(
            node=node, once=self.random.random() < 0.4, replace=bool(node) and self.random.random() < 0.7,
            seconds=self.random.choice((10.0, 1e6)),
        )  # fmt: skip
        answer = self.ask(MAKE_TOKEN, settings)
        self.tokens.append(answer.content_as(JoinToken))

    def withdraw(self) -> None:
        """An administrator takes a token back."""
        if self.tokens and self.random.random() < 0.3:
            token = self.tokens.pop(self.random.randrange(len(self.tokens)))
            assert self.refusal(WITHDRAW_TOKEN, Withdrawal(name=token.name)) in ("", f"no token {token.name}")
            asked = KeyEnrolment(node=NODE, key="any", token=token.name)
            assert self.refusal(ENROL, asked), "a token that is withdrawn joins nobody"

    def join(self) -> None:
        """A machine asks for a first certificate, with its key or, set up anew, with another one."""
        machine = self.random.choice(self.machines)
        token = self.random.choice(self.tokens) if self.tokens else None
        if token is None or token.expires_at <= self.now:  # the registrar refuses it
            return
        key = machine.key if machine.key and self.random.random() < 0.7 else f"{machine.name}{self.unique()}"
        why = self.refusal(ENROL, KeyEnrolment(node=NODE, key=key, token=token.name))
        is_own = self.owner is None or (machine is self.owner and key == machine.key)
        replaces = token.replace and token.node == NODE
        may_replace = replaces and token.created_at > self.revoked_at
        is_free = not token.once or self.joined.get(token.name, key) == key
        if token.node in ("", NODE) and is_free and (may_replace or (is_own and not self.revoked_at)):
            assert why == ""
        if why:
            return
        assert token.node in ("", NODE), "a token is for its node"
        assert is_free, "a token for one joins one"
        assert may_replace or (is_own and not self.revoked_at), "a name belongs to its machine"
        if token.once:
            self.joined[token.name] = key
        if self.owner is None or key != self.owner.key or self.revoked_at:
            self.is_replaced, self.owned_since = self.owner is not None, self.now
        self.owner, self.revoked_at = machine, 0.0
        machine.key = key
        machine.certificate = self.issued(machine, key)

    def renew(self) -> None:
        """A machine asks for the next certificate; the answer may be lost."""
        machine = self.random.choice(self.machines)
        if machine.certificate is None or self.known.refusal_of(machine.certificate):
            return
        key = f"{machine.name}{self.unique()}"
        why = self.refusal(ENROL, KeyEnrolment(node=NODE, key=key, peer=machine.certificate))
        assert why == "" and machine is self.owner, "who is accepted may renew"
        made = self.issued(machine, key)
        if self.random.random() < 0.6:
            machine.key, machine.certificate = key, made
            self.connect(machine)

    def connect(self, machine: Machine | None = None) -> None:
        """A machine connects, with its newest certificate."""
        machine = machine or self.random.choice(self.machines)
        if machine.certificate is not None and not self.known.refusal_of(machine.certificate):
            self.known.accepted(machine.certificate)
            self.connected.append(machine.certificate)
            self.bee.settle()

    def revoke(self) -> None:
        """The administrator revokes the node, its certificate, or the administrator's own."""
        match self.random.choice(("node", "certificate", "user", "admin", "admin")):
            case "node" if self.random.random() < 0.5:
                reason = self.random.choice(("", "stolen"))
                assert self.refusal(REVOKE, Revocation(kind="node", name=NODE, reason=reason)) == ""
                self.revoked_at = self.revoked_at or self.now
            case "certificate" if self.owner and self.owner.certificate and self.random.random() < 0.3:
                serial = self.owner.certificate.serial
                self.serials.add(serial)
                assert self.refusal(REVOKE, Revocation(kind="certificate", name=serial)) == ""
            case "user":
                same = tuple(each.serial for each in self.admins if each.begins == int(self.now))
                assert self.refusal(REVOKE, Revocation(kind="user", name="admin", serials=same)) == ""
                self.admins_revoked = len(self.admins)
            case "admin":
                made = CertifiedPeer(self.unique(), float(int(self.now)), "", "admin", "k")
                self.admins.append(made)
                if not self.known.refusal_of(made):
                    self.connected.append(made)

    def allow(self) -> None:
        """The administrator ends the revocation of the node."""
        why = self.refusal(ALLOW, Revocation(kind="node", name=NODE))
        assert bool(why) is not bool(self.revoked_at)
        self.revoked_at = 0.0

    def pass_time(self) -> None:
        """Let time pass; the clock may be set, on some sites also back."""
        self.bee.run_for(self.random.choice((0.0, 0.0, 0.3, 1.0, 20.0)))
        if self.random.random() < 0.02:
            back = self.goes_back and self.random.random() < 0.7
            self.is_set_back = self.is_set_back or back
            self.bee.clock.jump_wall(-300.0 if back else 90_000.0)
            self.bee.run_for(3600.0)

    def check(self) -> None:
        """Check what must be true at any time."""
        for machine in self.machines:
            for each in machine.all:
                why = self.known.refusal_of(each)
                if each.serial in self.serials or self.revoked_at or machine is not self.owner:
                    assert why, f"{machine.name} has no right to the name"
                elif each is machine.certificate:
                    assert why == "", "the machine whose name it is stays in, although answers are lost"
        for number, each in enumerate(self.admins):
            is_refused = bool(self.known.refusal_of(each))
            assert is_refused is (number < self.admins_revoked) or (is_refused and self.is_set_back)
        assert not [each for each in self.connected if self.known.refusal_of(each)], "who is refused is disconnected"
        if self.owner is not None:
            is_revoked = bool(self.revoked_at)
            for at in (self.now + 1.0, float(int(self.owned_since)) + 1.0):
                is_refused = self.known.refuses_token(NODE, at)
                assert is_refused is is_revoked or (is_refused and self.is_set_back), "tokens of its pods are accepted"
            if self.is_replaced:
                assert self.known.refuses_token(NODE, float(int(self.owned_since))), "and the former machine's are not"


@pytest.mark.parametrize("seed", one_in(3, range(12)))
def test_a_name_has_one_machine_and_a_revocation_holds(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible
    with Harness() as bee:
        site = Site(bee, random)
        steps = (site.make_token, site.join, site.join, site.renew, site.renew, site.connect, site.revoke, site.allow)
        for _ in range(160):
            random.choice((*steps, site.withdraw))()
            site.check()
            site.pass_time()
            site.check()
