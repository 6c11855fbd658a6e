"""The names of all kinds: whoever makes an object can name it in a request, and each database keeps it."""

from urllib.parse import unquote

import pytest

from beehive.http.errors import HttpStatusError
from beehive.http.request import MAX_PART, request_from
from beehive.http.server import RequestHead
from modules.apimachinery.kinds import KINDS
from modules.apimachinery.validation.causes import Causes
from modules.apimachinery.validation.kinds import RULES, KindRules
from modules.apimachinery.validation.metadata import path_segment
from modules.apimachinery.validation.names import faults_of_data_key

_REFUSED = {
    "NUL": "a%00b",
    "line": "a%0Ab",
    "escape": "a%1B%5B31mb",
    "reversed": "%E2%80%AEb",
    "two-parts": "a%2Fb",
    "parent": "..",
    "long": "x" * (MAX_PART + 1),
    "long-in-characters": "%C3%A4" * (MAX_PART + 1),
}
"""Quoted names."""


def named(quoted: str) -> str:
    """The name that a path leads to."""
    return request_from(RequestHead("GET", f"/api/v1/{quoted}", (), "1.1"), b"").parts[-1]


@pytest.mark.parametrize("quoted", _REFUSED.values(), ids=_REFUSED)
def test_a_name_that_no_path_leads_to_is_no_name(quoted: str) -> None:
    """Of any kind. A Role with a NUL in its name ended each transaction of a PostgreSQL, and nobody could delete it."""
    for kind in KINDS:
        found = Causes()
        RULES.get(kind.name, KindRules()).name(unquote(quoted), "metadata.name", found)
        assert found, kind.name
    with pytest.raises(HttpStatusError, match="names nothing"):
        named(quoted)


@pytest.mark.parametrize("quoted", ["system:node", "Ada%20L", "x" * MAX_PART, "%C3%A4" * MAX_PART, "%F0%9F%8E%89"])
def test_a_name_of_a_role_is_almost_any_part_of_a_path(quoted: str) -> None:
    found = Causes()
    path_segment(unquote(quoted), "metadata.name", found)
    assert not found
    assert named(quoted) == unquote(quoted)


def test_a_key_of_data_is_told_all_its_faults() -> None:
    assert [fault.split(" (")[0] for fault in faults_of_data_key("..a/b")] == [
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
        "must not start with '..'",
    ]
    assert not [*faults_of_data_key("x" * 253)]
    assert len([*faults_of_data_key("x" * 254)]) == 1
