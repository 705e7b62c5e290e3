"""Results that are computed once and found again: the cache, digests of code, and deletion of unused results."""
