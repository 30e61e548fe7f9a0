"""What is kept in advance: for jobs that starve, and for people who ask for it."""
