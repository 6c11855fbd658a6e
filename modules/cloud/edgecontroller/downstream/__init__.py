"""From changes of objects to messages to nodes (docs/protocol.md, "Downstream")."""
