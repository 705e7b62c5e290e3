"""Shared fixtures of the tests of critics."""

import pandas as pd
import pytest

from biaslab.papers.paired.faircritic.critique import briefs


@pytest.fixture
def crowd():
    """Return a function that makes people of counts: (identity, stereotype, told, women, men, unsure), …"""

    def make(*rows):
        people = [
            (identity, stereotype, guided_gender, gender)
            for identity, stereotype, guided_gender, *counts in rows
            for gender, count in zip(("female", "male", "unsure"), counts, strict=True)
            for _ in range(count)
        ]
        table = pd.DataFrame(people, columns=["identity", "stereotype", "told", "gender"])
        table["status"] = table["gender"].map({"unsure": "uncertain"}).fillna("judged")
        table["prompt_id"] = [f"paired-{k}" for k in range(len(table))]
        return table.assign(image_id=table["prompt_id"] + "/0", position=1, phrase=table["identity"], role="")

    return make


@pytest.fixture
def texts():
    """Return a function that gives the texts of people's prompts."""

    def make(people):
        prompt_rows = people.drop_duplicates("prompt_id")
        return pd.DataFrame(
            {
                "prompt_id": prompt_rows["prompt_id"],
                "text": [f"Generate a picture of one {p}." for p in prompt_rows["phrase"]],
            }
        )

    return make


@pytest.fixture
def brief_of(texts):
    """Return a function that gives the one brief of the embedded critic."""

    def make(people, round_=1, earlier=()):
        (brief,) = briefs(people, "occupation", round_, texts(people), lambda ids: [], earlier=earlier)
        return brief

    return make
