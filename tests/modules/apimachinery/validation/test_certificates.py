"""The PEM of certificate requests and of their certificates."""

from base64 import b64encode

import pytest

from modules.apimachinery.validation.causes import Causes
from modules.apimachinery.validation.certificates import issued_certificate

_BEGIN, _END = "-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n"


def _faults(text: str) -> str:
    found = Causes()
    issued_certificate(b64encode(text.encode()).decode(), "status.certificate", found)
    return " ".join(map(str, found))


@pytest.mark.parametrize("line", [_BEGIN, _BEGIN.strip(), "-----BEGIN ", _END, "-----   "])
def test_a_request_of_beginnings_is_read_once(line: str) -> None:
    """The end is not searched again from each beginning: 45 kB took a second, and more by the square."""
    assert "at least one CERTIFICATE PEM block" in _faults(line * (2_000_000 // len(line)))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"text before\n{_BEGIN}MIIB\n{_END}text behind\n" * 2, ""),
        (f"{_BEGIN}MIIB\n{_END}".replace("\n", " \t\r\n"), ""),
        (f"{_BEGIN}-----BEGIN X-----\n{_END}", "at least one"),
        (f"{_BEGIN}-----END X-----\n{_END}", "at least one"),
        (f"{_BEGIN}{_BEGIN}{_END}", ""),
        (f"a{_BEGIN}{_END}", "at least one"),
        (f"{_BEGIN}{_END}-----BEGIN X-----\n-----END X-----\n", 'found "X"'),
        ("-----BEGIN -----\n-----END -----", 'found ""'),
    ],
)
def test_blocks_of_a_certificate(text: str, fault: str) -> None:
    found = _faults(text)
    assert fault in found if fault else not found
