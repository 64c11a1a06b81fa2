"""FAST: compiled passes over rows. One loop body serves every loss, domain and row container."""
