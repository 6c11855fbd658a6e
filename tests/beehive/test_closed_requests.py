"""A request whose asker has failed ends with it: nobody hears of it, and no timer is left."""

from beehive import Message, Module, handles
from beehive.delivery import DropReason
from beehive.testing import Harness


class Asker(Module):
    """Asks somebody who does not answer, and fails when told."""

    name = "asker"
    attempts = 1
    heard = 0

    @handles("pod")
    def ask(self, message: Message) -> None:
        """Ask."""
        self.request("somebody", self.message(message.route.resource, "query"), 5.0, self._hear)

    @handles("node")
    def fail(self, _message: Message) -> None:
        """Fail."""
        raise ValueError("told to")

    def _hear(self, _result: object) -> None:
        type(self).heard += 1


def test_a_request_of_a_module_that_has_failed_is_closed() -> None:
    with Harness() as bee:
        bee.expect_failures()
        bee.add(Asker)
        bee.answer("somebody", lambda _: None)
        bee.start()
        timers = bee.clock.pending()
        for resource in ("default/pod/a", "null/node/n"):
            bee.send("asker", bee.message(resource, "update"))
        (question,) = bee.sent_to("somebody")
        assert question.id not in bee.hive.pending_requests
        bee.run_for(20.0)
        assert bee.hive.restarts()["asker"] == 1
        assert (len(bee.hive.pending_requests), bee.clock.pending(), Asker.heard) == (0, timers, 0)
        bee.hive.respond(question.reply(bee.clock, "late"))
        assert bee.hive.pending_requests.unmatched == {DropReason.LATE_ANSWER: 1}
