"""Reading answers: each form that there is, and what is no form."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive import Message, ModuleName, Operation, Route
from metamanager import answers
from metamanager.errors import (
    AlreadyExistsError,
    CallError,
    ConflictError,
    MalformedAnswerError,
    NoAnswerError,
    NotConnectedError,
    NotFoundError,
    RejectedError,
)
from tests.metamanager.support import NOT_FOUND, thing
from tests.modules.traces import recordings, steps_of


def answer(content: Any, source: str = ModuleName.EDGECONTROLLER, operation: str = Operation.RESPONSE) -> Message:
    return Message(route=Route(source=source, operation=operation, resource="default/x/a"), content=content)


def refusal(reason: str, code: int) -> dict[str, Any]:
    return {"ErrStatus": {"metadata": {}, "status": "Failure", "message": "why", "reason": reason, "code": code}}


@pytest.mark.parametrize(
    "content", [thing(), {"Object": thing(), "Err": None}, {"Object": thing()}, msgspec.json.encode(thing())]
)
def test_an_object_of_the_cloud_comes_bare_or_wrapped(content: Any) -> None:
    """Either way its JSON text is what is read, as it came."""
    if isinstance(content, bytes):
        content = msgspec.Raw(content)
    assert msgspec.json.decode(answers.read_object(answer(content))) == thing()


def test_an_object_of_the_store_comes_as_a_list_of_one_string() -> None:
    """Its text is not touched."""
    assert answers.read_object(answer(['{ "a": 1 }'], ModuleName.METAMANAGER)) == b'{ "a": 1 }'


def test_an_empty_list_is_not_found() -> None:
    """With the status that Kubernetes would have given."""
    with pytest.raises(NotFoundError) as caught:
        answers.read_object(answer([], ModuleName.METAMANAGER))
    assert caught.value.status.code == 404


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (NOT_FOUND, NotFoundError),
        ({"Object": None, "Err": NOT_FOUND}, NotFoundError),
        ({"Object": thing(), "Err": refusal("AlreadyExists", 409)}, AlreadyExistsError),
        (refusal("Conflict", 409), ConflictError),
        (refusal("Forbidden", 403), RejectedError),
        ({"Object": None, "Err": {}}, RejectedError),
        ({}, RejectedError),
        ("an error in words", RejectedError),
        ([1], MalformedAnswerError),
        (3, MalformedAnswerError),
        (None, MalformedAnswerError),
        ({"ErrStatus": 3}, MalformedAnswerError),
        ({"Object": {}, "Err": [1]}, MalformedAnswerError),
        ("OK", MalformedAnswerError),
    ],
)
def test_an_answer_without_an_object_is_an_error_of_its_kind(content: Any, kind: type[CallError]) -> None:
    """Each form of a refusal, and what cannot be an answer to a question for an object."""
    with pytest.raises(CallError) as caught:
        answers.read_object(answer(content))
    assert type(caught.value) is kind


@pytest.mark.parametrize("content", [["{}", "{}"], {"a": 1}, 3, [1]])
def test_an_answer_of_the_store_of_another_form_is_malformed(content: Any) -> None:
    """One string is wanted."""
    with pytest.raises(MalformedAnswerError):
        answers.read_object(answer(content, ModuleName.METAMANAGER))


@pytest.mark.parametrize(
    ("text", "kind", "retryable"),
    [
        (answers.NOT_CONNECTED, NotConnectedError, True),
        (answers.CONNECTION_LOST, NotConnectedError, True),
        (f"{answers.REMOTE_TIMEOUT}: 60 s", NoAnswerError, True),
        ("disk full", RejectedError, False),
        ({"a": 1}, RejectedError, False),
    ],
)
def test_an_error_answer_tells_whether_trying_again_helps(text: Any, kind: type[CallError], retryable: bool) -> None:
    """metamanager's own errors differ from others."""
    message = answer(text, ModuleName.METAMANAGER, Operation.ERROR)
    for read in (answers.read_object, answers.read_objects, answers.read_ok):
        with pytest.raises(CallError) as caught:
            read(message)
        assert (type(caught.value), caught.value.retryable) == (kind, retryable)


@pytest.mark.parametrize(
    ("text", "kind", "retryable"),
    [
        ("null/nodepatch/n: not connected to the cloud (never was)", NotConnectedError, True),
        ("null/nodepatch/n: 2048 messages wait for the cloud already", NoAnswerError, True),
        ("default/podpatch/a: the link ended: silent; whether it arrived is not known", NoAnswerError, True),
        ("null/nodepatch/n: 9 bytes are over the limit of 8", RejectedError, False),
    ],
)
@pytest.mark.parametrize("source", ["websocket", "edgehub"])
def test_an_unsent_message_may_be_tried_again_unless_it_never_fits(
    text: str, kind: type[CallError], retryable: bool, source: str
) -> None:
    """The hub's words; the same words of the cloud are a refusal."""
    error = answers.error_in(answer(text, source, Operation.ERROR))
    assert (type(error), error.retryable) == (kind, retryable)
    assert type(answers.error_in(answer(text, "edgecontroller", Operation.ERROR))) is RejectedError


def test_an_answer_for_which_cloudhub_had_no_room_may_have_been_one_of_success() -> None:
    """The cloud has carried the request out, or not; others do not say so with these words."""
    text = "cloudhub: too many answers wait for the node; ask again later"
    error = answers.error_in(answer(text, ModuleName.CLOUDHUB, Operation.ERROR))
    assert (type(error), error.retryable) == (NoAnswerError, True)
    assert type(answers.error_in(answer(text, ModuleName.EDGECONTROLLER, Operation.ERROR))) is RejectedError


def test_ok_is_enough_where_no_object_is_wanted() -> None:
    """An update or a delete is answered with it."""
    assert answers.read_object_or_ok(answer("OK")) is None
    answers.read_ok(answer("OK"))
    answers.read_ok(answer({"Object": thing(), "Err": None}))


@pytest.mark.parametrize(("namespace", "count"), [("", 3), ("default", 1), ("other", 0)])
def test_objects_are_chosen_by_namespace(namespace: str, count: int) -> None:
    """Empty means all."""
    objects = [msgspec.json.encode(thing()), b'{"metadata":{"namespace":"x"}}', b"[]"]
    assert len(answers.in_namespace(objects, namespace)) == count


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["Object", "Err", "ErrStatus", "metadata", "code", "x"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON, st.sampled_from(["edgecontroller", "metamanager"]), st.sampled_from(["response", "error"]))
def test_any_answer_is_read_or_is_an_error_of_the_tree(content: Any, source: str, operation: str) -> None:
    """Nothing that a peer can send raises anything else."""
    message = answer(msgspec.Raw(msgspec.json.encode(content)), source, operation)
    for read in (answers.read_object, answers.read_objects, answers.read_object_or_ok):
        with suppress(CallError):
            read(message)


@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.stem)
def test_recorded_answers_are_read(path: Any) -> None:
    """Every answer of a real cloudcore is an object, an OK or a refusal with a status."""
    for step in steps_of(path):
        if step.from_edge or step.operation != "response":
            continue
        message = answer(step.content)
        try:
            text = answers.read_object_or_ok(message)
        except RejectedError as error:
            assert error.status.code in (404, 409)
        else:
            assert text is None or b'"metadata"' in text
