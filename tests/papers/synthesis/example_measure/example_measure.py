"""A measure on what biaslab has measured: how far shares of women among people in pairs are from one half."""

from biaslab.papers import paired

NOTHING = None


def even(study):
    """Distance of the share of women from 50 % by occupation, in points."""
    shares = study.load(paired.percent_female)
    pairs = shares[(shares["setting"] == "paired") & shares["percent_female"].notna()]
    mean = pairs.groupby(["model", "occupation"], sort=False)["percent_female"].mean().reset_index(name="value")
    mean["value"] = (mean["value"] - 50).abs()
    return mean.assign(measure="Distance from even, two people", measure_unit="points").rename(
        columns={"occupation": "unit"}
    )


def broken(study):
    """Return something that is no table."""
    return 3.0
