"""What the scheduler knows, by subject: each store owns its data and keeps it consistent. Stores know no policy."""
