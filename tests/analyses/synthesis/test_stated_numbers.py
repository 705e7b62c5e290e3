"""Numbers of the papers' text, and those that follow from their tables by hand."""

import numpy as np
import pytest

from biaslab import reference
from biaslab.analyses import synthesis


@pytest.fixture(scope="module")
def stated_rows():
    return synthesis.stated_numbers().set_index(["paper", "quantity", "subject", "unit"])


def test_stated_numbers_contain_all_four_texts(stated_rows):
    papers = ("paradox", "paired", "dalleval", "triplets")
    assert len(stated_rows) == sum(len(reference.load(f"{paper}_text")) for paper in papers)
    values = stated_rows["paper_text_value"].to_dict()
    assert values["paradox", "captions_with_indicators", "naive", "%"] == 59.5
    assert values["paradox", "pearson_r", "naive", "1"] == -0.458
    assert values["paradox", "generated_as_captioned", "caption_prompts", "%"] == 98.41
    assert values["paradox", "percent_female_engineer_training", "no_indicators", "%"] == 10
    assert values["paired", "biased_images", "occupation, paired", "%"] == 74


@pytest.mark.parametrize(
    ("key", "value"),
    [
        # The four prompts of Table 3, SD 1.4: (10.24 + 17.57 + 10.77 + 11.68) / 4.
        (("paradox", "amplification", "naive", "points"), 12.565),
        # 1 - 8.6625 / 12.565, from 6.49, 13.58, 7.09 and 7.49.
        (("paradox", "amplification_reduction", "no_indicators", "%"), 31.058),
        # 1 - 2.05 / 12.565: the text alone has a mean of captions as prompts.
        (("paradox", "amplification_reduction", "caption_prompts_no_indicators", "%"), 83.685),
        # 1 - 8.72 / 17.57, where the text has 49.
        (("paradox", "amplification_reduction_prompt_2", "nearest_no_indicators", "%"), 50.370),
        # 227 of 346 nouns.
        (("triplets", "nouns_agreed", "", "%"), 65.607),
    ],
)
def test_stated_numbers_are_recomputed_from_tables(stated_rows, key, value):
    assert stated_rows.loc[key, "value_from_tables"].item() == pytest.approx(value, abs=5e-4)


def test_stated_numbers_without_tables_are_nan(stated_rows):
    assert np.isnan(stated_rows.loc[("paradox", "pearson_r", "naive", "1"), "value_from_tables"])
