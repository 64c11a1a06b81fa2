"""Plans that fit nothing: evaluation on held-out rows, curvature, private selection."""

ATTACKED = {"Curvature": "dpconvex.queries.curvature", "HeldOut": "dpconvex.queries.evaluation"}
