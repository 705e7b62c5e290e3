"""What each paper's notebooks compute, one module a paper."""
