"""Trained readers: answers, calibration, evaluation, packing."""
