"""Each query is answered once, in whatever order answers, time-outs, deletions and the end of the link come."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from beehive import Message, Module, ModuleName, Operation
from beehive.testing import Harness
from metamanager.remote_query import RemoteQuery, is_refresh
from tests.metamanager.support import from_edged, thing

RESOURCES = ["default/configmap/a", "default/secret/a", "default/pod/a"]
SECONDS = 60.0


class Asking(Module):
    """A module with nothing but the queries."""

    name = "asking"

    def on_start(self) -> None:
        """Note each answered query."""
        self.answered: list[str] = []
        self.remote = RemoteQuery(self, SECONDS, self._note)

    def _note(self, requests: list[Message], _: Message | str) -> None:
        self.answered += [each.id for each in requests if not is_refresh(each)]


STEPS = st.one_of(
    st.tuples(st.just("query"), st.integers(0, 2), st.sampled_from([None, {"metadata": {"uid": "u"}}])),
    st.tuples(st.just("refresh"), st.integers(0, 2), st.none()),
    st.tuples(st.just("answer"), st.integers(0, 5), st.sampled_from([thing(), {"Object": None, "Err": {}}, "OK"])),
    st.tuples(st.just("discard"), st.integers(0, 2), st.none()),
    st.tuples(st.just("cancel"), st.none(), st.none()),
    st.tuples(st.just("wait"), st.sampled_from([1, 11, 59, 61]), st.none()),
)


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=14))
def test_each_query_is_answered_once(steps: list[tuple[str, Any, Any]]) -> None:
    with Harness() as bee:
        bee.answer(ModuleName.EDGEHUB, lambda _: None)
        bee.start(Asking)
        running: Any = bee.hive.slot("asking").running
        asking: Asking = running.ref._actor_weakref()
        asked: list[str] = []
        for step, number, content in steps:
            match step:
                case "query" | "refresh":
                    request = from_edged(bee, RESOURCES[number], Operation.QUERY, content)
                    if step == "query":
                        asked.append(request.id)
                    getattr(asking.remote, step)(request)
                case "answer":
                    questions = bee.sent_to(ModuleName.EDGEHUB)
                    if number < len(questions):
                        bee.hive.respond(questions[number].reply(bee.clock, content), ModuleName.EDGEHUB)
                case "discard":
                    asking.remote.discard(RESOURCES[number])
                case "cancel":
                    asking.remote.cancel_all()
                case _:
                    bee.run_for(float(number))
            bee.settle()
        bee.run_for(2 * SECONDS)
        assert Counter(asking.answered) == Counter(asked)
        assert not asking.remote._open
        assert not asking.remote._queries
