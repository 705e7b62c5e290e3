"""What is computed once and found again: store, journal, digests of code, and where work runs."""
