"""Plans that fit nothing: evaluation on held-out rows, curvature, private selection."""
