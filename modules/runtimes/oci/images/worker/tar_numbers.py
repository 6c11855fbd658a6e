"""Numbers of a tar header: octal text, or GNU's base 256."""

from modules.runtimes.oci.images.worker.errors import invalid

NANOSECONDS = 1_000_000_000
_LONGEST_DECIMAL = 32


def number(field: bytes) -> int:
    """Return the value of a numeric field. Raises ImageWorkError."""
    if field[0] & 0x80:
        value = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
        return value - (1 << (8 * len(field) - 1)) if field[0] & 0x40 else value
    text = field.partition(b"\0")[0].strip()
    if not text:
        return 0
    try:
        return int(text, 8)
    except ValueError:
        raise invalid("a header of the tar has a wrong number") from None


def decimal(text: bytes) -> int:
    """Return a decimal number that is not negative. Raises ImageWorkError."""
    if not text.isdigit() or len(text) > _LONGEST_DECIMAL:
        raise invalid("an extended header of the tar has a wrong number")
    return int(text)


def seconds(text: bytes) -> int:
    """Return nanoseconds of a PAX time: seconds with a fraction, negative before 1970. Raises ImageWorkError."""
    sign = -1 if text.startswith(b"-") else 1
    whole, _, fraction = text.removeprefix(b"-").partition(b".")
    return sign * (decimal(whole) * NANOSECONDS + decimal((fraction + b"0" * 9)[:9]))
