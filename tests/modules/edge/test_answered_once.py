"""What asks a module of the node for an answer gets one, whatever fails: others wait for it, and take no second one."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec
import pytest

from beehive import DropReason, Group, Message, Module, ModuleName, Operation, Source
from beehive.http.forwarding import ForwardedRequest
from beehive.names import CLOUD_CONNECTED, CONNECTION_RESOURCE
from beehive.testing import Harness
from metamanager.module import MetaManager, MetaSettings
from modules.edge.devicetwin.module import DeviceTwin, TwinSettings
from modules.edge.eventbus.module import EventBus, EventBusSettings
from modules.edge.eventbus.session import BrokerSettings
from modules.edge.servicebus.module import ServiceBus, ServiceBusSettings
from tests.support.failing import PlannedError

pytestmark = pytest.mark.modules_fail

SOON: Final = 20.0
"""Seconds: three tries, each after a delay, and less than the time-outs of those who ask."""
METHOD: Final = "80:/api/v1/devicemethod/default/hall/set/threshold/1"


class Asked(NamedTuple):
    """A module alone on the bus, and a message to it that wants an answer, for which it waits for others."""

    module: type[Module]
    args: tuple[Any, ...]
    resource: str
    operation: str
    content: Any = None
    source: str = "test"
    is_request: bool = True
    """Whether the asker waits on the bus; otherwise it is the cloud."""


CASES: Final = [
    Asked(MetaManager, (), "default/configmap/a", "query", source="edged"),
    Asked(MetaManager, (), "default/volume/v", Operation.CREATE_VOLUME, "{}", "csidriver", is_request=False),
    Asked(DeviceTwin, (TwinSettings("n1", mqtt=True),), "$hw/events/device/d/twin/update", "response", "{}", "bus"),
    Asked(EventBus, (EventBusSettings("n1", BrokerSettings("127.0.0.1", 1, "n1")),), "a/b", "publish", "x"),
    Asked(
        ServiceBus, (ServiceBusSettings("n1"),), METHOD, "GET", ForwardedRequest(method="GET"), "router_servicebus",
        is_request=False,
    ),
]  # fmt: skip


def failing(module: type[Module], fails: Callable[[], bool], *, after: bool) -> type[Module]:
    """A module whose handlers of anything but the link's state fail, before or after their work, when asked to."""

    def failing_call(call: Callable[[Any, Message], None]) -> Callable[[Any, Message], None]:
        def handle(self: Any, message: Message) -> None:
            may_fail = message.route.resource != CONNECTION_RESOURCE
            if may_fail and not after and fails():
                raise PlannedError
            call(self, message)
            if may_fail and after and fails():
                raise PlannedError

        return handle

    broken = cast("type[Module]", type(module.__name__, (module,), {}))
    known = broken.handlers._handlers
    for key, handler in known.items():
        known[key] = msgspec.structs.replace(handler, call=failing_call(handler.call))
    return broken


def add(bee: Harness, case: Asked, path: Path, fails: Callable[[], bool], *, after: bool) -> None:
    """Start the module of a case; nobody answers it."""
    args = case.args or (MetaSettings(str(path / "edgecore.db")),)
    bee.start(failing(case.module, fails, after=after), *args)
    bee.send(case.module.name, bee.message(CONNECTION_RESOURCE, "connect", CLOUD_CONNECTED, source=Source.EDGEHUB))


def ask(bee: Harness, case: Asked) -> Callable[[], int]:
    """Send the message of a case; return a function that counts its answers."""
    message = bee.message(case.resource, case.operation, case.content, source=case.source)
    if not case.is_request:
        bee.send(case.module.name, message)
        return lambda: sum(map(is_answer, (*bee.sent_to(ModuleName.EDGEHUB), *bee.sent_to(Group.HUB))))
    future = bee.future(case.module.name, message, 3600.0)
    bee.settle()
    doubles = bee.hive.pending_requests.unmatched
    return lambda: int(future.settled) + doubles[DropReason.DOUBLE_ANSWER]


def is_answer(message: Message) -> bool:
    """Whether a message answers the cloud."""
    return bool(message.parent_id)


def fail(bee: Harness, case: Asked) -> None:
    """Let the running module fail, between two messages."""

    def raise_error() -> None:
        raise PlannedError

    running: Any = bee.hive.slot(case.module.name).running
    running.ref._actor_weakref().call_soon(raise_error)
    bee.settle()


@pytest.mark.parametrize(
    ("case", "after"),
    [(case, after) for case in CASES for after in (False, True) if after or case.is_request],
    ids=lambda value: value.module.name if isinstance(value, Asked) else "half-way" if value else "before",
)
@pytest.mark.parametrize("times", [0, 1, 2, 3])
def test_what_a_module_fails_on_is_answered_once(case: Asked, times: int, *, after: bool, tmp_path: Path) -> None:
    """It is tried three times; then, or when the module fails while others have not answered it, it is answered."""
    tries = Counter[str]()

    def fails() -> bool:
        tries["all"] += 1
        return tries["all"] <= times

    with Harness() as bee:
        bee.expect_failures("PlannedError")
        add(bee, case, tmp_path, fails, after=after)
        answers = ask(bee, case)
        bee.run_for(SOON / 2)
        assert answers() == (times == 3)
        fail(bee, case)
        bee.run_for(SOON / 2)
        assert (answers(), min(times + 1, 3)) == (1, tries["all"])


@pytest.mark.parametrize("case", [case for case in CASES if case.is_request], ids=lambda case: case.module.name)
def test_a_request_that_is_under_way_at_a_stop_is_answered(case: Asked, tmp_path: Path) -> None:
    """What is for the cloud has no link any more: its end tells the cloud."""
    with Harness() as bee:
        add(bee, case, tmp_path, lambda: False, after=False)
        answers = ask(bee, case)
        assert not answers()
        bee.hive.stop()
        bee.settle()
        assert answers() == 1
