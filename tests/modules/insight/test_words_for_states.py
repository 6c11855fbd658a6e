"""The state of a node is one word, wherever one reads it: in scenes, each place has the word of the same moment."""

import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from modules.cloud.messages import LinkSession, NodeConnection
from modules.insight.fleet.facts import LinkKnowledge, linked_row
from modules.insight.fleet.findings import Fleet, findings
from modules.insight.fleet.rows import NodeRow, PodCount
from modules.insight.fleet.sentences import SentencePart, fleet_sentence, link_words
from modules.insight.fleet.states import AWAY, BEHIND, CONNECTED, LOST, NEVER, UNLINKED
from modules.insight.why.facts import PodFacts
from modules.insight.why.pods import explain
from modules.page import picture
from modules.processes.cloudcore.doctor_checks import _FAILURES
from modules.processes.cloudcore.nodes_command import table

_REPOSITORY: Final = Path(__file__).parents[3]
_STATES: Final = (CONNECTED, BEHIND, LOST, AWAY, NEVER)
NOW: Final = 1_000_000.0


class Scene(NamedTuple):
    """A node as cloudcore knows it."""

    word: str
    node: dict[str, Any] | None = None
    held: NodeConnection | None = None
    sessions: tuple[LinkSession, ...] = ()
    refused: str = ""


def made(ready: str = "True", **spec: Any) -> dict[str, Any]:
    """A Node."""
    reason = "NodeStatusUnknown" if ready == "Unknown" else "KubeletReady"
    condition = {"type": "Ready", "status": ready, "reason": reason}
    return {"metadata": {"name": "n1"}, "spec": spec, "status": {"conditions": [condition]}}


def ended(ago: float) -> tuple[LinkSession, ...]:
    """A connection that ended so many seconds ago."""
    return (LinkSession("n1", "c", "a", NOW - 900.0, NOW - ago, "closed"),)


SCENES: Final = {
    "well": Scene(CONNECTED, made(), NodeConnection("n1", 60.0, 1.0)),
    "cordoned": Scene(CONNECTED, made(unschedulable=True), NodeConnection("n1", 60.0, 1.0)),
    "not ready": Scene(BEHIND, made("False"), NodeConnection("n1", 60.0, 1.0)),
    "silent on an open link": Scene(BEHIND, made(), NodeConnection("n1", 600.0, 90.0)),
    "deleted while connected": Scene(BEHIND, None, NodeConnection("n1", 60.0, 1.0)),
    "killed just now": Scene(LOST, made(), sessions=ended(13.0)),
    "cut for long": Scene(AWAY, made("Unknown"), sessions=ended(300.0)),
    "cut for long, and still said to be Ready": Scene(AWAY, made(), sessions=ended(300.0)),
    "never come": Scene(NEVER, made("Unknown") | {"status": {"conditions": []}}),
    "two with one name, the second refused": Scene(
        CONNECTED, made(), NodeConnection("n1", 60.0, 1.0), refused="another key has this name"
    ),
    "refused after it was cut": Scene(AWAY, made("Unknown"), sessions=ended(300.0), refused="it is revoked"),
}


def row_of(scene: Scene) -> NodeRow:
    """The row of the page and of findings."""
    known = LinkKnowledge(held=scene.held, sessions=list(scene.sessions), refused=scene.refused)
    return linked_row("n1", scene.node, known, PodCount(), NOW)


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_every_place_has_the_same_word(scene: Scene) -> None:
    """The page's rows, its sentence, findings (which `doctor` prints), `cloudcore nodes`, and `why`."""
    row = row_of(scene)
    assert row.state == scene.word
    others = [NodeRow("n2", CONNECTED)]
    counted = [part for part in fleet_sentence([row, *others]) if part.query]
    found = [each for each in findings(Fleet([row, *others], [], NOW))[0] if each.rule.startswith("node")]
    if scene.word == CONNECTED:
        assert (counted, found) == ([], [])
    else:
        assert [part.query for part in counted] == [f"is:{scene.word}"]
        assert [each.rule for each in found] == [f"node-{scene.word}"]
        assert found[0].rule in _FAILURES
        assert scene.word in found[0].sentence
    assert scene.word in link_words(row, NOW)
    nodes = [scene.node] if scene.node is not None else []
    held = [scene.held] if scene.held is not None else []
    cells = table(nodes, held, {}, newest=scene.sessions, now=NOW).rows[0]
    assert (scene.word in cells[2]) == (scene.word in UNLINKED), "without a connection, its column has the state"


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_why_has_the_word(scene: Scene) -> None:
    """Unless the node is connected: then the answer is about the pod alone."""
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "n1", "containers": [{"name": "a", "image": "b"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    answer = explain(PodFacts(pod=pod, now=NOW, program="cloudcore", node=scene.node, link=row_of(scene)))
    text = " ".join([answer.sentence, *answer.notes])
    assert (scene.word in text) == (scene.word != CONNECTED), text


def test_the_counts_of_the_sentence() -> None:
    """Nodes whose connection has just ended are not among the connected ones."""
    rows = [NodeRow(f"n{number}", state) for number, state in enumerate((CONNECTED, CONNECTED, BEHIND, LOST, AWAY))]
    assert fleet_sentence(rows)[:4] == [
        SentencePart("3 of 5 nodes are connected"), SentencePart("; "), SentencePart("1 is away", "is:away"),
        SentencePart(", "),
    ]  # fmt: skip
    assert SentencePart("1 is lost", "is:lost") in fleet_sentence(rows)


def test_page_and_documentation_have_all_words() -> None:
    """The table of docs/page.md, the search, the marks, the order of rows."""
    table_of_words = (_REPOSITORY / "docs" / "page.md").read_text().split("### States of a node")[1].split("###")[0]
    assert tuple(re.findall(r"^\| (\w+) \|", table_of_words, re.MULTILINE)[1:]) == _STATES
    files = _REPOSITORY / "modules" / "page" / "files"
    states = re.findall(r'"(\w+)"', (files / "search.js").read_text().split("const STATES = ")[1].split(";")[0])
    assert tuple(states) == (*_STATES, "cordoned")
    rank = re.findall(r"(\w+): \d", (files / "fleet.js").read_text().split("const RANK = {")[1].split("}")[0])
    assert sorted(rank) == sorted(picture._RANK) == sorted(_STATES)
    assert all(f"  {each}: [" in (files / "parts.js").read_text() for each in _STATES)
