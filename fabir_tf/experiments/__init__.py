"""Comparisons of configurations, and the papers' tables and figures."""
