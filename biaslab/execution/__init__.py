"""Where and how work runs: workers, notebook kernels, the device, checks of what networks return, progress."""
