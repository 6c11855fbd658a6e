"""The registrar as a module: it survives its own failure, and its end leaves nothing behind."""

import http.client
import ssl
import threading
from pathlib import Path

from beehive.clock import RealClock
from beehive.handlers import handles
from beehive.hive import Hive
from beehive.message import Message
from beehive.runtime import Threads
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, open_authority
from modules.cloud.cloudhub.certificates.registrar import NAME, TOKEN, Registrar, RegistrarSettings
from modules.cloud.cloudhub.counters import CloudHubCounters
from tests.modules.cloud.cloudhub.certificates.made import YEAR

DEADLINE = 60.0


class Fragile(Registrar):
    """A registrar that can be made to fail."""

    attempts = 1

    @handles(None, "explode")
    def explode(self, message: Message) -> None:
        raise RuntimeError("as the test wants it")


def test_a_registrar_that_fails_is_back_on_its_port(tmp_path: Path) -> None:
    """The port was a free one; tokens and the CA are to be had from the next one as from the first."""
    before = set(threading.enumerate())
    clock = RealClock()
    hive = Hive(Threads(clock))
    files = AuthorityFiles(tmp_path)
    authority = open_authority(files, ["127.0.0.1"], clock.now())
    bound: list[tuple[str, int]] = []
    counters = CloudHubCounters()
    hive.add(Fragile, RegistrarSettings("127.0.0.1", 0, YEAR), authority, files, bound, counters)
    hive.start()

    def message(operation: str) -> Message:
        return Message.new(clock, source="test", resource=NAME, operation=operation, content={})

    def get() -> bytes:
        context = ssl.create_default_context(cafile=str(files.authority))
        connection = http.client.HTTPSConnection(*bound[0], timeout=DEADLINE, context=context)
        connection.request("GET", "/ca.crt")
        answer = connection.getresponse().read()
        connection.close()
        return answer

    first = bound[0]
    assert get() == authority.der
    hive.send(NAME, message("explode"))
    assert hive.request(NAME, message(TOKEN), DEADLINE).get().content_as(str).count(".") == 3
    assert bound == [first]
    assert get() == authority.der
    assert counters.certificate_responses() == {200: 2}
    hive.stop()
    clock.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=DEADLINE)
        assert not thread.is_alive(), thread.name
