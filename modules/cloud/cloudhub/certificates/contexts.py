"""The TLS contexts of the two servers (docs/protocol.md, "TLS"): 1.2 or later, with KubeEdge's ECDHE-ECDSA suites for
1.2.

Both verify client certificates in the handshake: the websocket requires one, for the HTTPS server it is optional.
KubeEdge's HTTPS server verifies later and answers 401 to an invalid one; Python's `ssl` cannot request a certificate
without verifying it, so here the client gets a TLS alert with the reason (certificate expired, unknown CA).
"""

import ssl

from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles

_SUITES = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305"


def websocket_context(files: AuthorityFiles) -> ssl.SSLContext:
    """Return the context of the websocket server, which requires client certificates of the authority.

    Raises:
        OSError: a file cannot be read.
    """
    return _context(files, ssl.CERT_REQUIRED)


def https_context(files: AuthorityFiles) -> ssl.SSLContext:
    """Return the context of the HTTPS server, whose clients may have no certificate yet.

    Raises:
        OSError: a file cannot be read.
    """
    return _context(files, ssl.CERT_OPTIONAL)


def _context(files: AuthorityFiles, clients: ssl.VerifyMode) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_SUITES)
    context.load_cert_chain(files.server, files.server_key)
    context.load_verify_locations(files.authority)
    context.verify_mode = clients
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    return context
