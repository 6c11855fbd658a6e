"""What can go wrong with certificates on the cloud's side.

BeehiveError
└── CertificateError
    ├── AuthorityError      the authority's files cannot be used
    ├── RequestRefusedError a certificate request that is not signed
    └── TokenError          a token that proves nothing
"""

from beehive.errors import BeehiveError


class CertificateError(BeehiveError):
    """Base of the tree."""


class AuthorityError(CertificateError):
    """The authority's files cannot be read, written, or do not belong together."""


class RequestRefusedError(CertificateError):
    """A certificate request that is malformed or asks for what it must not have."""


class TokenError(CertificateError):
    """A token that does not prove that its bearer may join."""
