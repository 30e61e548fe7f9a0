"""Programs for a clone of the repository that are not in the product: see tools/README.md."""
