"""The subjects of certificate requests."""

from base64 import b64decode


def subject_of(encoded: object) -> list[tuple[str, str]] | None:
    """Return the attributes of the subject of a request, which is base64 of PEM, by their names of RFC 4514 such as
    `CN` and `O`; None for a request that cannot be read: other readers, such as Go's, perhaps can.
    """
    from cryptography import x509  # noqa: PLC0415 - 17 MB; few clouds have such requests

    try:
        subject = x509.load_pem_x509_csr(b64decode(str(encoded))).subject
        return [(each.rfc4514_attribute_name, str(each.value)) for each in subject]
    except (ValueError, TypeError, x509.InvalidVersion):
        return None
