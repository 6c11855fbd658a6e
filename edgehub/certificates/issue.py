"""`python -m edgehub.certificates.issue`: obtains one certificate, in a short-lived process that `issuer` starts.

It reads an `IssueRequest` as JSON from standard input and writes an `IssueResult` as JSON to standard output. The
private key never leaves this process, except into its file.
"""

import sys

import msgspec

from beehive import RealClock
from beehive.decoding import decode_json
from edgehub.certificates import obtain
from edgehub.certificates.settings import IssueRequest, IssueResult
from edgehub.errors import CertificateError, Failure

LONGEST = 1024 * 1024
"""Largest request in bytes."""


def main() -> None:
    """Carry out the request on standard input."""
    request = decode_json(sys.stdin.buffer.read(LONGEST), IssueRequest)
    work = obtain.renew if request.renew else obtain.join
    try:
        work(request.settings, RealClock())
        result = IssueResult()
    except CertificateError as error:
        result = IssueResult(Failure.of(error))
    sys.stdout.buffer.write(msgspec.json.encode(result))


if __name__ == "__main__":
    main()
