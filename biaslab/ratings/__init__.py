"""Human annotations of images: readers of files, votes, and shares of images perceived as female."""
