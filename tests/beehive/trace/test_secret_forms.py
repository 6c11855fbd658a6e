"""Secrets that are found by their form."""

import pytest

from beehive.trace.redact import Redactor
from beehive.trace.secret_forms import without_secrets

KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----"
_BEGIN = "-----BEGIN PRIVATE KEY-----"
"""Without an end: each of many once looked through the next 20,000 characters."""


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("postgresql+psycopg://u:p@h/d", "postgresql+psycopg://(left out)@h/d"),
        ("https://h/path@2x.png", "https://h/path@2x.png"),
        ("Authorization: Bearer abcdefgh.1", "Authorization: Bearer (left out)"),
        (f"x {KEY} y", "x (left out) y"),
        (f"{_BEGIN * 20_000}{KEY} y", f"{_BEGIN * 20_000}(left out) y"),
        (KEY.removeprefix(_BEGIN) + "\ny", "(left out)\ny"),
        ("x\n" + KEY.partition("-----END")[0], "x\n(left out)"),
        (f"{_BEGIN} is wanted, found: x", f"{_BEGIN} is wanted, found: x"),
        ("token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln end", "token (left out) end"),
        ("DB_PASSWORD=hunter2 failed", "DB_PASSWORD=(left out) failed"),
        ('{"apiKey": "k-1", "user": "u"}', '{"apiKey": "(left out)", "user": "u"}'),
        ("tokenFile: /etc/token, no password", "tokenFile: /etc/token, no password"),
    ],
)
def test_what_is_a_secret_by_its_form(text: str, want: str) -> None:
    assert without_secrets(text, Redactor()) == want
