"""The default context of a TLS client, the same on each version of Python."""

import ssl


def default_client_context(cafile: str | None = None, cadata: bytes | None = None) -> ssl.SSLContext:
    """Return `ssl.create_default_context` without VERIFY_X509_STRICT, which Python 3.13 added to it.

    With it, a server's certificate needs an Authority Key Identifier (RFC 5280, section 4.2.1.1). KubeEdge's edgecore
    and kubelets verify with Go's crypto/x509, which does without, and there are clouds, brokers and registries whose
    certificates have none: a newer Python would part a node from its cloud.

    Args:
        cafile: file of authorities in PEM; None, without `cadata` too, for the system's trust.
        cadata: authorities in DER.
    """
    context = ssl.create_default_context(cafile=cafile, cadata=cadata)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
