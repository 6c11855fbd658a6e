"""Descriptions of objects in the words, fields and layout of kubectl's `describe`, one module for each group of kinds.

Pure: the input is an object with its related objects, the output is text.
"""
