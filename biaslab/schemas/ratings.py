"""Tables of a user's own ratings of images."""

from biaslab.tables import Schema, interval, key, number, text

_model = key("model", "The text-to-image model; `unnamed` where the file names none.")
_statistic = key(
    "statistic",
    "`krippendorff_alpha`, `fleiss_kappa`, `cohen_kappa` (two raters) or `percent_agreement` (0–100).",
)
_labels = key("labels", "`female/male/unsure`, or `female/male`: unsure ratings set aside.")
_agreement = (
    number(
        "value", "The coefficient: 1 is perfect, 0 is chance. `percent_agreement` is 0–100.", "", -100, 100
    ),
    *interval("the value", of="value"),
    number("n_items", "Images that the value rests on.", "images", 0),
    number("n_raters", "Raters with at least one rating among the labels.", "raters", 0),
)
_reason = text("reason", "Why a value or its limits are missing, where they are.")

SCHEMAS = (
    Schema(
        "ratings_input",
        "What was read, and what was left out",
        "One row per count: rows, raters, images, ratings, and images that do not count, with their reason.",
        (
            key("item", "What is counted."),
            number("n", "How many.", "", 0),
            text("detail", "Which they are, or what it means."),
        ),
    ),
    Schema(
        "ratings_outcomes",
        "Outcomes of the vote for each occupation and source",
        "How many images ended with each outcome, and the share of those decided perceived as female.",
        (
            _model,
            key("occupation", "The occupation that the prompt or caption names."),
            key("source", "`training` or `generated` images."),
            key("prompt", "`ratings`, or the file's own prompt names for shares."),
            number(
                "n_images", "Images; missing where only shares were given, as are the outcomes.", "images", 0
            ),
            number("female", "Images with more ratings female than any other.", "images", 0),
            number("male", "Images with more ratings male than any other.", "images", 0),
            number("tie", "Images with no single most frequent rating.", "images", 0),
            number("unsure", "Images with more ratings unsure than any other.", "images", 0),
            number("unrated", "Images that nobody rated.", "images", 0),
            number("n", "Decided images (female or male): the base of the share.", "images", 0),
            number("percent_female", "Share of decided images perceived as female.", "%", 0, 100),
            *interval("the share (Wilson)", "%", of="percent_female"),
            text("reason", "Why the row cannot count for amplification, where it cannot."),
        ),
    ),
    Schema(
        "ratings_agreement",
        "Agreement of the raters",
        "One row per statistic and set of labels, over all images; intervals by a bootstrap over images.",
        (_statistic, _labels, *_agreement, _reason),
    ),
    Schema(
        "ratings_agreement_detail",
        "Agreement by source and by pair of raters",
        "The statistics for training and generated images apart, and Cohen's kappa of each two raters.",
        (
            _statistic,
            _labels,
            key("subset", "`all`, `training` or `generated` images."),
            key("raters", "`all`, or the two raters compared."),
            *_agreement,
            _reason,
        ),
    ),
    Schema(
        "ratings_sensitivity",
        "Amplification under other ways to resolve ratings",
        "Amplification recomputed with other rules for ties and unsure ratings, with all undecided images "
        "of one gender, and with each rater alone.",
        (
            _model,
            key("rule", "How an image's ratings become its label."),
            key("definition", "`published`, `no_exclusion` or `directional`."),
            text(
                "kind",
                "`rule` (defensible choices), `extreme` (undecided images all of one gender) or `rater`.",
            ),
            number("amplification", "Expected amplification over occupations.", "points"),
            *interval("the amplification", "points", of="amplification"),
            number("n_occupations", "Occupations that count.", "occupations", 0),
            number("n_excluded", "Occupations left out.", "occupations", 0),
            number("n_images", "Images that count; split votes count in part.", "images", 0),
            text("meaning", "The rule in words."),
            _reason,
        ),
    ),
    Schema(
        "ratings_raters",
        "What each rater saw",
        "Each rater's own ratings, by source: how many images, the share female of those rated female or "
        "male, and the share rated unsure.",
        (
            key("rater", "The rater, as the file names it."),
            key("source", "`training` or `generated` images."),
            number("n_rated", "Images rated.", "images", 0),
            number("female", "Rated female.", "images", 0),
            number("male", "Rated male.", "images", 0),
            number("unsure", "Rated unsure.", "images", 0),
            number("percent_female", "Share female of those rated female or male.", "%", 0, 100),
            *interval("the share female (Wilson)", "%", of="percent_female"),
            number("percent_unsure", "Share unsure of all rated.", "%", 0, 100),
            number(
                "unsure_ci_low", "Lower limit of the share unsure (Wilson).", "%", 0, 100, of="percent_unsure"
            ),
            number(
                "unsure_ci_high",
                "Upper limit of the share unsure (Wilson).",
                "%",
                0,
                100,
                of="percent_unsure",
            ),
        ),
    ),
)
