"""Garbage collection: dead containers, unused images, and the periodic chores of the node."""
