"""The API server beside the recorded answers of a kube-apiserver 1.32.13.

A difference is one of `differences.LISTED`, or its request is named in `known.json`, a list that only becomes shorter;
`python -m tests.modules.cloud.apiserver.reference` writes it anew.
"""

import json
from pathlib import Path

import pytest

from tests.modules.cloud.apiserver.reference.differences import LISTED, found
from tests.modules.cloud.apiserver.reference.playing import Player
from tests.modules.cloud.apiserver.reference.recordings import read, scripts

KNOWN = Path(__file__).parent / "known.json"
_PART = 10
"""Of the requests that change one member of an object, which are independent, the others are for `make slow`."""


def played(script: str, part: int = 1) -> tuple[list[int], set[str], list[str]]:
    """Play a script; return the requests with other differences than the listed ones, those that were found, and words
    about the former.
    """
    player, names = Player(), set[str]()
    differing: list[int] = []
    words: list[str] = []
    for index, request in enumerate(read(script)):
        if request.changed and index % part:
            continue
        code, answer, warnings = player.play(request)
        if request.is_setup:
            continue
        for one in found(request, code, answer, warnings):
            name = next((name for name, applies in LISTED.items() if applies(one)), "")
            names.add(name)
            if not name:
                differing.append(index)
                asked = request.changed or request.body
                words.append(f"[{index}] {request.method} {request.path} {asked}: {one.steps}\n"
                             f"  theirs {one.theirs}\n  ours   {one.ours}")  # fmt: skip
    return sorted(set(differing)), names - {""}, words


def _check(script: str, part: int = 1) -> set[str]:
    known = json.loads(KNOWN.read_text()).get(script, [])
    differing, names, words = played(script, part)
    new = [line for line in words if int(line[1:].partition("]")[0]) not in known]
    assert not new, "\n".join(new[:20])
    if part == 1:
        assert not {*known} - {*differing}, "no longer differ: write known.json anew"
    return names


@pytest.mark.parametrize("script", scripts())
def test_answers_agree_with_a_kube_apiservers(script: str) -> None:
    _check(script, _PART)


@pytest.mark.slow
def test_all_answers_agree_with_a_kube_apiservers_and_no_difference_is_listed_in_vain() -> None:
    assert set[str]().union(*map(_check, scripts())) == {*LISTED}
