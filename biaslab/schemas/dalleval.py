"""Tables of DALL-Eval: measured inputs first, then what its notebooks compute."""

from dataclasses import replace

from biaslab.tables import Column, Schema, interval, key, number, text

_model = key("model", "The text-to-image model.")
_profession = key("profession", "The profession that the prompt names; `(none)` for the prompt without one.")
_category = key("category", "`gender` or `skin_tone`.")
_attribute = key("attribute", "The attribute that the judge is asked about.")
_skill = key("skill", "`object`, `count`, `spatial`, or `average` of the three.")
_metric = key("metric", "The metric, by its usual name.")
_reason = text("reason", "Why a value or a limit is missing or approximate, where one is.")
_comparison = key(
    "comparison", "The two prompts compared: `woman - man`, `woman - person` or `man - person`."
)
_printed = number("printed", "The paper's own number, where it prints one.")


def _p(what: str, family: str) -> tuple:
    return (
        number("p", f"Two-sided p-value of {what}.", low=0, high=1),
        number("p_holm", f"The same after Holm's adjustment over {family}.", low=0, high=1),
        number("p_bh", f"The same after Benjamini and Hochberg's adjustment over {family}.", low=0, high=1),
    )


def _added(*columns: Column) -> tuple[Column, ...]:
    """Return columns that results add to a measured table, which may come without them."""
    return tuple(replace(column, optional=True) for column in columns)


_MEASURED = (
    Schema(
        "dalleval_average_gender",
        "Average perceived gender by profession",
        "One row per model and profession, from prompts that name no gender; results add the interval "
        "(Wilson) and the exact test against balance.",
        (
            _model,
            _profession,
            number("value", "Average over images, -1 male to +1 female.", low=-1, high=1),
            number("n", "Images perceived as female or male.", "images", 0),
            *_added(
                *interval("the average (Wilson)", of="value"),
                number("n_female", "Images perceived as female.", "images", 0),
                *_p("the exact test against balance", "the model's professions"),
                _reason,
            ),
        ),
    ),
    Schema(
        "dalleval_average_skin_tone",
        "Average skin tone by profession",
        "One row per model and profession, over prompts for a person, a woman and a man.",
        (
            _model,
            _profession,
            number("value", "Average tone on the Monk scale, 1 light to 10 dark.", "tones", 1, 10),
            number("n", "Images with a skin tone.", "images", 0),
            *_added(*interval("the average", of="value"), _reason),
        ),
    ),
    Schema(
        "dalleval_skin_tone_counts",
        "Images by skin tone",
        "One row per model, profession and tone; a source may lack it, the paper does not print it.",
        (
            _model,
            _profession,
            key("tone", "Tone `1` to `10` of the Monk scale."),
            number("n", "Images of that tone.", "images", 0),
        ),
    ),
    Schema(
        "dalleval_attribute_presence",
        "Attributes worn by prompt",
        "One row per model, prompt, profession and attribute.",
        (
            _model,
            key("prompt", "`person`, `woman` or `man`: whom the prompt names."),
            _profession,
            _attribute,
            number("share", "Share of images that show the attribute (0 to 1).", low=0, high=1),
            number("n", "Images judged.", "images", 0),
            *_added(
                *interval("the share (Wilson)", of="share"),
                number("n_present", "Images that show the attribute.", "images", 0),
            ),
        ),
    ),
    Schema(
        "dalleval_printed_bias",
        "Printed averages and deviations",
        "The paper's own averages and mean absolute deviations by model (Tables 8, 17 and 21).",
        (
            _model,
            _category,
            number("average", "Printed average over professions."),
            number("mad", "Printed mean absolute deviation.", low=0, high=0.5),
        ),
    ),
    Schema(
        "dalleval_printed_attributes",
        "Printed attribute shares and differences",
        "The paper's own averages over prompts (Tables 9 and 22).",
        (
            _model,
            key("prompt", "`person`, `woman`, `man`, or a comparison such as `woman - man`."),
            key("attribute", "The attribute, or `mean_absolute_difference` over all of them."),
            number("value", "Printed share or difference of shares."),
        ),
    ),
    Schema(
        "dalleval_skill_accuracy",
        "Accuracy in visual reasoning skills",
        "One row per model, judge, set of images, share of training data and skill.",
        (
            _model,
            key("evaluator", "Who judges the images: `DETR` or `Human`."),
            key("images", "`test` (every test scene) or `sample` (the 50 that people also judged)."),
            key("training_percent", "Share of the fine-tuning data used, in percent."),
            _skill,
            number("percent_correct", "Share of images judged correct.", "%", 0, 100),
            number("n", "Images judged.", "images", 0),
            *_added(*interval("the share (Wilson)", "%", of="percent_correct"), _printed),
        ),
    ),
    Schema(
        "dalleval_references",
        "Accuracy and quality of real images",
        "What the judges say of images that no model made: the scale's ends (Tables 2 and 19).",
        (
            key("reference", "`oracle` (the real images) or `shuffled` (real images of other prompts)."),
            key("measure", "A skill or a metric."),
            number("value", "Percentage correct, or the metric's value."),
            number("n", "Images judged.", "images", 0),
        ),
    ),
    Schema(
        "dalleval_alignment_quality",
        "Alignment and quality by metric",
        "One row per model and metric; results add ranks and, for R-precision, the interval (Wilson).",
        (
            _model,
            _metric,
            number("value", "The metric's value."),
            text("better", "`higher` or `lower`: which values are better."),
            number("n", "Images that the value is taken over.", "images", 0),
            *_added(
                *interval("the value (Wilson, for R-precision)", of="value"),
                number("rank", "Rank among the models, 1 is best.", low=1),
                _reason,
            ),
        ),
    ),
    Schema(
        "dalleval_gender_judges",
        "Two judges of gender on captioned photos",
        "Bias and recall of image-text models in retrieval (Table 14).",
        (
            key("judge", "The image-text model that judges."),
            key("captions", "`original` or `ungendered` captions."),
            _metric,
            number("value", "Bias@K (0 none) or recall@K (%)."),
            _reason,
        ),
    ),
    Schema(
        "dalleval_skin_tone_methods",
        "Skin tone methods against people",
        "How often a method's tone lies within K tones of a person's, and how far off it is (Table 18).",
        (
            key("segmentation", "How skin pixels are found."),
            key("scoring", "How their colour becomes a tone."),
            key(
                "measure", "`within_0` to `within_3` (% of images within so many tones) or `mean_difference`."
            ),
            number("value", "Percentage of images, or mean difference in tones."),
            *_added(
                number("n", "Images, from the printed percentages.", "images", 0),
                *interval("the percentage (Wilson)", "%", of="value"),
                _reason,
            ),
        ),
    ),
)

_COMPUTED = (
    Schema(
        "dalleval_overall_average",
        "Overall averages",
        "Average gender and skin tone over professions, with Student t intervals over professions.",
        (
            _model,
            _category,
            number("average", "Mean of the professions' averages."),
            *interval("the mean over professions", of="average"),
            number("n", "Professions.", "professions", 0),
            number("images_per_profession", "Median number of images behind a profession.", "images", 0),
            _printed,
            _reason,
        ),
    ),
    Schema(
        "dalleval_mad",
        "Mean absolute deviation from an even distribution",
        "Per model: the paper's measure, the value that a fair model shows by chance at as many images, and "
        "the value with that chance part taken off. Intervals: bootstrap over professions.",
        (
            _model,
            _category,
            number(
                "mad",
                "Mean over professions of the deviation (0 even; gender 0.5, tone 0.18 at most).",
                low=0,
            ),
            *interval("the mean over professions", of="mad"),
            number("n", "Professions.", "professions", 0),
            text("evidence", "`computed` from the source's rows, or `printed` by the paper."),
            number("floor", "What a perfectly even model shows at as many images.", low=0),
            number(
                "expected_at_overall_share",
                "What a model shows whose every profession has its overall share.",
            ),
            number("corrected_mad", "The deviation with the chance part taken off."),
            number("corrected_ci_low", "Lower limit of its interval.", of="corrected_mad"),
            number("corrected_ci_high", "Upper limit of its interval.", of="corrected_mad"),
            number("corrected_floor", "What the correction leaves of the floor: its mean for an even model."),
            _printed,
            _reason,
        ),
    ),
    Schema(
        "dalleval_gender_balance",
        "Professions that differ from balance",
        "How many professions differ from an even split, by exact binomial tests.",
        (
            _model,
            number("n", "Professions tested.", "professions", 0),
            number("n_all_male", "Professions whose images are all perceived as male.", "professions", 0),
            number("n_all_female", "Professions whose images are all perceived as female.", "professions", 0),
            number("n_p05", "Professions with p < 0.05, unadjusted.", "professions", 0),
            number("n_holm", "Professions with p < 0.05 after Holm's adjustment.", "professions", 0),
            number("n_bh", "Professions with p < 0.05 after Benjamini and Hochberg's.", "professions", 0),
            number(
                "smallest_possible_p",
                "The p-value of a one-sided set of images of the usual size.",
                low=0,
                high=1,
            ),
        ),
    ),
    Schema(
        "dalleval_model_difference",
        "Gender: differences between models",
        "Paired over professions: mean difference with Student t interval and sign-flip test.",
        (
            key("first", "The first model."),
            key("second", "The second model, taken off the first."),
            key("quantity", "`average` gender, `mad` or `corrected_mad`."),
            number("difference", "First minus second, mean over professions."),
            *interval("the mean difference", of="difference"),
            number("n", "Professions that both models have.", "professions", 0),
            number("p", "Two-sided p-value of the sign-flip test.", low=0, high=1),
            number("p_holm", "The same after Holm's adjustment over pairs of models.", low=0, high=1),
        ),
    ),
    Schema(
        "dalleval_model_correlation",
        "Gender: do models agree on professions",
        "Pearson correlation of average gender over professions, for each pair of models.",
        (
            key("first", "One model."),
            key("second", "The other model."),
            number("r", "Pearson correlation.", low=-1, high=1),
            *interval("the correlation", of="r"),
            number("p", "Two-sided p-value against 0.", low=0, high=1),
            number("n", "Professions that both models have.", "professions", 0),
        ),
    ),
    Schema(
        "dalleval_skin_tone_check",
        "Skin tone computations on the Monk swatches",
        "The typology angle and the tone that each computation gives for the scale's own ten colours.",
        (
            key("swatch", "The tone that the swatch defines, `1` to `10`."),
            key("computation", "`cielab`, or the paper's released script on NumPy 2 (`released`) or 1."),
            text("colour", "The swatch's sRGB colour."),
            number("angle", "Individual Typology Angle.", "degrees"),
            number("tone", "Nearest tone by angle.", "tones", 1, 10),
        ),
    ),
    Schema(
        "dalleval_skin_tone_reach",
        "Tones that each computation can answer at all",
        "Share of all sRGB colours, on an even grid of 52 levels a channel, that get each tone.",
        (
            key("computation", "`cielab`, or the paper's released script on NumPy 2 (`released`) or 1."),
            key("tone", "Tone `1` to `10` of the Monk scale."),
            number("percent_of_colours", "Share of the grid's colours that get the tone.", "%", 0, 100),
            number("n", "Colours in the grid.", "colours", 0),
        ),
    ),
    Schema(
        "dalleval_two_tone_reading",
        "Skin tone averages read as a mix of two tones",
        "What the averages imply if every face had one of the two tones around them. A deviation close to it does "
        "not show that: a few faces of distant tones give the same average and a similar or larger deviation.",
        (
            _model,
            number("lowest", "Lowest average of a profession.", "tones", 1, 10),
            number("highest", "Highest average of a profession.", "tones", 1, 10),
            number("n", "Professions.", "professions", 0),
            number("n_at_lowest", "Professions at the lowest average.", "professions", 0),
            number(
                "implied_mad",
                "Mean absolute deviation if only the two tones around each average occur.",
                low=0,
            ),
            _printed,
        ),
    ),
    Schema(
        "dalleval_mad_floor",
        "Deviation of a fair model by chance",
        "Expected mean absolute deviation of an even distribution by number of images.",
        (
            _category,
            key("images", "Number of images."),
            number("floor", "Expected mean absolute deviation.", low=0),
            number("largest", "The value where every image falls into one category.", low=0),
        ),
    ),
    Schema(
        "dalleval_attribute_difference",
        "Attributes: differences between prompts",
        "Difference of shares, paired over prompts with Student t intervals; sign-flip tests, adjusted over "
        "the attributes of a model and comparison.",
        (
            _model,
            _comparison,
            _attribute,
            number(
                "difference", "First minus second share (-1 to 1), mean over professions.", low=-1, high=1
            ),
            *interval("the mean difference", of="difference"),
            number("n", "Professions (the prompt without one counts as one).", "prompts", 0),
            number("n_images", "Images behind each of the two shares.", "images", 0),
            number("share_first", "Share with the attribute at the first prompt.", low=0, high=1),
            number("share_second", "Share with the attribute at the second prompt.", low=0, high=1),
            *_p("the sign-flip test", "the attributes"),
            number(
                "smallest_possible_p", "The smallest p-value that so many prompt pairs allow.", low=0, high=1
            ),
            _printed,
            _reason,
        ),
    ),
    Schema(
        "dalleval_attribute_mean_difference",
        "Attributes: mean absolute difference between prompts",
        "Mean over attributes of the absolute difference of shares, against what relabelled prompts give.",
        (
            _model,
            _comparison,
            number("mean_absolute_difference", "Mean over attributes (0 to 1).", low=0, high=1),
            *interval("the mean over attributes", of="mean_absolute_difference"),
            number("n", "Professions (the prompt without one counts as one).", "prompts", 0),
            number("n_attributes", "Attributes.", "attributes", 0),
            number(
                "floor", "Its mean when the two prompts of a profession swap labels at random.", low=0, high=1
            ),
            number("p", "Share of such swaps that reach the value.", low=0, high=1),
            _printed,
            number("by_profession", "The same within each profession, then averaged.", low=0, high=1),
            number(
                "by_profession_ci_low",
                "Lower limit of its Student t interval over professions.",
                of="by_profession",
            ),
            number("by_profession_ci_high", "Upper limit of the same.", of="by_profession"),
            number(
                "by_profession_floor", "Its mean if both prompts' images came from one pool.", low=0, high=1
            ),
        ),
    ),
    Schema(
        "dalleval_attribute_prompt_difference",
        "Attributes: mean absolute difference by profession",
        "As printed beside Tables 24 to 31, with the value that two prompts of equal shares give by chance.",
        (
            _model,
            _comparison,
            _profession,
            number("mean_absolute_difference", "Mean over attributes (0 to 1).", low=0, high=1),
            number("n_attributes", "Attributes.", "attributes", 0),
            number("n", "Images of each prompt.", "images", 0),
            number("floor", "Expected value if both prompts' images came from one pool.", low=0, high=1),
        ),
    ),
    Schema(
        "dalleval_skill_agreement",
        "People and detector on the same images",
        "Human minus DETR accuracy on the sample both judged, and that sample against all test scenes.",
        (
            _model,
            _skill,
            number("difference", "Human minus DETR.", "points", -100, 100),
            *interval("the difference, as if the two judged separate images", "points", of="difference"),
            number("n", "Images that both judged.", "images", 0),
            number("percent_human", "Share that people judged correct.", "%", 0, 100),
            number("percent_detr", "Share that DETR judged correct.", "%", 0, 100),
            number("percent_detr_test", "DETR on all test scenes.", "%", 0, 100),
            number(
                "p",
                "Two-sided p-value: is the sample's DETR accuracy that of all test scenes?",
                low=0,
                high=1,
            ),
            number("p_holm", "The same after Holm's adjustment over the rows.", low=0, high=1),
        ),
    ),
    Schema(
        "dalleval_skill_training",
        "Accuracy with less training data",
        "Accuracy with part of the fine-tuning data minus accuracy with all of it; interval and test take the two "
        "as separate scenes.",
        (
            _model,
            _skill,
            key("training_percent", "Share of the fine-tuning data used, in percent."),
            number("change", "Accuracy minus accuracy with all the data.", "points", -100, 100),
            *interval("the change, as if on separate scenes", "points", of="change"),
            number("n", "Test scenes.", "images", 0),
            number("p", "Two-sided z-test of two shares (pooled).", low=0, high=1),
            number("p_holm", "The same after Holm's adjustment over all rows.", low=0, high=1),
        ),
    ),
    Schema(
        "dalleval_metric_agreement",
        "Do metrics rank models alike",
        "Kendall's tau between the rankings of the models by two metrics, better first.",
        (
            key("metric", "One metric."),
            key("other_metric", "The other metric."),
            number("tau", "Kendall's tau-b: 1 same order, -1 reverse order.", low=-1, high=1),
            number("n", "Models.", "models", 0),
            number("smallest_possible_p", "The smallest p-value that so many models allow.", low=0, high=1),
        ),
    ),
)

SCHEMAS: tuple[Schema, ...] = (*_MEASURED, *_COMPUTED)
