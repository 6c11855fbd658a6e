"""The node's own read-only HTTP server: `/pods`, `/healthz`, `/metrics` on loopback."""
