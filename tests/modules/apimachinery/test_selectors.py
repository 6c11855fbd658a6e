"""Which objects a selector selects: Kubernetes' rules as tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.selectors import parse_selector
from tests.modules.edge.metaserver.objects import obj, resource

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
    with pytest.raises(ApiStatusError) as caught:
        parse_selector(resource(), labels, fields)
    assert caught.value.code == 400


@pytest.mark.parametrize("text", ["," * 10**6, "a" + ",a" * 10**6, "a in (" + "," * 10**6, "a in (b," * 10**6])
def test_many_commas_are_read_once(text: str) -> None:
    """Looking behind each for a parenthesis took all of the rest each time: 60,000 held the interpreter for 1 s."""
    with pytest.raises(ApiStatusError) as caught:
        parse_selector(resource(), text, "")
    assert caught.value.code == 400


@pytest.mark.parametrize(("labels", "fields"), [("a," * 256 + "a", ""), ("", ",".join(["metadata.name=a"] * 257))])
def test_a_selector_has_so_many_conditions_at_most(labels: str, fields: str) -> None:
    """Each is asked of each object. As many as are allowed are read."""
    with pytest.raises(ApiStatusError, match="at most 256"):
        parse_selector(resource(), labels, fields)
    assert parse_selector(resource(), labels[: -len(",a")], fields[: -len(",metadata.name=a")])


def test_a_number_that_no_label_can_have_is_refused() -> None:
    """Python reads no integer of more than 4,300 digits."""
    with pytest.raises(ApiStatusError):
        parse_selector(resource(), "size>" + "9" * 5000, "")


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_read_or_refused(labels: str, fields: str) -> None:
    try:
        parse_selector(resource(), labels, fields).selects(LABELLED)
    except ApiStatusError as error:
        assert error.code == 400
