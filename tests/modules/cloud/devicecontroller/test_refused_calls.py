"""Whichever call to the API server is refused or gets no answer once: what is stored in the end is the same."""

from itertools import count
from typing import Any

import pytest

from beehive import Message, ModuleName
from beehive.testing import Harness
from modules.cloud.api_messages import Verb
from modules.cloud.client.calls import ApiResult
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.devicecontroller.module import DeviceController
from modules.cloud.devices import DEVICE, DEVICE_MODEL
from modules.cloud.refusals import Refusals
from modules.cloud.storage.watch_history import WatchStart
from tests.modules.cloud.devicecontroller.test_module import ApiServer, device, link, obj, report

_MOST = 60


class RefusingServer(ApiServer):
    """An API server that does not carry out one call.

    Args:
        bee: the harness.
        at: the number of the call, from 1.
        code: of the refusal; 0: there is no answer.
    """

    def __init__(self, bee: Harness, at: int, code: int) -> None:
        self.number = 0
        """Of the last call, watches included."""
        self._at, self._code = at, code
        super().__init__(bee, device(), device("late", "n2"))

    def _answer(self, message: Message) -> Message | None:
        self.number += 1
        if self.number != self._at:
            return super()._answer(message)
        if not self._code:
            return None
        refusal = {"code": self._code, "message": "not now"}
        is_watch = message.route.operation == Verb.WATCH
        return message.reply(self._bee.clock, WatchStart(refusal=refusal) if is_watch else ApiResult(refusal=refusal))


def lived(at: int, code: int) -> tuple[int, dict[str, Any]]:
    """The number of calls, and what is stored at the end of a story: nodes report, a model changes, a Device goes, and
    another cloudcore ends.
    """
    with Harness() as bee:
        server, known = RefusingServer(bee, at, code), KnownCloudcores("a")
        known.alive = ("a", "b")
        bee.add(DeviceController, Refusals(bee.clock), known)
        bee.start()
        link(bee, "connected")
        bee.run_for(90)
        report(bee, "21", timestamp=1000, seconds=90)
        known.alive = ("a",)
        bee.run_for(90)
        report(bee, "22", timestamp=2000, seconds=90)
        server.lists[DEVICE_MODEL.key_name] = [
            obj("DeviceModel", "m", {"properties": [{"name": "t", "type": "STRING"}]}, 2)
        ]
        server.change("MODIFIED", server.lists[DEVICE_MODEL.key_name][0], seconds=90)
        gone = server.lists[DEVICE.key_name].pop()
        server.change("DELETED", gone, seconds=300)
        stored = {name: each["status"].get("twins") for name, each in server.statuses.items()}
        assert not bee.hive.restarts()[ModuleName.DEVICECONTROLLER]
        return server.number, stored


@pytest.mark.parametrize("code", [409, 429, 500, 503, 504, 0])
def test_what_is_stored_in_the_end_is_the_same(code: int) -> None:
    calls, stored = lived(0, code)
    assert stored["d"][0]["reported"]["value"] == "22"
    assert "late" not in stored
    for at in count(1):
        number, found = lived(at, code)
        assert found == stored, f"call {at} was refused"
        if number < at:
            break
    assert calls < at <= _MOST
