"""From messages and API calls of nodes to requests of the API server (docs/protocol.md, "Upstream")."""
