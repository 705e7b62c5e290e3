"""Tables computed from measurements, one function per table, from DataFrames to a DataFrame."""
