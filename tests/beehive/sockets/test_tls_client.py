"""The default context of a TLS client verifies as strictly on each version of Python."""

import ssl

from beehive.sockets.tls import default_client_context


def test_it_verifies_certificate_and_name_but_wants_neither_key_identifier_nor_root() -> None:
    """`tests/edgehub/certificates/test_obtain.py` has the handshakes with certificates without a key identifier, and
    `tests/modules/cloud/client/test_http_tls.py` one with an intermediate authority.
    """
    context = default_client_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
