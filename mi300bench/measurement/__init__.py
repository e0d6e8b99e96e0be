"""A question into points, points into the store: plans, sweeps, settings, sessions."""
