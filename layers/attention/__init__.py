"""Attention of a text to itself and to another one."""
