"""What a clone has and the product does not need: tools/README.md says what."""
