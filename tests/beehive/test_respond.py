"""Whoever gives an answer to the bus learns whether somebody waited for it; edgehub stores what nobody did."""

from beehive import Message
from beehive.testing import Harness


def test_respond_says_whether_somebody_waited() -> None:
    """True for the first answer to an open request, False for a second one and for one to nothing."""
    with Harness() as bee:
        asked: list[Message] = []
        bee.answer("absent", asked.append)
        bee.start()
        future = bee.future("absent", bee.message("default/pod/p", "query"))
        answer = asked[0].reply(bee.clock)
        assert bee.hive.respond(answer)
        assert future.get().id == answer.id
        assert not bee.hive.respond(answer)
        assert not bee.hive.respond(bee.message("default/pod/p", "response", parent_id="nobody"))
