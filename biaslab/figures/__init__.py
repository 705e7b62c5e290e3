"""Figures of the notebooks: arrays and tables in, matplotlib figures out. One module a paper."""
