"""Starts the short-lived process that fetches a certificate."""

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from beehive.decoding import decode_json
from beehive.on_failure import on_failure
from edgehub.certificates.settings import CertificateSettings, IssueRequest, IssueResult
from edgehub.errors import IssuerError

TIMEOUT: Final = 60.0
"""Seconds for one certificate: two connections with three steps of ten seconds each."""

COMMAND: Final = (sys.executable, "-m", "edgehub.certificates.issue")


class CertificateIssuer(Protocol):
    """An issuer that stores new certificates in their files; `SubprocessIssuer` implements it."""

    def obtain(self, settings: CertificateSettings, *, renew: bool, wanted: Callable[[], bool]) -> None:
        """Obtain a certificate while `wanted` returns True. Blocks; raises CertificateError."""

    def cancel(self) -> None:
        """End the running attempt. Any thread; does not block."""


class SubprocessIssuer:
    """An issuer that runs `edgehub.certificates.issue` and waits for it on the caller's thread.

    The request goes through a pipe, so that the token is in no command line. The process is killed after the timeout,
    and by `cancel`.

    Args:
        timeout: seconds for one certificate.
    """

    def __init__(self, timeout: float = TIMEOUT) -> None:
        self._timeout = timeout
        self._one_at_a_time = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def obtain(self, settings: CertificateSettings, *, renew: bool, wanted: Callable[[], bool]) -> None:
        """Obtain a certificate and store it in its files.

        Args:
            settings: of the certificate.
            renew: authenticate with the present certificate instead of the token.
            wanted: called once the process runs; if it returns False, the process is killed, so that no `cancel` is
                missed.

        Raises:
            CertificateError: there is no new certificate.
        """
        with self._one_at_a_time:
            output = self._run(msgspec.json.encode(IssueRequest(settings, renew)), wanted)
        try:
            failure = decode_json(output, IssueResult).failure
        except msgspec.MsgspecError as error:
            raise IssuerError("the process that fetches certificates gave no answer", hint=str(error)) from error
        if failure is not None:
            raise failure.error()

    def cancel(self) -> None:
        """Kill the running process, if any. Any thread."""
        process = self._process
        if process is not None:
            process.kill()

    def _run(self, request: bytes, wanted: Callable[[], bool]) -> bytes:
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=pipe)
        except OSError as error:
            raise IssuerError("cannot start the process that fetches certificates", COMMAND[0], str(error)) from error
        with process, on_failure(process.kill):
            self._process = process
            try:
                if not wanted():
                    process.kill()
                output, complaint = process.communicate(request, self._timeout)
            except subprocess.TimeoutExpired:
                raise IssuerError(
                    "no certificate in time", f"{self._timeout:g} s", "the cloud's server is slow or silent"
                ) from None
            finally:
                self._process = None
        if process.returncode:
            last = complaint.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
            raise IssuerError(
                "the process that fetches certificates failed", f"status {process.returncode}", last or "it was killed"
            )
        return output
