"""Tables of the bias amplification paradox."""

from biaslab.tables import Column, Schema, interval, key, number, text

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
_corpus = key("corpus", "The captions searched.")

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
            *interval("the share (Wilson)", "%", of="percent_female", optional=True),
        ),
        images=True,
    ),
    Schema(
        "paradox_amplification",
        "Bias amplification by definition",
        "Expected amplification over occupations, for each prompt and averaged over prompts, by the "
        "published definition (with its exclusion rule) and the two alternatives. Its interval, t and p belong to "
        "`amplification`, from which what image noise adds is taken out; `amplification_plain` is the paper's measure "
        "of the shares as they are.",
        (
            _model,
            _approach,
            key(
                "definition",
                "`published` (occupations that lean the same way on both sides), `no_exclusion`, or "
                "`directional` (signed change along the training lean).",
            ),
            key("prompt", "Prompt `1` to `4`, their `mean`, `captions` or `ratings`."),
            number(
                "amplification",
                "Expected amplification over occupations, less what image noise adds; where there is no interval, the "
                "plain measure.",
                "points",
            ),
            *interval("the amplification", "points", of="amplification"),
            number(
                "n_occupations",
                "Occupations that count; for `mean`, for at least one prompt.",
                "occupations",
                0,
            ),
            number("n_excluded", "Occupations left out.", "occupations", 0),
            number("t", "The amplification over its standard error."),
            number(
                "p",
                "Two-sided p-value of `t` against 0; below 0.05 exactly where a 95 % interval excludes 0.",
                low=0,
                high=1,
            ),
            number("amplification_plain", "Expected amplification of the shares as they are.", "points"),
            number("noise", "What image noise adds to the plain measure.", "points"),
            number(
                "t_plain",
                "The paper's one-sample t-test of the plain measure over the occupations that count; it takes no "
                "account of image noise, so with few images it rejects too often.",
            ),
            number("p_plain", "Two-sided p-value of `t_plain`.", low=0, high=1),
            number(
                "n_images",
                "Images that a share rests on: the median occupation's, of training or generated images, whichever "
                "are fewer.",
                "images",
                0,
            ),
            text("reason", "Why a value is missing, where one is."),
        ),
        images=True,
    ),
    Schema(
        "paradox_caption_pairs",
        "Training and generated images of the same captions",
        "Where captions are the prompts: one row per model, approach, occupation and pattern of a caption's images. "
        "It tells which images belong together, which shares do not tell.",
        (
            _model,
            _approach,
            _occupation,
            key(
                "training",
                "How the caption's own image is perceived; `none` where it has no gender.",
                ("female", "male", "none"),
            ),
            key(
                "generated",
                "Of the images generated from the caption, how many are perceived as female, of how many perceived as "
                "either: `1 of 1`.",
            ),
            number("n_female", "The first of these numbers.", "images", 0),
            number("n_judged", "The second.", "images", 0),
            number("n_captions", "Captions of the occupation with this pattern.", "captions", 0),
        ),
        images=True,
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
            number("amplification_plain", "As observed, image noise left in.", "points"),
            number("shuffled", "Mean over shuffles.", "points"),
            number("shuffled_low", "Lower limit of the central part of the shuffles.", "points"),
            number("shuffled_high", "Upper limit of the central part of the shuffles.", "points"),
            number("n_shuffles", "Shuffles.", "shuffles", 0),
        ),
        images=True,
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
            number("amplification_plain", "Computed from the per-occupation shares as they are.", "points"),
            number("printed", "As printed in Table 3.", "points"),
            number("difference", "Computed minus printed.", "points"),
        ),
        images=True,
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
        images=True,
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
            *interval("the signed change (none where captions are the prompts)", "points", of="directional"),
            number(
                "training_low",
                "Lower Wilson limit of the training share.",
                "%",
                0,
                100,
                of="percent_training",
            ),
            number(
                "training_high",
                "Upper Wilson limit of the training share.",
                "%",
                0,
                100,
                of="percent_training",
            ),
            number(
                "generated_low",
                "Lower Wilson limit of the generated share.",
                "%",
                0,
                100,
                of="percent_generated",
            ),
            number(
                "generated_high",
                "Upper Wilson limit of the generated share.",
                "%",
                0,
                100,
                of="percent_generated",
            ),
            number("n_training", "Training images.", "images", 0),
            number("n_generated", "Generated images.", "images", 0),
            text("excluded", "Why the published rule leaves it out; empty where it counts."),
        ),
        images=True,
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
            number("bias_amp", "BiasAmp, times 100, less what image noise adds.", "points", -100, 100),
            *interval("BiasAmp", "points", of="bias_amp"),
            number("n_occupations", "Occupations.", "occupations", 0),
            number("bias_amp_plain", "The same of the shares as they are.", "points", -100, 100),
        ),
        images=True,
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
            text(
                "flip_possible",
                "Whether intervals could lie on both sides with so many images: `yes` or `no`.",
            ),
            number("statistic", "Chi-square statistic of equal shares."),
            number("p", "Its p-value; missing where an expected count is below 5.", low=0, high=1),
            number("p_holm", "Adjusted over the model's occupations (Holm).", low=0, high=1),
            number("n", "Generated images over all prompts.", "images", 0),
            text("reason", "Why the test is missing, where it is."),
        ),
        images=True,
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
            text(
                "scale",
                "Of both values: `corrected` (without image noise) where both have intervals, else `plain`.",
            ),
        ),
        images=True,
    ),
    # -- what the pipeline measures on the way (sources `mini` and `pipeline`)
    Schema(
        "paradox_captions_found",
        "Captions that name each occupation",
        "One row per corpus and occupation: how many captions name it, and how many were taken (section 4).",
        (
            _corpus,
            _occupation,
            number("n_captions", "Captions of the corpus that name the occupation.", "captions", 0),
            number("n_corpus", "Captions searched.", "captions", 0),
            number("n_sampled", "Captions in the random sample of the naive approach.", "captions", 0),
            number("n_candidates", "Captions among which the nearest are looked for.", "captions", 0),
        ),
    ),
    Schema(
        "paradox_prompts",
        "Prompts",
        "Every text that images were generated from: the four templates filled with each occupation (Table 1), "
        "captions, and paraphrased captions.",
        (
            key(
                "prompt_id", "Names the prompt; with the run's seed and an index it decides an image's noise."
            ),
            text("approach", "`naive` for the templates, `caption_prompts` or `paraphrased`."),
            _occupation,
            text("prompt", "Template `1` to `4`, or `captions`."),
            text("text", "What the model is given."),
            number("n_images", "Images generated from it.", "images", 0),
        ),
    ),
    Schema(
        "paradox_indicators",
        "Gender indicators in captions",
        "One row per corpus and occupation, over the random sample of captions: how many name a gender by words, "
        "pronouns or names (section 5.1, A.5), beside the share of their images perceived as female.",
        (
            _corpus,
            _occupation,
            number("n", "Captions in the sample.", "captions", 0),
            number("percent_any", "Captions with an indicator.", "%", 0, 100),
            number("percent_none", "Captions without any.", "%", 0, 100),
            number("percent_female_indicator", "Captions with female indicators only.", "%", 0, 100),
            number("percent_male_indicator", "Captions with male indicators only.", "%", 0, 100),
            number("percent_both", "Captions with indicators of both.", "%", 0, 100),
            number("percent_female", "Share of their images perceived as female.", "%", 0, 100),
            number("n_judged", "Images perceived as female or male.", "images", 0),
            number(
                "percent_any_of_female",
                "Indicator in the caption, of images perceived as female.",
                "%",
                0,
                100,
            ),
            number("n_female", "Images perceived as female.", "images", 0),
            number(
                "percent_any_of_male", "Indicator in the caption, of images perceived as male.", "%", 0, 100
            ),
            number("n_male", "Images perceived as male.", "images", 0),
        ),
    ),
    Schema(
        "paradox_examples",
        "Captions with gender indicators",
        "Examples for each occupation and kind of indicator (layout of Table 5).",
        (
            _corpus,
            _occupation,
            key("caption_id", "The caption's id in the corpus."),
            text("indicator", "`female`, `male`, `both` or `none`."),
            text("caption", "The caption."),
            text("spans", "Where the indicators stand: `start:end:label` in characters, joined by `;`."),
            text("words", "The words that indicate a gender, joined by `, `."),
            text(
                "gender",
                "How its image is perceived: `female`, `male`, `unsure`; empty where it is not judged.",
            ),
        ),
    ),
    Schema(
        "paradox_selection_examples",
        "Captions that each approach selects",
        "The first captions of the random sample and those nearest to each prompt (Figures 2 and 4).",
        (
            _corpus,
            _approach,
            key("prompt", "Prompt `1` to `4` that they are nearest to; `captions` for the random sample."),
            _occupation,
            number("rank", "1 is the first.", "", 1),
            key("caption_id", "The caption's id in the corpus."),
            text("caption", "The caption."),
            number("cosine", "Cosine of its text embedding with the prompt's.", "", -1, 1),
        ),
    ),
    Schema(
        "paradox_similarity",
        "Similarity of captions to prompts, and of their images to generated images",
        "One row per model, approach, prompt and occupation: mean pairwise cosines of sentence embeddings and of "
        "CLIP's image embeddings (section 5.2).",
        (
            _model,
            _approach,
            key("prompt", "Prompt `1` to `4`."),
            _occupation,
            number("text_similarity", "Mean cosine of the captions with the prompt.", "", -1, 1),
            number("n_captions", "Captions that it is taken over.", "captions", 0),
            number("image_similarity", "Mean cosine of training with generated images.", "", -1, 1),
            number("n_training", "Training images that it is taken over.", "images", 0),
            number("n_generated", "Generated images that it is taken over.", "images", 0),
        ),
    ),
    Schema(
        "paradox_judgement_outcomes",
        "What gate and judge made of the images",
        "One row per model, source, approach, occupation, prompt and outcome; outcomes that did not occur have "
        "a row with 0. Images of the four prompts stand once, under `naive`.",
        (
            _model,
            key("source", "`training` (behind captions) or `generated` images.", SOURCES),
            _approach,
            _occupation,
            key("prompt", "Prompt `1` to `4`; `captions` where captions select or prompt."),
            key("outcome", "`judged`, or why an image has no gender: `no_face`, `uncertain`, ..."),
            number("n", "Images with this outcome.", "images", 0),
            number(
                "percent", "Of all images of the row's source, approach, occupation and prompt.", "%", 0, 100
            ),
            number("n_images", "Those images.", "images", 0),
        ),
        images=True,
    ),
    Schema(
        "paradox_gender_words",
        "Whether generated images follow gender indicators in captions used as prompts",
        "One row per model, approach, occupation and gender that the caption indicates (section 6 states 98.41 % "
        "for SD 1.4, against the gender of the training image).",
        (
            _model,
            _approach,
            _occupation,
            key("indicator", "`female` or `male`: what the caption indicates.", ("female", "male")),
            number("n_same", "Generated images of the gender of the caption's own image.", "images", 0),
            number("n_pairs", "Generated images where both were judged.", "images", 0),
            number("n_followed", "Generated images of the gender that the caption indicates.", "images", 0),
            number("n_judged", "Generated images perceived as female or male.", "images", 0),
            number("n_images", "Images generated from such captions.", "images", 0),
        ),
        images=True,
    ),
    Schema(
        "paradox_paraphrases",
        "Captions and their paraphrases",
        "One row per caption that was used as a prompt (A.6).",
        (
            _corpus,
            _occupation,
            key("caption_id", "The caption's id in the corpus."),
            text("indicator", "`female`, `male`, `both` or `none`."),
            text("caption", "The caption."),
            text("paraphrase", "What the model was given instead."),
            Column(
                "outcome",
                "`by_rule`, `paraphrased` by a language model, or why that could not be used and a rule stands in.",
                text=True,
                optional=True,
            ),
        ),
    ),
)
