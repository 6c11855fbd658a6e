"""Garbage collection: dead containers and unused images."""
