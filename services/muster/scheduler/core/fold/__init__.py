"""Folds: how each fact changes the stores."""
