"""Other people's servers: what is asked of them, what is taken from them, and what was paid."""
