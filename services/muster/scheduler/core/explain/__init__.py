"""Why a job waits and when it starts, for its facts and for questions."""
