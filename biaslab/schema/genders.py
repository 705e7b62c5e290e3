"""The two categories of perceived gender that the papers study."""

GENDERS = ("female", "male")
"""In the order in which tables list them. What draws in another order says so."""
