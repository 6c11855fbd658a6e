"""The check that nothing piles up in memory."""

from collections import Counter

import pytest

from beehive.testing import Harness
from modules.apimachinery.kinds import JsonObject
from modules.cloud.client.calls import ApiCall
from modules.lab.simulate.sizes import grown, sizes_of


@pytest.mark.parametrize("is_sent", [False, True])
def test_what_a_message_or_a_call_has_counts_as_one(*, is_sent: bool) -> None:
    """There is a highest number of those under way; a few with large bodies were taken for a leak."""
    with Harness() as bee:
        body: JsonObject = {str(number): {} for number in range(100)}
        call = ApiCall(verb="patch", api_version="v1", plural="pods", name="web", body=body)
        vars(bee.hive)["kept"] = [bee.message("node/n1", "call", call) if is_sent else call]
        sizes = sizes_of(bee.hive)
        assert sizes["Hive.kept"] == 1
        assert list(grown(sizes, Counter())) == []


def test_what_has_grown_is_named() -> None:
    assert list(grown(Counter({"Store._rows": 41, "Few._rows": 40}), Counter())) == [
        "Store._rows has 41 entries, and 0 after a restart"
    ]
