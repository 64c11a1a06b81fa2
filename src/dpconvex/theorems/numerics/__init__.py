"""Profiles that a single theorem concludes, and their numerics."""
