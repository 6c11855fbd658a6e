"""The names on the wire are KubeEdge's of today (docs/protocol.md, "Resource types", "Operations" and "Modules and
sources").
"""

import pytest

from beehive import Group, ModuleName, Operation, ResourceType


@pytest.mark.parametrize(
    "operation", ["insert", "delete", "query", "update", "response", "error", "patch", "upload", "unhold-upgrade"]
)
def test_operations_of_the_message_model(operation: str) -> None:
    """Every constant of KubeEdge's model package is there."""
    assert Operation(operation) == operation


@pytest.mark.parametrize(
    "kind",
    [
        "pod",
        "configmap",
        "secret",
        "node",
        "podlist",
        "podstatus",
        "nodestatus",
        "event",
        "serviceaccounttoken",
        "podpatch",
        "nodepatch",
        "rule",
        "ruleendpoint",
        "rulestatus",
        "lease",
        "serviceaccountaccess",
        "certificatesigningrequest",
        "ca.crt",
        "service",
        "servicelist",
        "endpoints",
        "endpointslist",
        "persistentvolume",
        "persistentvolumeclaim",
        "volumeattachment",
        "volume",
        "membership",
        "twin",
        "device",
        "devicemodel",
        "devicemapper",
    ],
)
def test_resource_types_of_the_message_model(kind: str) -> None:
    """So is every resource type of both commits."""
    assert ResourceType(kind) == kind


@pytest.mark.parametrize(
    ("module", "name", "group"),
    [
        (ModuleName.EDGEHUB, "websocket", "hub"),
        (ModuleName.METAMANAGER, "metamanager", "meta"),
        (ModuleName.EDGED, "edged", "edged"),
        (ModuleName.EVENTBUS, "eventbus", "bus"),
        (ModuleName.SERVICEBUS, "servicebus", "bus"),
        (ModuleName.DEVICETWIN, "twin", "twin"),
        (ModuleName.EDGESTREAM, "edgestream", "edgestream"),
        (ModuleName.TASKMANAGER, "taskmanager", "taskmanager"),
        (ModuleName.CLOUDHUB, "cloudhub", "cloudhub"),
        (ModuleName.EDGECONTROLLER, "edgecontroller", "edgecontroller"),
    ],
)
def test_module_and_group_names(module: ModuleName, name: str, group: str) -> None:
    """They are seen on the wire as source and group."""
    assert module == name
    assert Group(group) == group
