"""The TLS contexts of the servers (docs/protocol.md, "TLS"): 1.2 or later, with KubeEdge's ECDHE-ECDSA suites for
1.2.

The websocket server requires client certificates, for the HTTPS server they are optional; both verify in the handshake.
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


def page_context(files: AuthorityFiles) -> ssl.SSLContext:
    """Return the context of a server for browsers, which are not asked for a certificate.

    Raises:
        OSError: a file cannot be read.
    """
    return _context(files, ssl.CERT_NONE)


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
