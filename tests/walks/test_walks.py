"""The parts of `make walks` that need no installation; what it walks is held to both programs and to the pages."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.processes.cloudcore.cli import command_line as cloudcore_line
from modules.processes.edgecore.cli import command_line as edgecore_line
from tests.end_to_end.processes import REPOSITORY
from tests.walks.covering import covering, for_pairs
from tests.walks.elsewhere import COMMANDS, GROUPS, INSTALLING, LOOKING, PAGES
from tests.walks.factors import FACTORS, Here, Row, reason_not, this_machine
from tests.walks.names import answer
from tests.walks.screens import Contradiction, Fact, contradictions, gauges
from tests.walks.walks import WALKS
from tests.walks.world import _with_root

EVERYTHING = frozenset(
    ("crun", "conmon", "containerd", "ctr", "runc", "dockerd", "newuidmap", "setpriv", "slirp4netns", "mosquitto",
     "nft", "kubectl", "/usr/lib/cni/bridge")
)  # fmt: skip
ROOT = Here(is_root=True, programs=EVERYTHING)


def _command_names(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from (each.dest for each in action._choices_actions)


def test_each_command_is_walked_or_named_with_a_reason() -> None:
    """A new command belongs into a walk."""
    walked = {command for walk in WALKS.values() for command in walk.commands} | INSTALLING | LOOKING
    for program, line in (("cloudcore", cloudcore_line), ("edgecore", edgecore_line)):
        named = {f"{program} {name}" for name in _command_names(line(None)[0])}
        known = {each for each in walked | COMMANDS.keys() if each.startswith(program)}
        assert named == known, f"not walked: {named - known}; no longer there: {known - named}"
    assert not walked & COMMANDS.keys()


def test_each_group_of_options_of_the_cloud_is_walked_or_named_with_a_reason() -> None:
    parser, commands = cloudcore_line(["run"])
    titles = {str(group.title) for group in commands.choices["run"]._action_groups} - {
        "positional arguments",
        "options",
    }
    assert titles == GROUPS.keys(), parser.prog


def test_each_page_is_walked_or_named_with_a_reason() -> None:
    pages = {page.stem for page in (REPOSITORY / "docs").glob("*.md")}
    walked = [page for walk in WALKS.values() for page in walk.pages]
    assert pages == {*walked} | PAGES.keys()
    assert not {*walked} & PAGES.keys()
    assert len(walked) == len({*walked})


def test_rows_have_each_pair_of_levels_that_a_machine_can_have() -> None:
    rows = covering(ROOT)
    seen = {pair for row in rows for pair in row.pairs}
    levels = list(FACTORS.values())
    pairs = {
        (one, other)
        for at, ones in enumerate(levels)
        for others in levels[at + 1 :]
        for one in ones
        for other in others
    }
    assert {pair for pair in pairs if not reason_not(pair, ROOT)} <= seen
    assert not any(reason_not(row, ROOT) for row in rows)
    assert len(rows) < 60


def test_rows_of_a_user_and_rows_with_chosen_levels() -> None:
    user = Here(is_root=False, programs=EVERYTHING)
    assert {row.user for row in covering(user, ["load"])} == {"ordinary"}
    first = covering(ROOT)[0]
    assert covering(ROOT, first) == [first]
    with pytest.raises(ValueError, match="no level of a factor: never"):
        covering(ROOT, ["never"])
    with pytest.raises(ValueError, match="the walks run as an ordinary user"):
        covering(user, ["root"])


def test_drawn_pairs_need_few_rows() -> None:
    rows = covering(ROOT)
    chosen = for_pairs(rows, 10, 7)
    assert chosen == for_pairs(rows, 10, 7)
    assert 1 < len(chosen) < 8
    assert {*chosen} <= {*rows}


@pytest.mark.parametrize(
    ("levels", "part"),
    [(("ordinary", "docker"), "socket is root's"), (("two-nodes", "containerd"), "end each other's pods"),
     (("upgrade", "plain"), "TLS"), (("names", "processes"), "resolv.conf"), (("two-nodes", "mesh"), ""),
     (("two-nodes", "mesh", "root"), "one address of the mesh")],
)  # fmt: skip
def test_what_a_machine_cannot_have(levels: tuple[str, ...], part: str) -> None:
    reason = reason_not(levels, ROOT)
    assert (part in reason) if part else not reason


def test_what_a_machine_lacks_is_named() -> None:
    bare = Here(is_root=True, programs=frozenset(), may_open_tun=False, has_python=False)
    assert reason_not(["oci"], bare) == "not installed: /usr/lib/cni/bridge, conmon, crun"
    assert reason_not(["devices"], bare) == "not installed: mosquitto"
    assert reason_not(["ordinary"], bare) == "other users have no such Python"
    assert covering(bare, ["root", "processes", "no-mesh"])
    assert this_machine().programs <= EVERYTHING


def test_no_two_factors_share_a_level() -> None:
    levels = [level for each in FACTORS.values() for level in each]
    assert len(levels) == len({*levels})
    assert Row._fields == tuple(FACTORS)


def test_screens_that_contradict_each_other() -> None:
    facts = [
        Fact("node a: is well", "get", "yes"), Fact("node a: is well", "page", "no"),
        Fact("node a: is well", "get", "yes"), Fact("node b: is well", "get", "yes"),
        Fact("node b: is well", "page", "yes"),
    ]  # fmt: skip
    assert contradictions(facts) == [Contradiction("node a: is well", {"yes": ("get",), "no": ("page",)})]
    assert str(contradictions(facts)[0]) == "node a: is well: page: no; get: yes"
    assert contradictions([]) == []


def test_sums_of_metrics() -> None:
    assert gauges('# HELP a b\na 1.5\nb{x="1"} 2\nb{x="2"} 3\n') == {"a": 1.5, "b": 5.0}


def test_the_directory_stands_before_the_command_of_a_container() -> None:
    root = Path("/r")
    assert _with_root(("exec", "p", "--", "ls", "-l"), root) == ["exec", "p", "--root", "/r", "--", "ls", "-l"]
    assert _with_root(("get", "pods"), root) == ["get", "pods", "--root", "/r"]
    assert _with_root(("version",), root) == ["version"]


def test_answers_of_the_name_server() -> None:
    question = b"\x12\x34\x01\x00\x00\x01" + bytes(6) + b"\x05walks\x07example\x00\x00\x01\x00\x01"
    told = answer(question)
    assert told[:8] == b"\x12\x34\x81\x80\x00\x01\x00\x01"
    assert told.endswith(b"\x00\x04\xc0\x00\x02\x4d")
    assert answer(question[:-4] + b"\x00\x1c\x00\x01")[6:8] == b"\x00\x00"
    assert answer(b"short") == b""
