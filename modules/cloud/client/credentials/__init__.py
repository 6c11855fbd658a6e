"""Credentials for requests to an API server: tokens, passwords, client certificates, plug-ins."""
