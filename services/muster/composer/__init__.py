"""The composer: carries out attachments and detachments over composable fabrics."""
