"""TLS of the two servers (spec/03 §1.3): 1.2 or later, and of 1.2 the ECDHE-ECDSA suites that KubeEdge takes.

Both verify a client's certificate in the handshake: the websocket demands one, the HTTPS server takes one if there is
one. KubeEdge's HTTPS server verifies later and answers 401 to a bad one; Python's `ssl` cannot ask for a certificate
without verifying it, so here its bearer gets the alert of TLS that names the cause (certificate expired, unknown CA).
"""

import ssl

from modules.cloudhub.certificates.store import Files

_SUITES = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305"


def websocket_context(files: Files) -> ssl.SSLContext:
    """For the server of links: no client without a certificate of the authority.

    Raises:
        OSError: a file cannot be read.
    """
    return _context(files, ssl.CERT_REQUIRED)


def https_context(files: Files) -> ssl.SSLContext:
    """For the server that hands out certificates: a client may have none yet.

    Raises:
        OSError: a file cannot be read.
    """
    return _context(files, ssl.CERT_OPTIONAL)


def _context(files: Files, clients: ssl.VerifyMode) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_SUITES)
    context.load_cert_chain(files.server, files.server_key)
    context.load_verify_locations(files.authority)
    context.verify_mode = clients
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    return context
