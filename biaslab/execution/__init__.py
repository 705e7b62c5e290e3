"""Execution of work: workers, notebook kernels, devices, checks of network outputs, and progress."""
