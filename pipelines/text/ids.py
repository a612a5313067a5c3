"""The ids that a `Vocabulary` reserves, both for words and for characters."""

PADDING = 0
"""Fills the positions after the end of a text or a word."""

UNKNOWN = 1
"""Stands for every word or character that the vocabulary lacks."""
