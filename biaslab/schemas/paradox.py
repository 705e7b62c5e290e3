"""Tables of the bias amplification paradox."""

from biaslab.tables import Schema, interval, key, number, text

APPROACHES = (
    "naive",
    "no_indicators",
    "nearest",
    "nearest_no_indicators",
    "caption_prompts",
    "caption_prompts_no_indicators",
    "paraphrased",
    "paraphrased_no_indicators",
)

SOURCES = ("training", "generated")

_model = key("model", "The text-to-image model.")
_approach = key(
    "approach", "How training captions were selected or prompts made (sections 4 to 6).", APPROACHES
)
_occupation = key("occupation", "The occupation that the prompt or caption names.")

SCHEMAS = (
    Schema(
        "paradox_percent_female",
        "Share of images perceived as female",
        "One row per model, approach, occupation, source and prompt: the measurements that "
        "amplification is computed from.",
        (
            _model,
            _approach,
            _occupation,
            key("source", "`training` images (behind captions) or `generated` images.", SOURCES),
            key("prompt", "Prompt `1` to `4`; `captions` where captions select or prompt; `ratings`."),
            number("percent_female", "Share of images perceived as female.", "%", 0, 100),
            number("n", "Images that the share is taken over.", "images", 0),
            *interval("the share (Wilson)", "%", optional=True),
        ),
    ),
    Schema(
        "paradox_amplification",
        "Bias amplification by definition",
        "Expected amplification over occupations, for each prompt and averaged over prompts, by the "
        "published definition (with its exclusion rule) and the two alternatives.",
        (
            _model,
            _approach,
            key(
                "definition",
                "`published` (occupations that lean the same way on both sides), `no_exclusion`, or "
                "`directional` (signed change along the training lean).",
            ),
            key("prompt", "Prompt `1` to `4`, their `mean`, `captions` or `ratings`."),
            number("amplification", "Expected amplification over occupations.", "points"),
            *interval("the amplification", "points"),
            number(
                "n_occupations",
                "Occupations that count; for `mean`, for at least one prompt.",
                "occupations",
                0,
            ),
            number("n_excluded", "Occupations left out.", "occupations", 0),
            number("t", "Statistic of the one-sample t-test against 0 over occupations."),
            number("p", "Its two-sided p-value.", low=0, high=1),
            text("reason", "Why a value is missing, where one is."),
        ),
    ),
    Schema(
        "paradox_shuffled",
        "Amplification of shuffled shares",
        "What each definition gives when generated shares are shuffled among the occupations: where that is as much "
        "as observed, the definition does not ask whose share is where.",
        (
            _model,
            _approach,
            key("definition", "`published`, `no_exclusion` or `directional`."),
            key("prompt", "Prompt `1` to `4`, their `mean`, `captions` or `ratings`."),
            number("amplification", "As observed.", "points"),
            number("shuffled", "Mean over shuffles.", "points"),
            number("shuffled_low", "Lower limit of the central part of the shuffles.", "points"),
            number("shuffled_high", "Upper limit of the central part of the shuffles.", "points"),
            number("n_shuffles", "Shuffles.", "shuffles", 0),
        ),
    ),
    Schema(
        "paradox_printed_amplification",
        "Amplification as printed",
        "The averages of Table 3, and those that sections 6 and A.6 state for SD 1.4.",
        (
            _model,
            _approach,
            key("prompt", "Prompt `1` to `4`, their `mean`, or `captions`."),
            number("amplification", "Printed expected amplification, published definition.", "points"),
        ),
    ),
    Schema(
        "paradox_printed_comparison",
        "Amplification computed and printed",
        "The published definition computed from the printed shares, beside the average that Table 3 prints.",
        (
            _model,
            _approach,
            key("prompt", "Prompt `1` to `4` or their `mean`."),
            number("amplification", "Computed from the per-occupation shares.", "points"),
            number("printed", "As printed in Table 3.", "points"),
            number("difference", "Computed minus printed.", "points"),
        ),
    ),
    Schema(
        "paradox_exclusions",
        "Occupations that the published rule leaves out",
        "One row per model, approach, prompt and reason.",
        (
            _model,
            _approach,
            key("prompt", "Prompt `1` to `4`, `captions` or `ratings`."),
            key("reason", "Why an occupation does not count."),
            number("n", "Occupations left out for this reason.", "occupations", 0),
            number("n_occupations", "Occupations measured.", "occupations", 0),
            text("occupations", "Which they are."),
        ),
    ),
    Schema(
        "paradox_occupation_amplification",
        "Amplification of each occupation",
        "Both shares, the amplification and the signed change along the training lean, which has an interval.",
        (
            _model,
            _approach,
            _occupation,
            key("prompt", "Prompt `1` to `4`, `captions` or `ratings`."),
            number("percent_training", "Perceived as female in training images.", "%", 0, 100),
            number("percent_generated", "Perceived as female in generated images.", "%", 0, 100),
            number("amplification", "Growth of the distance from 50.", "points", -50, 50),
            number("directional", "Signed change along the training lean.", "points", -100, 50),
            *interval("the signed change", "points"),
            number("training_low", "Lower Wilson limit of the training share.", "%", 0, 100),
            number("training_high", "Upper Wilson limit of the training share.", "%", 0, 100),
            number("generated_low", "Lower Wilson limit of the generated share.", "%", 0, 100),
            number("generated_high", "Upper Wilson limit of the generated share.", "%", 0, 100),
            number("n_training", "Training images.", "images", 0),
            number("n_generated", "Generated images.", "images", 0),
            text("excluded", "Why the published rule leaves it out; empty where it counts."),
        ),
    ),
    Schema(
        "paradox_bias_amp",
        "Directional bias amplification (Wang and Russakovsky 2021)",
        "BiasAmp from counts, in both directions, with intervals.",
        (
            _model,
            _approach,
            key("direction", "`T->A`: perceived gender given the occupation; `A->T`: the reverse."),
            key("prompt", "Prompt `1` to `4`, `captions` or `ratings`."),
            number("bias_amp", "BiasAmp, times 100.", "points", -100, 100),
            *interval("BiasAmp", "points"),
            number("n_occupations", "Occupations.", "occupations", 0),
        ),
    ),
    Schema(
        "paradox_prompt_variation",
        "Variation across prompts",
        "How far an occupation's share moves between prompts, against what sampling noise alone would give.",
        (
            _model,
            _approach,
            _occupation,
            number("sd_prompts", "Population standard deviation over prompts.", "points", 0),
            number("sd_noise", "What binomial noise alone gives (root mean square).", "points", 0),
            number("lowest", "Smallest share over prompts.", "%", 0, 100),
            number("highest", "Largest share over prompts.", "%", 0, 100),
            text(
                "lean_flips",
                "Whether shares lie on both sides of 50: `no`, `yes`, or `beyond intervals` (intervals do, too).",
            ),
            number("statistic", "Chi-square statistic of equal shares."),
            number("p", "Its p-value; missing where an expected count is below 5.", low=0, high=1),
            number("p_holm", "Adjusted over the model's occupations (Holm).", low=0, high=1),
            number("n", "Generated images over all prompts.", "images", 0),
            text("reason", "Why the test is missing, where it is."),
        ),
    ),
    Schema(
        "paradox_reduction",
        "Change of amplification from the naive approach",
        "Published definition, averaged over prompts (or captions as prompts), against the naive approach.",
        (
            _model,
            _approach,
            number("naive", "Expected amplification with the naive approach.", "points"),
            number("amplification", "Expected amplification with this approach.", "points"),
            number("change", "Difference from naive.", "points"),
            number("change_percent", "Difference from naive, relative to it.", "%"),
        ),
    ),
)
