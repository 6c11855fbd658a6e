"""Signed tokens of service accounts."""
