"""What the page asks the change journal for, and what it says of the answer."""

import pytest

from modules.cloud.object_writes import CHANGED, NO_JOURNAL, KnownWrite, ObjectWrite, WriteList, WriteQuery
from modules.page.feeds import NAMES
from modules.page.journal import JournalReader, command_of, query_of
from modules.page.nodes import short_node
from modules.page.picture import Picture
from modules.page.sight import Sight

NOW = 1_000_000_000.0


@pytest.mark.parametrize(
    ("text", "query", "command"),
    [
        ("", WriteQuery(people_only=True), "cloudcore changes"),
        ("jan  web.x:2", WriteQuery(words=("jan", "web.x:2"), people_only=True), "cloudcore changes"),
        ("is:all before:77", WriteQuery(before=77), "cloudcore changes --all"),
        (
            "kind:deploy ns:shop name:web", WriteQuery("Deployment", "shop", "web"),
            "cloudcore changes deployment/web -n shop",
        ),
        (
            "kind:device.devices.kubeedge.io node:n1;x", WriteQuery("device.devices.kubeedge.io", node="n1;x"),
            "cloudcore changes device --node 'n1;x'",
        ),
    ],
)  # fmt: skip
def test_a_search_selects_changes(text: str, query: WriteQuery, command: str) -> None:
    assert (query_of(text), command_of(query_of(text))) == (query, command)


@pytest.mark.parametrize("text", ["color:red", "is:away", "before:x", f"before:{'9' * 30}", "before:²"])
def test_a_wrong_search_shows_the_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"there is no color: there are kind|is: wants all|before: wants"):
        query_of(text)


class Source:
    """A journal with one change."""

    def __init__(self) -> None:
        self.is_kept, self.part = True, 0
        self.asked: list[WriteQuery] = []

    def writes(self, query: WriteQuery) -> WriteList:
        """See `WriteSource`."""
        self.asked.append(query)
        write = ObjectWrite(
            NOW, "jan", "kubectl", CHANGED, "ConfigMap", "shop", "conf", "u", 7, fields=("data.a",), part=self.part
        )
        return WriteList([KnownWrite(write, 2, 1, ("n2",))], 5) if self.is_kept else WriteList([], is_kept=False)


def test_a_page_of_changes() -> None:
    source, picture = Source(), Picture(lambda: NOW)
    picture.put_nodes([short_node({"metadata": {"name": "n2"}})])
    picture.changes(0, NAMES)
    page = JournalReader(source, picture).page("conf")
    assert page.sentence == "6 changes in seven days; of the newest 1: 1 on the way."
    assert [each.reached for each in page.rows] == ["1 of 2 nodes has it; not confirmed by n2 (away)"]
    assert (page.more, page.before, page.is_all, source.asked[0].limit) == (5, "7", False, 100)
    assert "there is no color" in JournalReader(source, picture).page("color:red").wrong
    for part in (Sight(has_nodes=False), Sight(pods_in=frozenset("shop"))):
        hidden = JournalReader(source, picture).page("conf", part)
        assert (hidden.sentence, hidden.rows[0].reached, hidden.rows[0].mark) == ("6 changes in seven days.", "", "")
    source.part = 3
    assert JournalReader(source, picture).page("conf").before == "7.3"
    assert len("".join(query_of("x" * 9000).words)) == 500
    source.is_kept = False
    assert JournalReader(source, picture).page("").sentence == NO_JOURNAL
