"""Much work over a long time: a trace or a synthetic week through the cores, and a report of what became of it."""
