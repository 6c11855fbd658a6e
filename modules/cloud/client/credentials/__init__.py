"""What a request to an API server needs to be accepted: tokens, passwords, client certificates, plug-ins."""
