"""The variables of the environment that name proxies; edgecore hands them to workers without reading them."""

from typing import Final

OF_SCHEME: Final = {"http": ("http_proxy", "HTTP_PROXY"), "https": ("https_proxy", "HTTPS_PROXY")}
"""By the scheme of a URL, the first that is set counts."""
EXCEPTIONS: Final = ("no_proxy", "NO_PROXY")
PROXY_VARIABLES: Final = (*OF_SCHEME["http"], *OF_SCHEME["https"], *EXCEPTIONS)
"""All of them."""
