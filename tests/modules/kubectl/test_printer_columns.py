"""The columns of custom resources."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from modules.cli.errors import StatusError
from modules.kubectl.discovery import ApiResource
from modules.kubectl.get import columns_for
from modules.kubectl.session import Session

PUMP = ApiResource("pumps", "pump", "Pump", "x.example.io", "v1")
NOW = 1_800_000_000.0


def session_with(definition: Any) -> Session:
    """A session with a server that has this definition, or raises this error."""

    def get(path: str) -> Any:
        assert path == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pumps.x.example.io"
        if isinstance(definition, Exception):
            raise definition
        return definition

    return cast("Session", SimpleNamespace(client=SimpleNamespace(get=get)))


def with_columns(*columns: Any, version: str = "v1") -> Session:
    return session_with(
        {"spec": {"versions": [{"name": "v0"}, {"name": version, "additionalPrinterColumns": [*columns]}]}}
    )


def test_a_definition_has_the_columns_after_the_name() -> None:
    """As in the table of an API server: of many values the first, dates as ages, columns for `-o wide`."""
    session = with_columns(
        {"name": "Rate", "type": "integer", "jsonPath": ".spec.rate"},
        {"name": "Parts", "type": "string", "jsonPath": ".spec.parts[*].name"},
        {"name": "All", "type": "string", "jsonPath": ".spec.parts"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status', "priority": 1},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    )
    pump = {
        "metadata": {"name": "p", "creationTimestamp": "2027-01-15T07:59:00Z"},
        "spec": {"rate": 7, "parts": [{"name": "a"}, {"name": "b"}]},
        "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]},
    }
    columns = columns_for(session, PUMP)
    assert [column.title for column in columns] == ["Name", "Rate", "Parts", "All", "Ready", "Since"]
    shown = ["p", 7, "a", '[{"name":"a"},{"name":"b"}]', "True", "60s"]
    assert [column.cell(pump, NOW) for column in columns] == shown
    assert [column.cell({}, NOW) for column in columns][1:] == [None] * 5
    assert [column.title for column in columns if column.wide] == ["Ready"]


def test_with_a_path_that_cannot_be_read_there_are_name_and_age() -> None:
    """As in Kubernetes."""
    session = with_columns(
        {"name": "Rate", "type": "integer", "jsonPath": ".spec.rate"},
        {"name": "Odd", "type": "string", "jsonPath": ".spec[["},
    )
    assert [column.title for column in columns_for(session, PUMP)] == ["Name", "Age"]


@pytest.mark.parametrize("session", [with_columns(), with_columns({}, version="v2"), session_with({}),
                                     session_with(StatusError(404, "NotFound", "no"))],
                         ids=["none", "another version", "no definition", "refused"])  # fmt: skip
def test_without_columns_there_are_name_and_age(session: Session) -> None:
    assert [column.title for column in columns_for(session, PUMP)] == ["Name", "Age"]


def test_kinds_of_kubernetes_ask_for_no_definition() -> None:
    for resource in (ApiResource("pods", "pod", "Pod"), ApiResource("leases", "lease", "Lease", "coordination.k8s.io")):
        assert len(columns_for(session_with(None), resource)) > 1
