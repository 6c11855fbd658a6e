"""Sign-ins as entries of the change journal, in virtual time."""

from beehive.http.request import Request
from beehive.testing import Harness
from modules.cloud.object_writes import ObjectWrite
from modules.processes.cloudcore.sign_ins import MOST_AT_ONCE, MOST_USERS, SECONDS, SignIns

REQUEST = Request(method="POST", target="/page/v1/session", parts=("page", "v1", "session"), address="192.0.2.7")


def test_each_sign_in_is_an_entry_with_its_way_and_address() -> None:
    with Harness() as bee:
        noted: list[ObjectWrite] = []
        signs = SignIns(bee.clock, noted.append)
        signs.succeeded(REQUEST, "token", "alice")
        signs.refused(REQUEST, "certificate", "carol")
        assert [(each.user, each.manager, each.verb, each.kind, each.fields) for each in noted] == [
            ("alice", "page", "signed in", "Page", ("by: token", "from: 192.0.2.7")),
            ("carol", "page", "sign-in refused", "Page", ("by: certificate", "from: 192.0.2.7")),
        ]


def test_what_comes_too_often_is_counted_and_hides_nobody_else() -> None:
    """Who guesses tokens without end, or signs in without end, fills no journal; others are noted."""
    with Harness() as bee:
        noted: list[ObjectWrite] = []
        signs = SignIns(bee.clock, noted.append)
        for _ in range(1000):
            signs.refused(REQUEST, "token", "system:anonymous")
            signs.succeeded(REQUEST, "token", "bot")
        assert len(noted) == 2 * MOST_AT_ONCE
        signs.succeeded(REQUEST, "token", "alice")
        assert noted[-1].user == "alice"
        bee.run_for(SECONDS)
        signs.refused(REQUEST, "token", "system:anonymous")
        assert noted[-1].fields[-1] == f"left out before: {1000 - MOST_AT_ONCE}"
        bee.run_for(SECONDS)
        signs.refused(REQUEST, "token", "system:anonymous")
        assert noted[-1].fields[-1] == "from: 192.0.2.7", "what was left out is told once"
        for number in range(MOST_USERS + 10):
            signs.succeeded(REQUEST, "token", f"user-{number}")
        assert len(signs._entries) == MOST_USERS
        before = len(noted)
        for number in range(3 * MOST_USERS):
            signs.succeeded(REQUEST, "token", "bot")
            signs.succeeded(REQUEST, "token", f"other-{number}")
        assert sum(each.user == "bot" for each in noted[before:]) == MOST_AT_ONCE, "the least recent user is forgotten"
