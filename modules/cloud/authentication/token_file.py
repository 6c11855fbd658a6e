"""The file of static tokens, in kube-apiserver's form: lines of `token,user,uid,"group1,group2"`."""

import csv
import hmac
import logging
from pathlib import Path
from typing import Final

from beehive.errors import BeehiveError
from modules.cloud.authentication.users import User

_log = logging.getLogger(__name__)
_LARGEST: Final = 256 * 1024
_READ_BY_OTHERS: Final = 0o004


class TokenFileError(BeehiveError):
    """The file of tokens cannot be used."""


class StaticTokens:
    """The tokens of a file and their users; all tokens are compared, each in constant time.

    Args:
        users: the users by their tokens.
    """

    def __init__(self, users: dict[bytes, User]) -> None:
        self._users = users

    def user(self, token: str) -> User | None:
        """Return the token's user, None for an unknown token."""
        given = token.encode()
        found = None
        for known, user in self._users.items():
            if hmac.compare_digest(known, given):
                found = user
        return found


def read_tokens(path: Path) -> StaticTokens:
    """Return the tokens of a file; a file that everybody may read is warned about.

    Raises:
        TokenFileError: it cannot be read, is longer than 256 KiB, or a line is wrong. No message has a token.
    """
    attempt = "cannot use the token file"
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
        if path.stat().st_mode & _READ_BY_OTHERS:
            _log.warning("everybody on this machine can read the tokens in %s: chmod 600 it", path)
        if len(content) > _LARGEST:
            raise TokenFileError(attempt, str(path), f"at most {_LARGEST} bytes are read")
        return StaticTokens(_users(content.decode(), path))
    except OSError as error:
        raise TokenFileError(attempt, str(path), str(error.strerror)) from error
    except (UnicodeDecodeError, csv.Error):
        raise TokenFileError(attempt, str(path), "it is not CSV in UTF-8") from None


def _users(text: str, path: Path) -> dict[bytes, User]:
    users: dict[bytes, User] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if not row or row[0].startswith("#"):
            continue
        columns = [column.strip() for column in row]
        if len(columns) not in (3, 4) or not columns[0] or not columns[1] or columns[0].encode() in users:
            hint = 'a line is token,user,uid or token,user,uid,"group1,group2", and each token is there once'
            raise TokenFileError("cannot use the token file", f"{path}, row {number}", hint)
        groups = columns[3].split(",") if len(columns) == 4 else []
        named = tuple(group.strip() for group in groups if group.strip())
        users[columns[0].encode()] = User(columns[1], columns[2], named)
    return users
