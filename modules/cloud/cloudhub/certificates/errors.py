"""The errors of the cloud's certificates.

BeehiveError
└── CertificateError
    ├── AuthorityError      the authority's files cannot be used
    ├── RequestRefusedError a certificate request is refused
    └── TokenError          a token is invalid
"""

from beehive.errors import BeehiveError


class CertificateError(BeehiveError):
    """Base of the tree."""


class AuthorityError(CertificateError):
    """The authority's files cannot be read or written, or do not belong together."""


class RequestRefusedError(CertificateError):
    """A certificate request is malformed, or for another name or usage than the node's."""


class TokenError(CertificateError):
    """A token is malformed, expired, or of another authority."""
