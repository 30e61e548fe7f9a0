"""The fold of the guard."""
