"""The table of KubeEdge's operations (docs/protocol.md, "Message table" and "Queries"): each row of it, with and
without a connection.
"""

import pytest

from beehive import ModuleName, Operation, ResourceType
from metamanager.query_origins import Origin, origin_of
from metamanager.rules import Change, Plan, Step, is_kept, plan

I, U, P, D, Q, R = (  # noqa: E741 - the columns of a table
    Operation.INSERT, Operation.UPDATE, Operation.PATCH, Operation.DELETE, Operation.QUERY, Operation.RESPONSE,
)  # fmt: skip
EDGED, EC, DC, PC, DYN = (
    ModuleName.EDGED, ModuleName.EDGECONTROLLER, ModuleName.DEVICECONTROLLER, ModuleName.POLICYCONTROLLER,
    ModuleName.DYNAMICCONTROLLER,
)  # fmt: skip
POD, NODE, LEASE = ResourceType.POD, ResourceType.NODE, ResourceType.LEASE
NONE, PUT, DELETE = Change.NONE, Change.PUT, Change.DELETE

ROWS: list[tuple[str, str, str, Change, tuple[Step, ...]]] = [
    (I, "event", EDGED, Change.PUT_EVENT, (Step.EVENT_TO_CLOUD,)),
    (I, NODE, EDGED, NONE, (Step.ASK_CLOUD,)),
    (I, POD, EDGED, NONE, (Step.ASK_CLOUD,)),
    (I, "device", DC, PUT, (Step.TO_TWIN, Step.OK_TO_CLOUD_AS_META)),
    (I, "device", EC, PUT, (Step.TO_TWIN, Step.OK_TO_CLOUD)),
    (U, "devicemodel", EC, PUT, (Step.TO_TWIN, Step.OK_TO_CLOUD)),
    (D, "device", EC, DELETE, (Step.TO_TWIN, Step.OK_TO_CLOUD)),
    (U, "devicetwin", ModuleName.DEVICETWIN, PUT, (Step.OK_TO_SENDER,)),
    (D, "devicetwin", ModuleName.DEVICETWIN, DELETE, (Step.OK_TO_SENDER,)),
    (Q, "devicetwin", ModuleName.DEVICETWIN, NONE, (Step.ANSWER,)),
    (U, "devicetwin", EC, NONE, (Step.UNSUPPORTED,)),
    (I, "serviceaccountaccess", PC, PUT, (Step.OK_TO_CLOUD,)),
    (I, POD, EC, PUT, (Step.TO_EDGED, Step.OK_TO_CLOUD)),
    (I, "configmap", EC, PUT, (Step.TO_EDGED, Step.OK_TO_CLOUD)),
    (I, "deployment", DYN, PUT, (Step.TO_EDGED, Step.OK_TO_CLOUD)),
    (U, "event", EDGED, Change.PUT_EVENT, (Step.EVENT_TO_CLOUD,)),
    (U, LEASE, EDGED, NONE, (Step.ASK_CLOUD,)),
    (U, "podstatus", EDGED, PUT, (Step.REPORT_TO_CLOUD, Step.OK_TO_SENDER)),
    (U, "secret", EC, PUT, (Step.TO_EDGED, Step.OK_TO_CLOUD)),
    (U, NODE, EC, PUT, (Step.TO_EDGED, Step.TO_MESH, Step.OK_TO_CLOUD)),
    (U, POD, DYN, PUT, (Step.TO_EDGED, Step.OK_TO_CLOUD)),
    (U, "device", DC, PUT, (Step.OK_TO_CLOUD, Step.TO_TWIN)),
    (U, "serviceaccountaccess", PC, PUT, (Step.OK_TO_CLOUD,)),
    (U, "device", ModuleName.METAMANAGER, PUT, (Step.TO_TWIN, Step.OK_TO_SENDER)),
    (U, POD, "synccontroller", NONE, (Step.UNSUPPORTED,)),
    (P, "event", EDGED, NONE, (Step.TO_CLOUD,)),
    (P, "podpatch", EDGED, PUT, (Step.TO_CLOUD,)),
    (P, "nodepatch", EDGED, PUT, (Step.TO_CLOUD,)),
    (D, POD, EDGED, NONE, (Step.DELETION_TO_CLOUD,)),
    (D, "volumeattachment", EDGED, NONE, (Step.TO_CLOUD,)),
    (D, POD, EC, DELETE, (Step.TO_EDGED, Step.OK_TO_CLOUD)),
    (D, "secret", EC, DELETE, (Step.TO_EDGED, Step.OK_TO_CLOUD)),
    (D, NODE, EC, DELETE, (Step.TO_EDGED, Step.TO_MESH, Step.OK_TO_CLOUD)),
    (I, "service", DYN, PUT, (Step.TO_EDGED, Step.TO_MESH, Step.OK_TO_CLOUD)),
    (U, "podlist", EC, PUT, (Step.TO_EDGED, Step.TO_MESH, Step.OK_TO_CLOUD)),
    (D, "device", DC, DELETE, (Step.TO_TWIN, Step.TO_EDGED, Step.OK_TO_CLOUD)),
    (D, "serviceaccountaccess", PC, DELETE, (Step.OK_TO_CLOUD,)),
    (D, "service", ModuleName.METASERVER, DELETE, (Step.TO_MESH,)),
    (Q, POD, EDGED, NONE, (Step.ANSWER_OR_ASK,)),
    (Q, "podpatch", EDGED, NONE, (Step.ANSWER,)),
    (Q, "configmap", EDGED, NONE, (Step.ANSWER_OR_ASK,)),
    (Q, "secret", EDGED, NONE, (Step.ANSWER_OR_ASK,)),
    (Q, NODE, EDGED, NONE, (Step.ASK_CLOUD,)),
    (Q, "persistentvolume", EDGED, NONE, (Step.ANSWER_AND_REFRESH,)),
    (Q, "persistentvolumeclaim", EDGED, NONE, (Step.ANSWER_AND_REFRESH,)),
    (Q, "volumeattachment", EDGED, NONE, (Step.ANSWER_AND_REFRESH,)),
    (Q, "serviceaccounttoken", EDGED, NONE, (Step.ANSWER_AND_REFRESH,)),
    (Q, LEASE, EDGED, NONE, (Step.ASK_CLOUD,)),
    (Q, "certificatesigningrequest", EDGED, NONE, (Step.ASK_CLOUD,)),
    (R, "configmap", EC, Change.PUT_ANSWER, (Step.TO_EDGED,)),
    (R, NODE, EC, Change.PUT_ANSWER, (Step.TO_EDGED,)),
    (R, "x", "other", Change.PUT_ANSWER, (Step.TO_CLOUD,)),
    (Operation.CREATE_VOLUME, "volume", "csidriver", NONE, (Step.TO_VOLUME_PLUGIN,)),
    (Operation.CONTROLLER_UNPUBLISH_VOLUME, "volume", "csidriver", NONE, (Step.TO_VOLUME_PLUGIN,)),
    (U, "store", EDGED, PUT, (Step.OK_TO_SENDER,)),
    (U, "store", EC, NONE, (Step.UNSUPPORTED,)),
    (I, "store", EC, NONE, (Step.UNSUPPORTED,)),
    (D, "store", EC, NONE, (Step.UNSUPPORTED,)),
    (P, "store", EDGED, NONE, (Step.UNSUPPORTED,)),
    (Operation.CONNECT, "other", "edgehub", NONE, (Step.UNSUPPORTED,)),
    ("", "", "", NONE, (Step.UNSUPPORTED,)),
]
WITHOUT_CLOUD: list[tuple[str, str, str, Change, tuple[Step, ...]]] = [
    (I, NODE, EDGED, NONE, (Step.REFUSE,)),
    (U, LEASE, EDGED, NONE, (Step.REFUSE,)),
    (U, "podstatus", EDGED, PUT, (Step.REPORT_TO_CLOUD, Step.OK_TO_SENDER)),
    (P, "podpatch", EDGED, PUT, (Step.REFUSE_PATCH,)),
    (D, POD, EDGED, NONE, (Step.REFUSE,)),
    (Q, POD, EDGED, NONE, (Step.ANSWER_OR_REFUSE,)),
    (Q, "store", EDGED, NONE, (Step.ANSWER,)),
    (Q, "configmap", EDGED, NONE, (Step.ANSWER_OR_REFUSE,)),
    (Q, NODE, EDGED, NONE, (Step.ANSWER_OR_REFUSE,)),
    (Q, LEASE, EDGED, NONE, (Step.REFUSE,)),
]


@pytest.mark.parametrize(("operation", "kind", "source", "change", "steps"), ROWS)
def test_each_operation_has_its_row(
    operation: str, kind: str, source: str, change: Change, steps: tuple[Step, ...]
) -> None:
    """With a connection, the plan is the table's row."""
    result = plan(operation, kind, source, named=True, connected=True)
    assert (result.change, result.steps) == (change, steps)


@pytest.mark.parametrize(("operation", "kind", "source", "change", "steps"), WITHOUT_CLOUD)
def test_without_a_connection_nothing_waits_for_the_cloud(
    operation: str, kind: str, source: str, change: Change, steps: tuple[Step, ...]
) -> None:
    """Requests that only the cloud could answer are refused immediately, everything else is as ever."""
    result = plan(operation, kind, source, named=True, connected=False)
    assert (result.change, result.steps) == (change, steps)


@pytest.mark.parametrize("kind", ["pod", "configmap", "node", "lease"])
def test_a_collection_is_listed_from_the_store(kind: str) -> None:
    """A query without a name never goes to the cloud."""
    assert plan(Q, kind, EDGED, named=False, connected=True) == Plan(NONE, (Step.ANSWER,))


def test_the_ca_certificate_is_asked_for_though_it_has_no_name() -> None:
    """`k8s/ca.crt` looks like a collection and is one object."""
    assert origin_of(ResourceType.CA_CERTIFICATE, named=False) is Origin.CLOUD_FIRST


def test_a_delete_reaches_edged_even_when_there_was_no_row() -> None:
    """edged may run what the store has forgotten."""
    assert plan(D, POD, EC, named=True, connected=True).even_if_old


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        (LEASE, False),
        ("podpatch", False),
        ("nodepatch", False),
        ("serviceaccounttoken", False),
        ("configmap", True),
    ],
)
def test_leases_patches_and_tokens_are_not_kept_under_their_names(kind: str, kept: bool) -> None:
    """Leases every ten seconds; answers to patches would replace the patches; tokens would replace others."""
    assert is_kept(kind) is kept
