"""Which objects a selector selects: Kubernetes' rules as tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.metaserver.errors import ApiError
from modules.metaserver.selectors import parse_selector
from tests.modules.metaserver.objects import obj, resource

LABELLED = obj("web", labels={"app": "web", "tier": "front", "size": "7", "example.com/x": ""})


@pytest.mark.parametrize(
    ("labels", "selected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier=front", True),
        ("app=web,tier=back", False),
        ("app!=api", True),
        ("missing!=api", True),
        ("app in (api, web)", True),
        ("app notin (api,web)", False),
        ("missing notin (a)", True),
        ("missing in (a)", False),
        ("app", True),
        ("!app", False),
        ("!missing", True),
        ("example.com/x", True),
        ("example.com/x=", True),
        ("size>6,size<8", True),
        ("size>7", False),
        ("app>1", False),
        ("app in (api,web),!missing", True),
    ],
)
def test_labels(labels: str, selected: bool) -> None:
    assert parse_selector(resource(), labels, "").selects(LABELLED) is selected


@pytest.mark.parametrize(
    ("plural", "fields", "selected"),
    [
        ("pods", "metadata.name=web", True),
        ("pods", "metadata.name=web,metadata.namespace=other", False),
        ("pods", "spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed", True),
        ("pods", "status.phase==Running", True),
        ("pods", "status.podIP=", True),
        ("pods", "spec.hostNetwork=false", True),
        ("nodes", "spec.unschedulable=true", False),
        ("events", "involvedObject.name=web,involvedObject.kind=Pod", True),
        ("events", "involvedObject.fieldPath=spec.containers{app}", True),
        ("events", "reason=Odd\\,reason", False),
        ("events", "source=kubelet,type=Normal", True),
        ("secrets", "type=Opaque", False),
    ],
)
def test_fields(plural: str, fields: str, selected: bool) -> None:
    shown = obj(
        "web",
        spec={"nodeName": "n1"},
        status={"phase": "Running"},
        involvedObject={"kind": "Pod", "name": "web", "fieldPath": "spec.containers{app}"},
        reason="Started",
        source={"component": "kubelet"},
        type="Normal",
    )
    assert parse_selector(resource(plural), "", fields).selects(shown) is selected


@pytest.mark.parametrize(
    ("labels", "fields"),
    [("a b", ""), ("in (a)", ""), ("a=b=c", ""), ("a in a", ""), ("a>x", ""), (",", ""), ("", "metadata.uid=1"),
     ("", "spec.unschedulable=true"), ("", "metadata.name"), ("", "=web"), ("", "metadata.name>a")],
)  # fmt: skip
def test_what_is_not_understood_is_refused(labels: str, fields: str) -> None:
    """It must not come to mean everything."""
    with pytest.raises(ApiError) as caught:
        parse_selector(resource(), labels, fields)
    assert caught.value.code == 400


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_read_or_refused(labels: str, fields: str) -> None:
    try:
        parse_selector(resource(), labels, fields).selects(LABELLED)
    except ApiError as error:
        assert error.code == 400
