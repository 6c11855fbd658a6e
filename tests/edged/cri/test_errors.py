"""gRPC's statuses as errors, without secrets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.cri import errors
from edged.cri.errors import error_of, redact
from edged.errors import EdgedError
from protos.status import StatusCode


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        (StatusCode.UNAVAILABLE, errors.UnavailableError, True),
        (StatusCode.DEADLINE_EXCEEDED, errors.DeadlineExceededError, True),
        (StatusCode.NOT_FOUND, errors.NotFoundError, False),
        (StatusCode.ALREADY_EXISTS, errors.AlreadyExistsError, False),
        (StatusCode.INVALID_ARGUMENT, errors.InvalidRequestError, False),
        (StatusCode.OUT_OF_RANGE, errors.InvalidRequestError, False),
        (StatusCode.PERMISSION_DENIED, errors.RefusedError, False),
        (StatusCode.UNAUTHENTICATED, errors.RefusedError, False),
        (StatusCode.UNIMPLEMENTED, errors.UnimplementedError, False),
        (StatusCode.RESOURCE_EXHAUSTED, errors.ExhaustedError, True),
        (StatusCode.UNKNOWN, errors.CriError, True),
        (StatusCode.INTERNAL, errors.CriError, True),
    ],
)
def test_each_status_becomes_its_class(code: StatusCode, kind: type[errors.CriError], retryable: bool) -> None:
    error = error_of("StartContainer", "abc", code, "why")
    assert type(error) is kind
    assert error.retryable is retryable


def test_containerds_word_for_a_taken_name_is_understood() -> None:
    details = 'failed to reserve sandbox name "p_d_u_0": name "p_d_u_0" is reserved for "e598"'
    error = error_of("RunPodSandbox", "pod d/p", StatusCode.UNKNOWN, details)
    assert type(error) is errors.AlreadyExistsError
    assert (
        type(error_of("RunPodSandbox", "pod d/p", StatusCode.INVALID_ARGUMENT, details)) is errors.InvalidRequestError
    )


@pytest.mark.parametrize("code", list(StatusCode))
def test_every_error_has_the_attempt_its_object_the_reason_and_the_remedy(code: StatusCode) -> None:
    error = error_of("StartContainer", "abc", code, "no such thing")
    assert isinstance(error, EdgedError)
    assert (error.operation, error.on, error.code, error.details) == ("StartContainer", "abc", code, "no such thing")
    assert all(part in str(error) for part in ("StartContainer of abc", "no such thing", code.name, error.hint))


@pytest.mark.parametrize(
    ("code", "details", "hint"),
    [
        (StatusCode.UNAVAILABLE, "registry-1.docker.io cannot be reached: Name or service not known", "reach it"),
        (StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: x", "containerRuntimeEndpoint"),
        (StatusCode.UNAVAILABLE, "Socket closed", "containerRuntimeEndpoint"),
        (StatusCode.NOT_FOUND, "example.org has no image app:1", "does the registry have it"),
        (StatusCode.UNAUTHENTICATED, "example.org wants credentials", "pull secrets of the pod"),
        (StatusCode.UNKNOWN, "failed to pull and unpack image", "runtime's own log"),
    ],
)  # fmt: skip
def test_a_failed_pull_blames_the_registry(code: StatusCode, details: str, hint: str) -> None:
    assert hint in str(error_of("PullImage", "app:1", code, details))
    assert type(error_of("PullImage", "app:1", code, details)) is type(error_of("StartContainer", "x", code, details))


_secrets = st.text("abcdefghij0123456789+/=._-", min_size=6, max_size=40)


@given(st.lists(_secrets, min_size=1, max_size=3), st.text(max_size=30), st.text(max_size=30))
def test_no_given_secret_is_ever_left_in_a_text(secrets: list[str], before: str, after: str) -> None:
    text = redact(f"{before}{' and '.join(secrets)}{after}", secrets)
    assert not any(secret in text.replace("<redacted>", "\0") for secret in secrets)


def test_a_secret_within_another_leaves_nothing_of_it_and_an_empty_one_is_none() -> None:
    assert redact("abcdef, abcdefgh", ["abcdef", "abcdefgh", ""]) == "<redacted>, <redacted>"


def test_the_subject_of_an_error_has_no_secret_either() -> None:
    error = error_of("PullImage", "example.org/abcdefgh", StatusCode.UNKNOWN, "abcdefgh", ["abcdefgh"])
    assert (error.on, error.details) == ("example.org/<redacted>", "<redacted>")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GET https://jane:pw@host/v2/", "GET https://<redacted>@host/v2/"),
        ("GET https://host/v2/?token=abc&x=1", "GET https://host/v2/?token=<redacted>&x=1"),
        ("Authorization: Bearer abcdefgh.ijkl", "Authorization: Bearer <redacted>"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic <redacted>"),
        ("failed to pull docker.io/library/a@sha256:00", "failed to pull docker.io/library/a@sha256:00"),
    ],
)
def test_what_looks_like_credentials_is_removed_and_the_rest_stays(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_an_endless_message_of_a_runtime_is_cut() -> None:
    assert len(redact("x" * 100_000)) < 3000
