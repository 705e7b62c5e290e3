"""Images of triplets for the tests of gender triplets, and a function that selects a row of a table."""

import itertools

import pandas as pd

from biaslab.schema import tables

GENDERS = ("neutral", "feminine", "masculine")
NO_TESTS = tables.make_table([], "triplets_printed_chi_square")


def images_of(n_triplets, seeds, genders=GENDERS):
    """Return images of model M and dataset D, one per triplet, seed and gender."""
    rows = [
        {"model": "M", "dataset": "D", "triplet_id": f"t{t}", "seed": s, "prompt_gender": g}
        | {"image_id": f"D-t{t}-{s}-{g}"}
        for t, s, g in itertools.product(range(n_triplets), range(seeds), genders)
    ]
    return pd.DataFrame(rows)


def cell(table, **names):
    """Return the only row with these values."""
    for column, value in names.items():
        table = table[table[column] == value]
    assert len(table) == 1, (names, len(table))
    return table.iloc[0]
