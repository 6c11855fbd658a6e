"""dynamiccontroller: serves the API requests of nodes' metaservers (docs/protocol.md, "Applications")."""
