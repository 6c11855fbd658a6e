"""Descriptions of objects in the words, fields and layout of kubectl's `describe`, one module for each group of kinds.

All of it is pure: an object and those that belong to it in, text out.
"""
