"""The registrar as a module: it survives its own failure, and its end leaves nothing behind."""

import http.client
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest

from beehive.clock import RealClock
from beehive.handlers import handles
from beehive.hive import Hive
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName
from beehive.resource import Side
from beehive.runtime import Threads
from modules.cloud.api_messages import Verb
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, open_authority
from modules.cloud.cloudhub.certificates.bundles import PATH as BUNDLES
from modules.cloud.cloudhub.certificates.enrolment import EnrolmentRequest
from modules.cloud.cloudhub.certificates.registrar import NAME, TOKEN, Registrar, RegistrarSettings
from modules.cloud.cloudhub.counters import CloudHubCounters
from modules.cloud.identities import messages as identities
from modules.cloud.identities.known import KnownIdentities
from modules.cloud.identities.messages import KeyEnrolment
from modules.cloud.identities.records import JoinToken
from tests.modules.cloud.cloudhub.certificates.made import YEAR
from tests.support.patience import PATIENCE


class Identities(Module):
    """Stores a token."""

    name = identities.NAME
    group = identities.NAME
    side = Side.CLOUD

    @handles(None, identities.MAKE_TOKEN)
    def make_token(self, message: Message) -> None:
        seconds = message.content_as(identities.TokenSettings).seconds
        now = self.clock.now()
        self.reply(message, JoinToken(name="abc", created_at=now, expires_at=now + seconds))


class Fragile(Registrar):
    """A registrar that can be made to fail."""

    attempts = 1

    @handles(None, "explode")
    def explode(self, message: Message) -> None:
        raise RuntimeError("as the test wants it")


@pytest.mark.modules_fail
def test_a_registrar_that_fails_is_back_on_its_port(tmp_path: Path) -> None:
    """The port was a free one; tokens and the CA are to be had from the next one as from the first."""
    before = set(threading.enumerate())
    clock = RealClock()
    hive = Hive(Threads(clock))
    files = AuthorityFiles(tmp_path)
    authority = open_authority(files, ["127.0.0.1"], clock.now())
    bound: list[tuple[str, int]] = []
    counters = CloudHubCounters()
    known = KnownIdentities(clock)
    hive.add(Fragile, RegistrarSettings("127.0.0.1", 0, YEAR), authority, files, bound, counters, known)
    hive.add(Identities)
    hive.start()

    def message(operation: str) -> Message:
        return Message.new(clock, source="test", resource=NAME, operation=operation, content={})

    def get() -> bytes:
        context = ssl.create_default_context(cafile=str(files.authority))
        connection = http.client.HTTPSConnection(*bound[0], timeout=PATIENCE, context=context)
        connection.request("GET", "/ca.crt")
        answer = connection.getresponse().read()
        connection.close()
        return answer

    first = bound[0]
    assert get() == authority.der
    hive.send(NAME, message("explode"))
    assert hive.request(NAME, message(TOKEN), PATIENCE).get().content_as(str).count(".") == 3
    assert bound == [first]
    assert get() == authority.der
    assert counters.certificate_responses() == {200: 2}
    hive.stop()
    clock.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=PATIENCE)
        assert not thread.is_alive(), thread.name


class Failing(Module):
    """Cannot store the key of a node."""

    name = identities.NAME
    group = identities.NAME
    side = Side.CLOUD

    @handles(None, identities.ENROL)
    def enrol(self, message: Message) -> None:
        self.respond(message.error(self.clock, "the database cannot be written"))


class Nodes(Module):
    """Has a Node n1."""

    name = ModuleName.EDGECONTROLLER
    group = name
    side = Side.CLOUD

    @handles(None, Verb.CALL)
    def call(self, message: Message) -> None:
        is_there = message.content_as(ApiCall).name == "n1"
        self.reply(message, ApiResult({"kind": "Node"}) if is_there else ApiResult(refusal={"code": 404}))


@contextmanager
def started(directory: Path, *modules: type[Module]) -> Iterator[Registrar]:
    """A registrar with bundles, beside other modules."""
    clock, found = RealClock(), list[Registrar]()
    hive = Hive(Threads(clock))
    files = AuthorityFiles(directory)
    authority = open_authority(files, ["127.0.0.1"], clock.now())

    class Seen(Registrar):
        def on_start(self) -> None:
            found.append(self)

    settings = RegistrarSettings("127.0.0.1", 0, YEAR, bundles=directory)
    hive.add(Seen, settings, authority, files, [], CloudHubCounters(), KnownIdentities(clock))
    for each in modules:
        hive.add(each)
    hive.start()
    try:
        yield found[0]
    finally:
        hive.stop()
        clock.close()


@pytest.mark.parametrize(("modules", "why"), [([Failing], "the database cannot be written"), ([], identities.NAME)])
def test_a_key_without_an_answer_of_identities_gets_no_name(
    tmp_path: Path, modules: list[type[Module]], why: str
) -> None:
    """Nobody knows whether another key has the name."""
    with started(tmp_path, *modules) as registrar:
        assert why in registrar.enrol(KeyEnrolment(node="n1", key="k"))
        assert not registrar.is_node("n1"), "nor is there anybody to ask for Nodes"


def test_edgecontroller_knows_the_nodes_and_the_bundles_are_served(tmp_path: Path) -> None:
    with started(tmp_path, Nodes) as registrar:
        assert [registrar.is_node(name) for name in ("n1", "n2")] == [True, False]
        unknown = EnrolmentRequest("GET", f"{BUNDLES}x", {}, peer=None)
        assert registrar._answer(unknown).status is HTTPStatus.UNAUTHORIZED
