"""Composable fabrics: the words that all parts share, clients of CDI managers, and a simulated manager."""
