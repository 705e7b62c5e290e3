"""The two categories of perceived gender that the papers study."""

GENDERS = ("female", "male")
"""In the order of tables; figures with another order state it."""
