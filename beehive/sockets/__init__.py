"""Sockets: listening, dialling, TLS, unix sockets and their peers, netlink."""
