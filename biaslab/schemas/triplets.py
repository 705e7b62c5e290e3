"""Tables of gender triplets: similarity, objects and dependency groups of neutral, feminine, masculine prompts."""

from biaslab.tables import Schema, interval, key, number, text

PAIRS = ("neutral-feminine", "neutral-masculine")
GENDERS = ("neutral", "feminine", "masculine")
SAMPLES = ("triplets", "seeds")

_model = key("model", "The text-to-image model.")
_dataset = key("dataset", "Where the prompts come from.")
_space = key("space", "Where prompts are compared: `prompt`, `denoising` or `image`.")
_metric = key("metric", "The measure of similarity (paper 4.1).")
_pair = key("pair", "The prompts compared: `neutral-feminine` or `neutral-masculine`.")
_case = key(
    "case",
    "The triplet (mean over its seeds), or the seed where a dataset is one triplet; `mean` where only the mean "
    "over all is known.",
)
_group = key("dependency_group", "The prompt-image dependency group (paper 6.2).")
_gender = key("prompt_gender", "`neutral`, `feminine` or `masculine`.")
_object = key("object", "The object's name.")
_sample = text("sample", "What is sampled: many `triplets`, or the `seeds` of one triplet.")
_unit = text("unit", "Unit of the values: `1` (no dimension) or `%`.")
_nearer = text(
    "nearer",
    "Which gendered prompt neutral is nearer to: `masculine`, `feminine`, or `tie` where the gap is not larger "
    "than the last printed digit; empty where a value is missing.",
)
_reading = text(
    "reading",
    "How a printed value was read: `clear`, `reconstructed` (the text is damaged, other evidence settles it) or "
    "`missing`; empty for measurements.",
)
_evidence = text("evidence", "`computed` from measurements, or `printed` in the paper.")
_reason = text("reason", "Why a value or limit is missing, where one is.")
_comparisons = number(
    "n", "Comparisons that the mean is over: triplets (prompt space) or pairs of images.", "", 0
)
_rounding = number("rounding", "One unit of the last printed digit; 0 for measurements.", low=0)


def _p(name: str, what: str):
    return number(name, what, low=0, high=1)


def _percent(name: str, what: str):
    return number(name, what, "%", 0, 100)


_adjusted = (
    _p("p_holm", "p adjusted for all tests of this table over the same kind of sample (Holm)."),
    _p("p_bh", "p adjusted the same way (Benjamini and Hochberg)."),
)
_gap = (
    number("feminine", "Mean similarity (or difference) of neutral and feminine."),
    number("masculine", "Mean similarity (or difference) of neutral and masculine."),
    number("gap", "How much nearer neutral is to masculine than to feminine; below 0: nearer to feminine."),
    *interval("the gap", of="gap"),
    number("percent_nearer", "The gap relative to the distance of neutral and feminine.", "%"),
    _nearer,
    _rounding,
    _comparisons,
    _unit,
    _sample,
    _reading,
    _reason,
)
_gap_summary = (
    number("gap", "Mean gap over datasets; positive: neutral is nearer to masculine."),
    *interval("the mean gap (Student t over datasets)", of="gap"),
    number("percent_nearer", "Mean over datasets of the gap relative to the feminine distance.", "%"),
    number(
        "percent_ci_low", "Lower limit of its interval (Student t over datasets).", "%", of="percent_nearer"
    ),
    number("percent_ci_high", "Upper limit of its interval.", "%", of="percent_nearer"),
    _p("p_percent", "Two-sided t-test of that mean against 0, over datasets."),
    _p("p_percent_holm", "The same, adjusted over the metrics of a model (Holm)."),
    number("n_datasets", "Datasets: the independent units.", "datasets", 0),
    number("n_cells", "Cells of model and dataset with a gap.", "cells", 0),
    number("n_masculine", "Cells in which neutral is nearer to masculine.", "cells", 0),
    number("n_tie", "Cells in which the gap is not larger than the last printed digit.", "cells", 0),
    number("n_feminine", "Cells in which neutral is nearer to feminine.", "cells", 0),
    number("n_missing", "Cells without a gap.", "cells", 0),
    _p("p_datasets", "Two-sided sign-flip test that flips whole datasets."),
    _p("p_datasets_holm", "The same, adjusted over the metrics of a model (Holm)."),
    _p("smallest_p_datasets", "Smallest p that so many datasets can give."),
    _p(
        "p_cells",
        "Two-sided sign-flip test that takes cells as independent, which models of a dataset are not.",
    ),
    _p("p_cells_holm", "The same, adjusted over the metrics of a model (Holm)."),
    _unit,
    _reason,
)
_summary_about = (
    "Mean over datasets (each the mean of its models) of the gaps, for each model and for all. The few datasets "
    "are the independent units, so the interval is Student's t over them; a percentile bootstrap of five of "
    "them would cover about 85 % instead of 95 %. Cells of one triplet are left out."
)
_tested = (
    text("p_relation", "`=`: p as given; `<`: p is an upper bound, and so are its adjusted values."),
    _p("p", "p-value of the chi-square test, or its upper bound."),
    *_adjusted,
    number("statistic", "Chi-square statistic.", low=0),
    number("dof", "Degrees of freedom.", low=0),
    number(
        "cramers_v", "Cramér's V: how far the distributions differ, without what chance alone adds.", low=0
    ),
    *interval("Cramér's V", of="cramers_v"),
    number("n", "Object occurrences.", "objects", 0),
    number("n_objects", "Different objects.", "objects", 0),
    number(
        "n_pooled", "Objects too rare for the test by themselves (expected below 5), pooled into one.", low=0
    ),
    _sample,
    _evidence,
    _reason,
)
_tested_pair = key("pair", "The sets compared: a pair of genders, or `triplet` (all three).")
_counted = (
    _gender,
    _object,
    number("count", "Occurrences in the images of these prompts (paper, eq. 3).", "objects", 0),
    number("n_images", "Images of these prompts, the same for all objects.", "images", 0),
)
_bias = (
    _object,
    number(
        "bias_score", "1: only with masculine prompts, 0: only with feminine, 0.5: neither (eq. 5).", "", 0, 1
    ),
    *interval("the bias score (Wilson)", of="bias_score"),
    _p("p", "Two-sided binomial test of 0.5 (twice the smaller tail)."),
    _p("p_holm", "p adjusted for the objects that are kept of this model and dataset (Holm)."),
    _p("p_bh", "p adjusted the same way (Benjamini and Hochberg)."),
    number("count_feminine", "Occurrences with feminine prompts.", "objects", 0),
    number("count_masculine", "Occurrences with masculine prompts.", "objects", 0),
    number("n", "Both together.", "objects", 0),
    number("n_feminine", "Images of feminine prompts.", "images", 0),
    number("n_masculine", "Images of masculine prompts.", "images", 0),
    number("minimum_count", "Objects are kept whose larger count reaches this.", "objects", 0),
)
_bias_about = (
    "Objects whose larger count of the two reaches the minimum. Intervals and tests take occurrences as "
    "independent: repeated objects in an image make them too narrow."
)

SCHEMAS = (
    # -- measured
    Schema(
        "triplets_prompt_sets",
        "Prompt sets",
        "Measured input: triplets and seeds of each dataset (table 4).",
        (
            _dataset,
            number("triplets", "Triplets of prompts.", "triplets", 0),
            number("seeds", "Seeds, thus images, per prompt.", "seeds", 0),
        ),
    ),
    Schema(
        "triplets_similarity",
        "Similarity of neutral to gendered prompts and their images",
        "Measured input: one row per model, dataset, space, metric, pair and case. The printed means of tables 5 "
        "and 10 have one case, `mean`, and two more columns: `rounding` and `reading`.",
        (
            _model,
            _dataset,
            _space,
            _metric,
            _pair,
            _case,
            number("value", "Similarity, or difference where lower is closer."),
            _comparisons,
            _unit,
            number("higher_is_closer", "1: a higher value means more alike; 0: a lower one does.", "", 0, 1),
            _sample,
            _reason,
        ),
    ),
    Schema(
        "triplets_object_similarity",
        "Similarity of the objects in images of neutral and gendered prompts",
        "Measured input: co-occurrence similarity (eq. 4), one row per model, dataset, pair and case. The printed "
        "means of table 6 and section 7.1 have one case, `mean`.",
        (
            _model,
            _dataset,
            _pair,
            _case,
            number("value", "Cosine of the object counts.", "", 0, 1),
            number("n", "Pairs of images.", "pairs", 0),
            _sample,
            _reason,
        ),
    ),
    Schema(
        "triplets_object_counts",
        "Objects found in images",
        "Measured input: how often each object is found, by gender of the prompt. The paper prints none.",
        (_model, _dataset, *_counted),
    ),
    Schema(
        "triplets_group_object_counts",
        "Objects and nouns by dependency group",
        "Measured input: the same by dependency group; `hidden` counts nouns that are not found, `nouns` all "
        "nouns of the prompts. The paper prints none.",
        (_model, _dataset, _group, *_counted),
    ),
    Schema(
        "triplets_printed_chi_square",
        "Chi-square tests as printed",
        "p-values of tables 7 to 9, and those that sections 5.3 and 7.1 state (`all` dependency groups together).",
        (
            _model,
            _dataset,
            _group,
            _tested_pair,
            text("p_relation", "`=` or `<` (p is an upper bound); empty where no test was made."),
            _p("p", "p-value or its upper bound."),
            _sample,
            _reason,
        ),
    ),
    Schema(
        "triplets_group_images",
        "Images that hold a dependency group",
        "Measured input (table 11; n from table 4).",
        (
            _model,
            _dataset,
            _group,
            _percent("percent_images", "Images with at least one object (or hidden noun) of the group."),
            number("n", "Images.", "images", 0),
            number("n_triplets", "Triplets that the images come from.", "triplets", 0),
        ),
    ),
    Schema(
        "triplets_printed_group_objects",
        "Different objects of a dependency group as printed",
        "Table 12.",
        (_model, _dataset, _group, number("objects", "Different objects or nouns.", "objects", 0)),
    ),
    Schema(
        "triplets_printed_intersection",
        "Objects shared by dependency groups as printed",
        "Table 13.",
        (
            _model,
            _dataset,
            key("over", "The group whose objects are counted."),
            key("dependency_group", "The group shared with."),
            _percent("percent", "Objects of `over` that are also in `dependency_group`."),
        ),
    ),
    Schema(
        "triplets_detector_counts",
        "Nouns that people and the detector find",
        "Measured input: nouns of prompts, in images that people and the visual grounding model looked at "
        "(section 7.3).",
        (
            _model,
            number("n_images", "Images.", "images", 0),
            number("nouns", "Nouns of their prompts.", "nouns", 0),
            number("both", "Nouns that both find in the image.", "nouns", 0),
            number("model_only", "Nouns that only the detector finds.", "nouns", 0),
            number("people_only", "Nouns that only people find; missing where not printed.", "nouns", 0),
        ),
    ),
    # -- section 4
    Schema(
        "triplets_datasets",
        "Triplets, prompts and images by dataset",
        "Three prompts a triplet, one image per prompt and seed (table 4).",
        (
            _dataset,
            number("triplets", "Triplets of prompts.", "triplets", 0),
            number("prompts", "Prompts.", "prompts", 0),
            number("seeds", "Seeds per prompt.", "seeds", 0),
            number("images", "Images of one model.", "images", 0),
        ),
    ),
    Schema(
        "triplets_disparity",
        "Similarity of neutral to feminine and to masculine",
        "Means by model, dataset, space, metric and pair (tables 5 and 10). Where one triplet was repeated, the "
        "dataset's name says so.",
        (
            _model,
            _dataset,
            _space,
            _metric,
            _pair,
            number("value", "Mean similarity, or difference where lower is closer."),
            *interval("the mean (Student t over cases)", of="value"),
            _comparisons,
            _unit,
            number("higher_is_closer", "1: a higher value means more alike; 0: a lower one does.", "", 0, 1),
            _sample,
            _reading,
            _reason,
        ),
    ),
    Schema(
        "triplets_disparity_gap",
        "How much nearer neutral is to masculine than to feminine",
        "Masculine minus feminine closeness of each cell, turned so that positive means nearer to masculine also "
        "where lower values are closer.",
        (_model, _dataset, _space, _metric, *_gap),
    ),
    Schema(
        "triplets_gap_summary",
        "Gap over datasets by metric",
        _summary_about,
        (
            key("model", "The text-to-image model, or `all models`."),
            _space,
            _metric,
            *_gap_summary,
        ),
    ),
    # -- section 5
    Schema(
        "triplets_co_occurrence",
        "Objects: how much nearer neutral is to masculine than to feminine",
        "Co-occurrence similarity by model and dataset (table 6, section 7.1).",
        (_model, _dataset, *_gap),
    ),
    Schema(
        "triplets_co_occurrence_summary",
        "Co-occurrence gap over datasets",
        _summary_about,
        (key("model", "The text-to-image model, or `all models`."), *_gap_summary),
    ),
    Schema(
        "triplets_chi_square",
        "Chi-square tests of object counts",
        "Whether objects are distributed alike over genders, all dependency groups together (section 5.3).",
        (_model, _dataset, _tested_pair, *_tested),
    ),
    Schema(
        "triplets_bias_score",
        "Bias score of each object",
        _bias_about,
        (_model, _dataset, *_bias),
    ),
    # -- section 6 and 7
    Schema(
        "triplets_group_chi_square",
        "Chi-square tests by dependency group",
        "Whether objects of a dependency group are distributed alike over genders (tables 7 to 9, section 7.1).",
        (_model, _dataset, _group, _tested_pair, *_tested),
    ),
    Schema(
        "triplets_group_bias_score",
        "Bias score of each object by dependency group",
        _bias_about,
        (_model, _dataset, _group, *_bias),
    ),
    Schema(
        "triplets_group_share",
        "Images that hold a dependency group",
        "Share of images (table 11). Images of a triplet share their prompt, so the interval (Wilson) takes "
        "triplets as the sample: as wide as if a triplet's images were all alike.",
        (
            _model,
            _dataset,
            _group,
            _percent("percent_images", "Images with at least one object (or hidden noun) of the group."),
            *interval("the share", "%", of="percent_images"),
            number("n", "Images.", "images", 0),
            number("n_triplets", "Triplets that the images come from.", "triplets", 0),
            _reason,
        ),
    ),
    Schema(
        "triplets_group_objects",
        "Different objects in each dependency group",
        "Counts of different objects or nouns (table 12). A count of all that was found has no sampling "
        "interval, and it grows with the number of images.",
        (
            _model,
            _dataset,
            _group,
            number("objects", "Different objects or nouns.", "objects", 0),
            number("percent_of_nouns", "Relative to the different nouns of the prompts.", "%", 0),
            _evidence,
        ),
    ),
    Schema(
        "triplets_intersection",
        "Objects shared by dependency groups",
        "Share of one group's objects that are also in another (table 13), beside what the mirrored cell and "
        "the group sizes of table 12 imply. No sampling interval: all objects are counted.",
        (
            _model,
            _dataset,
            key("over", "The group whose objects are counted."),
            key("dependency_group", "The group shared with."),
            _percent("percent", "Objects of `over` that are also in `dependency_group`."),
            number("objects", "Different objects of `over`.", "objects", 0),
            number("shared", "Objects in both, as the mirrored cell implies.", "objects", 0),
            number("percent_implied", "Those, of the objects of `over`.", "%", 0),
            text("agrees", "`yes` or `no`: whether the cell is the implied share to its last digit."),
            _evidence,
        ),
    ),
    Schema(
        "triplets_detector",
        "How often people and the detector agree on nouns",
        "From the counts of section 7.3. Nouns of one image are not independent, so intervals (Wilson) are too "
        "narrow.",
        (
            _model,
            key("quantity", "`found_by_both`, `detector_precision` or `detector_recall`."),
            number("percent", "Share of nouns; the lowest possible where `bound` says so.", "%", 0, 100),
            *interval("the share", "%", of="percent"),
            number("n", "Nouns that the share is of.", "nouns", 0),
            text("bound", "`at least` where the printed counts give only a lower bound."),
            _reason,
        ),
    ),
)
