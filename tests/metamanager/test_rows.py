"""What the store keeps of an object."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metamanager.rows import SENT_IN_PART, Row, is_being_deleted, is_pod_to_run, row_of, version_number


@pytest.mark.parametrize(
    ("resource", "kind", "namespace", "name"),
    [
        ("default/pod/nginx", "pod", "default", "nginx"),
        ("default/pod", "pod", "default", ""),
        ("null/node/edge", "node", "null", "edge"),
        ("a/b/c/d", "", "", ""),
        ("", "", "", ""),
        ("x//y", "", "", ""),
    ],
)
def test_the_key_is_the_resource_and_the_type_its_token(resource: str, kind: str, namespace: str, name: str) -> None:
    """Two or three tokens have a type, anything else is stored under the whole string (KubeEdge)."""
    row = row_of(resource, b"{}", 7)
    assert (row.key, row.type, row.namespace, row.name, row.updated) == (resource, kind, namespace, name, 7)


def test_metadata_is_copied_and_the_content_stays_as_it_came() -> None:
    """Unknown fields, their order and white space survive."""
    text = '{ "x" : 1.50, "metadata": {"uid": "u", "resourceVersion": "12", "labels": {"a": "b"}} }'
    row = row_of("default/pod/a", text.encode(), 0)
    assert (row.value, row.uid, row.resource_version) == (text, "u", 12)


@pytest.mark.parametrize(
    "content", [b"[]", b'"text"', b"null", b'{"metadata": 3}', b'{"metadata": {"uid": 3}}', b"{}", b"not json"]
)
def test_a_content_without_metadata_is_stored_without(content: bytes) -> None:
    """Whatever came is kept; it has no uid and no version."""
    row = row_of("default/x/a", content, 0)
    assert (row.uid, row.resource_version, row.value) == ("", 0, content.decode())


def test_a_content_that_is_not_text_is_refused() -> None:
    """KubeEdge's tools could not read it."""
    with pytest.raises(UnicodeDecodeError):
        row_of("default/x/a", b"\xff", 0)


@pytest.mark.parametrize(
    ("text", "number"), [("12", 12), ("", 0), (None, 0), ("-1", 0), ("1a", 0), ("٣", 0), ("9" * 18, 10**18 - 1)]
)
def test_a_version_is_a_number_or_nothing(text: str | None, number: int) -> None:
    """What does not look like one of etcd's counts as none."""
    assert version_number(text) == number


@given(st.text())
def test_a_version_always_fits_the_database(text: str) -> None:
    """No text from a peer overflows a 64-bit column."""
    assert 0 <= version_number(text) < 2**63


@given(st.sampled_from(["", "u", "v"]), st.integers(0, 5), st.sampled_from([None, "", "u", "v"]), st.integers(0, 5))
def test_only_an_older_or_the_same_state_of_the_same_object_is_not_taken(
    uid: str, new: int, stored: str | None, old: int
) -> None:
    """Another uid is another object; of one without a uid or a version nobody knows whether it is the same."""
    row = Row("k", "t", "v", uid=uid, resource_version=new)
    equal = bool(uid == stored and uid and new == old and new)
    assert row.equals(stored, old) is equal
    assert row.supersedes(stored, old) is not (equal or (uid == stored and new < old))


@pytest.mark.parametrize("kind", SENT_IN_PART)
@pytest.mark.parametrize(("old", "is_taken"), [(1, True), (2, True), (3, False)])
def test_of_endpoints_the_part_that_came_last_is_taken(kind: str, old: int, *, is_taken: bool) -> None:
    """The cloud sends a node's part again, in the same version, when the node is in another group."""
    row = Row("k", kind, "v", uid="u", resource_version=2)
    assert row.supersedes("u", old) is is_taken
    assert not row.equals("u", old)


@pytest.mark.parametrize(
    ("metadata", "options", "is_to_run"),
    [
        ('"uid": "u"', '{"preconditions": {"uid": "u"}}', True),
        ('"uid": "u", "annotations": {"a": "b"}', '{"preconditions": {"uid": "u"}}', True),
        ('"uid": "u", "deletionTimestamp": null', '{"preconditions": {"uid": "u"}}', True),
        ('"uid": "u", "deletionTimestamp": "2027-01-15T08:00:30Z"', '{"preconditions": {"uid": "u"}}', False),
        ('"uid": "successor"', '{"preconditions": {"uid": "u"}}', False),
        ('"uid": "u", "annotations": {"kubernetes.io/config.mirror": "h"}', '{"preconditions": {"uid": "u"}}', False),
        ('"uid": "u"', "{}", False),
        ('"name": "of a cloud without uids"', '{"preconditions": {}}', False),
        ('"uid": ""', '{"preconditions": {"uid": ""}}', False),
        ('"uid": "u"', "not json", False),
    ],
)
def test_a_stored_pod_that_the_next_start_runs(metadata: str, options: str, *, is_to_run: bool) -> None:
    """It is the one that is to be deleted, nothing marks it as deleted, and it is run at all."""
    assert is_pod_to_run(f'{{"metadata": {{{metadata}}}}}', options.encode()) == is_to_run


@pytest.mark.parametrize(
    ("content", "is_going"),
    [
        (b'{"metadata":{"deletionTimestamp":"2027-01-15T08:00:30Z"}}', True),
        (b'{"metadata":{"deletionTimestamp":null}}', False),
        (b'{"metadata":{"deletionTimestamp":""}}', False),
        (b'{"spec":{"deletionTimestamp":"2027-01-15T08:00:30Z"}}', False),
        (b'{"metadata":null,"deletionTimestamp":"2027-01-15T08:00:30Z"}', False),
        (b'{"metadata":{"annotations":{"a":"\\"deletionTimestamp\\""}}}', False),
        (b'"deletionTimestamp"', False),
        (b'{"metadata":{"deletionTimestamp":', False),
        (b'{"metadata":{"name":"a"}}', False),
    ],
)
def test_an_object_is_being_deleted_once_its_metadata_have_the_time(content: bytes, *, is_going: bool) -> None:
    assert is_being_deleted(content) is is_going
