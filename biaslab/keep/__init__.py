"""What is computed once and found again: store, digests of code, and where work runs."""
