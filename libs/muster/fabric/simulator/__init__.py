"""A simulated manager of a composable fabric: a pure model, and an HTTP server that speaks real managers' protocols."""
