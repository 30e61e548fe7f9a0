"""What the documents tell people to type, and how each of it is tested."""
