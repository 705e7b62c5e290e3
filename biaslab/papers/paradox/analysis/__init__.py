"""Tables computed from measurements: frames in, a frame out, one function a table."""
