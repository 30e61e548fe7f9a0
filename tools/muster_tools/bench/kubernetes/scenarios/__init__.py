"""The contenders, one module each."""
