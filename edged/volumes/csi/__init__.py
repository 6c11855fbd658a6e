"""Volumes of storage drivers (CSI): drivers that registered, their calls, and what is staged and published."""
