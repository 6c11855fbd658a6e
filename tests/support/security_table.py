"""The table of docs/security.md: what a node sets, beside a kubelet and kube-proxy."""

import re
from pathlib import Path
from typing import Final

_DOC: Final = Path(__file__).parents[2] / "docs" / "security.md"
_HEAD: Final = "| rule, parameter or mode | kubelet, kube-proxy, containerd | edgecore |"
_MODE: Final = re.compile(r"\b[02]\d{3}\b")


def rows() -> dict[str, str]:
    """What edgecore sets, by the first cell of the row."""
    table = _DOC.read_text().partition(_HEAD)[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
    assert all(len(each) == 3 for each in cells)
    return {first.strip(): third.removesuffix(" |").strip() for first, _, third in cells}


def modes(text: str) -> set[int]:
    """The modes in a cell."""
    return {int(each, 8) for each in _MODE.findall(text)}


def literals(text: str) -> set[str]:
    """What a cell has in the words of the program that is meant."""
    return set(re.findall(r"`([^`]+)`", text))
