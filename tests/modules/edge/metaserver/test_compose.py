"""One object out of the store's and edged's."""

import json

import pytest

from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.edge.metaserver.compose import LiveStatus, compose, normalize
from tests.modules.edge.metaserver.objects import obj, resource, text

ROW = text(obj("a", uid="1", status={"phase": "Pending"}))
MIRRORED = text(obj("a", uid="9", annotations={CONFIG_MIRROR: "x"}, status={}))


def live(uid: str, phase: str, whole: bytes = b"") -> LiveStatus:
    return LiveStatus(uid, text({"phase": phase}), whole)


@pytest.mark.parametrize(
    ("row", "lives", "phase"),
    [
        (ROW, (), "Pending"),
        (ROW, (live("1", "Running"),), "Running"),
        (ROW, (live("other", "Running"),), "Pending"),
        (ROW, (live("1", "Running"), live("other", "Failed")), "Running"),
        (ROW, (live("", "Running"),), "Running"),
        (ROW, (live("1", "Running"), live("1", "Failed")), "Failed"),
        (MIRRORED, (live("1", "Running"),), "Running"),
    ],
)
def test_the_status_belongs_to_the_same_pod(row: bytes, lives: tuple[LiveStatus, ...], phase: str) -> None:
    """By uid: a namesake that still goes is another pod. A mirror is its static pod under another uid."""
    composed = compose(row, lives)
    assert composed is not None
    assert json.loads(composed)["status"]["phase"] == phase


def test_without_a_row_there_is_only_what_edged_has_itself() -> None:
    assert compose(None, ()) is None
    assert compose(None, (live("1", "Running"),)) is None
    assert compose(None, (live("1", "Running", b"{whole}"), live("2", "Running"))) == b"{whole}"
    assert compose(None, (live("1", "Running", b"{old}"), live("2", "Running", b"{new}"))) == b"{new}"


@pytest.mark.parametrize(
    "value", ["", "7", "[]", "not json", '"text"', '{"spec":{}}', '{"metadata":7}', '{"metadata":null}', "\ud800"]
)
def test_text_that_is_not_an_object_is_not_served(value: str) -> None:
    assert normalize(resource(), value.encode("utf-8", "surrogatepass")) is None


def test_the_kind_is_added_where_go_has_left_it_out() -> None:
    bare = b'{"metadata":{"name":"n"},"spec":{}}'
    assert normalize(resource("volumeattachments", "storage.k8s.io"), bare) == (
        b'{"kind":"VolumeAttachment","apiVersion":"storage.k8s.io/v1","metadata":{"name":"n"},"spec":{}}'
    )
    assert normalize(resource(), ROW) is not None
    assert normalize(resource(), ROW) == ROW
