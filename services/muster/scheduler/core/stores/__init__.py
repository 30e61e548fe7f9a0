"""The scheduler's stores, by subject: each store owns its data and keeps it consistent. Stores have no policy."""
