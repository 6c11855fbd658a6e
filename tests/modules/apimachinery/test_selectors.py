"""Which objects a selector selects: Kubernetes' rules as tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.selectors import parse_selector
from modules.apimachinery.served_resources import RESOURCES
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
        ("app in (api,web),app in (web,db),app!=api,app", True),
        ("app in (api,web),app in (api,db)", False),
        ("app!=api,app!=web", False),
        ("app,!app", False),
        ("!missing,missing!=a", True),
        ("missing!=a,missing", False),
        ("size>5,size>6,size<9,size<8", True),
        ("size>5,size>7", False),
        ("size<9,size<7", False),
        ("size>5,size!=7", False),
        ("example.com/x>0", False),
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
        ("pods", "metadata.name=web,metadata.name=web,metadata.name!=other", True),
        ("pods", "metadata.name=web,metadata.name=other", False),
        ("pods", "metadata.name!=other,metadata.name!=web", False),
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
def test_unknown_syntax_is_refused(labels: str, fields: str) -> None:
    """It must not come to mean everything."""
    with pytest.raises(ApiStatusError) as caught:
        parse_selector(resource(), labels, fields)
    assert caught.value.code == 400


_LABEL_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("labels", "fields", "words"),
    [
        ("a,,=", "", "found ',', expected: identifier after ','"),
        ("a,", "", "found '', expected: identifier after ','"),
        (",", "", "found ',', expected: !, identifier, or 'end of string'"),
        ("a b", "", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("!!!", "", "unable to parse requirement: found '!', expected: identifier"),
        ("a=b=c", "", "found '=', expected: ',' or 'end of string'"),
        ("!a=b", "", "found '=', expected: ',' or 'end of string'"),
        ("a in b", "", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b,=)", "", "unable to parse requirement: found '=', expected: ',', or identifier"),
        ("a=(", "", "unable to parse requirement: found '(', expected: identifier"),
        ("a>x", "", 'unable to parse requirement: values[0]: Invalid value: "x": for \'Gt\', \'Lt\' operators, '
         "the value must be an integer"),
        ("-a", "", f'unable to parse requirement: <nil>: Invalid value: "-a": {_LABEL_NAME}'),
        ("", "metadata.name>a", "invalid selector: 'metadata.name>a'; can't understand 'metadata.name>a'"),
        ("", "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        ("", "metadata.name=a\\b", "invalid field selector: invalid escape sequence: \\b"),
        ("", "spec.foo=1", "field label not supported: spec.foo"),
        ("", "metadata.name =a", "field label not supported: metadata.name "),
        ("", "metadata.name=a, status.phase=Running", "field label not supported:  status.phase"),
    ],
)  # fmt: skip
def test_the_refusal_has_the_words_of_an_api_server(labels: str, fields: str, words: str) -> None:
    """The words of `labels.Parse` and `fields.ParseSelector`; the first were recorded."""
    with pytest.raises(ApiStatusError) as caught:
        parse_selector(resource(), labels, fields)
    assert caught.value.message == words


@pytest.mark.parametrize(
    ("labels", "selected"),
    [("app in (web,,)", True), ("missing in ()", False), ("in", False), ("notin=a", False), ("app in (in,web)", True),
     ("example.com/x in (,)", True), ("app=,tier", False), (" app = web , tier ", True)],
)  # fmt: skip
def test_unusual_selectors_that_api_servers_read(labels: str, selected: bool) -> None:
    """`in` may be a key and a value, and a value may be empty."""
    assert parse_selector(resource(), labels, "").selects(LABELLED) is selected


@pytest.mark.parametrize(
    ("plural", "fields", "selected"),
    [("namespaces", "status.phase=Active", True), ("services", "spec.type=ClusterIP", True),
     ("services", "spec.clusterIP!=None", True), ("certificatesigningrequests", "spec.signerName=a.b/c", True)],
)  # fmt: skip
def test_the_selectable_fields_of_the_embedded_api_server(plural: str, fields: str, selected: bool) -> None:
    """Kinds with fields of their own, as in an API server."""
    spec = {"type": "ClusterIP", "clusterIP": "10.0.0.1", "signerName": "a.b/c"}
    shown = {"metadata": {"name": "x"}, "spec": spec, "status": {"phase": "Active"}}
    kind = next(one for one in RESOURCES if one.plural == plural)
    assert parse_selector(kind, "", fields).selects(shown) is selected
    with pytest.raises(ApiStatusError, match=r"field label not supported: spec\.foo"):
        parse_selector(kind, "", "spec.foo=1")


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
