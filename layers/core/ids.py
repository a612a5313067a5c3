"""Ids of words and characters that mean the same in every vocabulary."""

PADDING = 0
UNKNOWN = 1
