"""The projector: folds every log into the read model."""
