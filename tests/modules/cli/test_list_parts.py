"""Lists in parts, of servers that behave and of one that names a next part for ever."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from modules.cli import list_parts as parts
from modules.cli.errors import KubectlError
from modules.cli.list_parts import list_parts
from modules.kubectl.discovery import ApiResource
from modules.kubectl.resources import Listing, objects_of
from modules.page.feeds import Feeds
from modules.page.listing import listed
from modules.processes.cloudcore.control_client import ControlClient

Query = list[tuple[str, str]]
ENDLESS: dict[str, Any] = {"items": [], "metadata": {"continue": "more", "resourceVersion": "7"}}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were asked for, of a server that names three parts too many."""
    monkeypatch.setattr(parts, "MOST_PARTS", 3)
    return []


def test_each_part_is_asked_for_by_the_token_of_the_one_before() -> None:
    queries: list[Query] = []
    answers: list[dict[str, Any]] = [{"metadata": {"continue": "a"}}, {"metadata": {"continue": "b"}}, {}]

    def ask(query: Query) -> dict[str, Any]:
        queries.append(query)
        return answers[len(queries) - 1]

    assert [*list_parts(ask, 5)] == answers
    limit = ("limit", "5")
    assert queries == [[limit], [limit, ("continue", "a")], [limit, ("continue", "b")]]
    assert next(list_parts(lambda query: {"query": query}, 0)) == {"query": []}


def _read_all(reader: str, asked: list[str]) -> object:
    """Read a list as one of its readers does."""

    def get(path: str, _query: object = ()) -> dict[str, Any]:
        asked.append(path)
        return ENDLESS

    client, resource = Mock(get=get), ApiResource("pods", "pod", "Pod")
    match reader:
        case "page":
            return list(listed(client, "/api/v1/pods", 5, 100))
        case "feed":
            feeds = Feeds(Mock(), client, Mock(), Mock(), Mock(), Mock())
            return feeds._list("pods", lambda obj: obj, lambda _: None)
        case "kubectl":
            return objects_of(Mock(client=client), Listing(resource, "d", ()))
        case _:
            control = ControlClient(Path("x"))
            with patch.object(control, "call", lambda _method, path: get(path)):
                return control.objects("Pod")


@pytest.mark.parametrize("reader", ["page", "feed", "kubectl", "control"])
def test_a_server_that_names_a_next_part_for_ever_holds_no_reader(reader: str, asked: list[str]) -> None:
    with pytest.raises(KubectlError, match="the list has more than 3 parts"):
        _read_all(reader, asked)
    assert len(asked) == 3
