"""Tables of the specification curve."""

from biaslab.tables import Schema, interval, key, number

SCHEMAS = (
    Schema(
        "synthesis_specification_curve",
        "Amplification under every combination of analysis choices",
        "One row per specification: model, approach, prompt, exclusion rule, measure and correction.",
        (
            key("model", "The text-to-image model."),
            key("approach", "How training captions were selected."),
            key("prompt", "Prompt `1` to `4`, their `mean`, `captions` or `ratings`."),
            key(
                "exclusion",
                "Which occupations count: `same_lean` (the published rule), `certain_lean` (the training share's "
                "interval excludes 50) or `none` (all).",
            ),
            key(
                "measure",
                "`distance` (growth of the distance from 50) or `directional` (signed change along the training lean).",
            ),
            key(
                "correction",
                "`none`, `floor` (distances freed of the push that sampling noise gives them), `judge` (shares "
                "corrected for the judge's error) or `floor_and_judge`.",
            ),
            number("amplification", "Expected amplification over occupations.", "points"),
            *interval("the amplification (occupations resampled)", "points", of="amplification"),
            number(
                "n_occupations",
                "Occupations that count (for `mean`: for at least one prompt).",
                "occupations",
                0,
            ),
        ),
    ),
    Schema(
        "synthesis_choice_effect",
        "How much each analysis choice moves the result",
        "The mean amplification over all specifications that share one option of one choice.",
        (
            key("choice", "The analysis choice."),
            key("option", "One of its options."),
            number("amplification", "Mean over the specifications with this option.", "points"),
            number("lowest", "Smallest of them.", "points"),
            number("highest", "Largest of them.", "points"),
            number("percent_positive", "Specifications whose interval lies above 0.", "%", 0, 100),
            number("percent_negative", "Specifications whose interval lies below 0.", "%", 0, 100),
            number("n_specifications", "Specifications with this option.", "specifications", 0),
            number("range", "Largest minus smallest mean over the options of this choice.", "points", 0),
        ),
    ),
    Schema(
        "synthesis_exclusion_by_measure",
        "What the exclusion rule does under each measure",
        "Mean amplification over models, single prompts and corrections.",
        (
            key("exclusion", "Which occupations count: `same_lean`, `certain_lean` or `none` (all)."),
            key("measure", "`distance` or `directional`; on same-lean occupations they agree."),
            number("amplification", "Mean over the specifications.", "points"),
            number("n_specifications", "Specifications.", "specifications", 0),
        ),
    ),
)
