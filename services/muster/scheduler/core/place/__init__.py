"""Where admitted jobs are placed, and how elastic jobs grow."""
