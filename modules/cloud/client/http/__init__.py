"""The transport of the Kubernetes client over HTTP/1.1: connections, TLS and proxies on one thread."""
