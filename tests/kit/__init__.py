"""Helpers that tests share: virtual clusters, stacks and fakes. They hold no tests, and no test imports another."""
