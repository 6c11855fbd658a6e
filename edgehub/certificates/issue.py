"""`python -m edgehub.certificates.issue`: one certificate, in a process of its own that `issuer` starts.

An `Order` as JSON on standard input, an `Outcome` as JSON on standard output. The key goes from this process into its
file and nowhere else.
"""

import sys

import msgspec

from beehive import RealClock
from edgehub.certificates import obtain
from edgehub.certificates.errors import CertificateError, Failure
from edgehub.certificates.order import Order, Outcome

LONGEST = 1024 * 1024
"""Bytes of an order that are read."""


def main() -> None:
    """Carry out the order on standard input."""
    order = msgspec.json.decode(sys.stdin.buffer.read(LONGEST), type=Order)
    work = obtain.renew if order.renew else obtain.join
    try:
        work(order.settings, RealClock())
        outcome = Outcome()
    except CertificateError as error:
        outcome = Outcome(Failure.of(error))
    sys.stdout.buffer.write(msgspec.json.encode(outcome))


if __name__ == "__main__":
    main()
