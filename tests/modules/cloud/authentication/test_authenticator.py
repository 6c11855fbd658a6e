"""The user of a request, without any socket."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from beehive.http.request import Request
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.authentication.authenticator import Authenticator
from modules.cloud.authentication.settings import ServiceAccountSettings
from modules.cloud.authentication.token_file import TokenFileError, read_tokens
from modules.cloud.authentication.users import User, user_of_certificate


def _certificate(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"subject": tuple((pair,) for pair in pairs)}


def _file(directory: Path, text: str, mode: int = 0o600) -> Path:
    path = directory / "tokens.csv"
    path.write_bytes(text.encode(errors="surrogateescape"))
    path.chmod(mode)
    return path


def test_a_certificate_names_user_and_groups() -> None:
    """CN is the user and each O a group; a subject with two common names or none is nobody."""
    subject = (("organizationName", "system:nodes"), ("organizationName", "b"), ("commonName", "system:node:n1"))
    user = user_of_certificate(_certificate(*subject))
    assert user == User("system:node:n1", groups=("system:nodes", "b"))
    assert (user.node, user.is_administrator) == ("n1", False)
    assert user_of_certificate(_certificate(("commonName", "a"), ("commonName", "b"))) is None
    assert user_of_certificate(_certificate(("organizationName", "system:masters"))) is None
    assert user_of_certificate(_certificate(("commonName", ""))) is None


def test_a_name_alone_makes_no_node() -> None:
    """A user outside system:nodes with a node's name is not that node."""
    assert User("system:node:n1").node == ""
    assert User("n1", groups=("system:nodes",)).node == ""


def test_tokens_are_kube_apiservers_lines(tmp_path: Path) -> None:
    """A line has token, user, uid and perhaps groups in quotes; an unknown or empty token has no user."""
    lines = 'secret,alice,7,"system:masters, dev,"\n\n#former,carol,9\nother,bob,8\n'
    tokens = read_tokens(_file(tmp_path, lines))
    assert tokens.user("secret") == User("alice", "7", ("system:masters", "dev"))
    assert tokens.user("other") == User("bob", "8")
    assert tokens.user("") is None
    assert tokens.user("#former") is None
    assert tokens.user("Secret") is None


@pytest.mark.parametrize(
    "text",
    [
        "secret\n", ",alice,1\n", "secret,,1\n", "secret,a,1\nsecret,b,2\n", "x" * 300_000, "#\n" * 150_000,
        f"{'secret' * 30_000},a,1\n", "secret,\udcff,1\n",
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_without_its_tokens(tmp_path: Path, text: str) -> None:
    """The error says which row is wrong and shows no token."""
    with pytest.raises(TokenFileError) as refused:
        read_tokens(_file(tmp_path, text))
    assert "secret" not in str(refused.value)


def test_a_file_that_everybody_reads_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The warning says which mode to set; a group may read it."""
    read_tokens(_file(tmp_path, "secret,alice,1\n", 0o640))
    assert not caplog.text
    read_tokens(_file(tmp_path, "secret,alice,1\n", 0o644))
    assert "chmod 600" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("header", ["Bearer wrong", "Basic c2VjcmV0", "Basic secret", "secret"])
def test_wrong_credentials_are_401(tmp_path: Path, header: str) -> None:
    """A request without credentials is anonymous; one with wrong ones is refused."""
    authenticator = Authenticator(read_tokens(_file(tmp_path, "secret,alice,1\n")))
    assert authenticator.user(Request(method="GET", target="/", parts=())) is None
    with pytest.raises(ApiStatusError) as refused:
        authenticator.user(Request(method="GET", target="/", parts=(), headers=(("authorization", header),)))
    assert refused.value.code == 401


_NODE = _certificate(("organizationName", "system:nodes"), ("commonName", "system:node:n1"))


@pytest.mark.parametrize(
    ("certificate", "header", "wanted"),
    [
        (_NODE, "Bearer secret", "system:node:n1"),
        (_certificate(("organizationName", "o")), "Bearer secret", "alice"),
        (_certificate(("organizationName", "o")), "", "401"),
        ({**_NODE, "serialNumber": "1F"}, "", "403"),
        ({**_NODE, "serialNumber": "1F"}, "Bearer secret", "403"),
        (None, "bearer  secret ", "alice"),
        (None, "", "None"),
    ],
)
def test_a_certificate_counts_before_a_token_and_a_revoked_one_for_nothing(
    tmp_path: Path, certificate: dict[str, Any] | None, header: str, wanted: str
) -> None:
    def check(shown: Mapping[str, Any] | None) -> None:
        if (shown or {}).get("serialNumber") == "1F":
            raise ApiStatusError(403, "revoked")

    authenticator = Authenticator(read_tokens(_file(tmp_path, "secret,alice,1\n")), check)
    headers = (("authorization", header),) if header else ()
    request = Request(method="GET", target="/", parts=(), headers=headers, certificate=certificate)
    try:
        user = authenticator.user(request)
        found = str(user and user.name)
    except ApiStatusError as error:
        found = str(error.code)
    assert found == wanted


def test_a_static_token_is_for_the_api_server(tmp_path: Path) -> None:
    """The answer names the audiences that were wanted and that it has; without one of them it is not valid."""
    settings = ServiceAccountSettings(audiences=("one", "two"))
    authenticator = Authenticator(read_tokens(_file(tmp_path, "secret,alice,1\n")), settings=settings)
    found = [authenticator.authenticate("secret", each) for each in ((), ("two", "x"), ("x",))]
    assert [each and each.audiences for each in found] == [("one", "two"), ("two",), None]
