"""Tables of the paradox paper's sections that need captions and images, summed up over occupations."""

from biaslab.schemas.paradox import APPROACHES, SOURCES
from biaslab.tables import Schema, interval, key, number, text

_corpus = key("corpus", "The captions searched.")
_model = key("model", "The text-to-image model.")
_approach = key("approach", "How training captions were selected or prompts made.", APPROACHES)
_reason = text("reason", "Why a value or its limits are missing, where they are.")

SCHEMAS = (
    Schema(
        "paradox_outcomes",
        "Outcomes of gate and judge",
        "What became of the images of a source, over all occupations: judged, or the reason why not.",
        (
            _model,
            key("source", "`training` (behind captions) or `generated` images.", SOURCES),
            _approach,
            key("prompt", "Prompt `1` to `4`; `captions` where captions select or prompt."),
            key("outcome", "`judged`, or why an image has no gender: `no_face`, `uncertain`, ..."),
            number("n", "Images with this outcome.", "images", 0),
            number("n_images", "All images of the source, approach and prompt.", "images", 0),
            number("percent", "Share of them.", "%", 0, 100),
            *interval("the share (Wilson)", "%", of="percent"),
            _reason,
        ),
        images=True,
    ),
    Schema(
        "paradox_indicator_correlation",
        "Gender shares of images against gender indicators in captions",
        "Pearson's correlation over occupations of the share of training images perceived as of a gender with the "
        "share of captions that indicate it (section 5.1).",
        (
            _corpus,
            key("gender", "The gender that is perceived, and indicated.", ("female", "male")),
            key(
                "counted",
                "`any`: captions with an indicator of the gender; `only`: those of them without the other gender's.",
                ("any", "only"),
            ),
            number("r", "Pearson's correlation.", "", -1, 1),
            *interval("the correlation (Fisher z)", of="r"),
            number("p", "Its two-sided p-value.", "", 0, 1),
            number("n", "Occupations.", "occupations", 0),
            number("published", "What the paper states for LAION, where it does.", "", -1, 1),
            _reason,
        ),
    ),
    Schema(
        "paradox_indicator_use",
        "How often captions indicate a gender",
        "Mean over occupations of the share of captions with a gender indicator (section 5.1), by the gender of "
        "their images: the one that fewer images of the occupation show, or the other.",
        (
            _corpus,
            key(
                "images",
                "`all`; those of the `rarer` or of the `commoner` gender of the occupation; `difference` of the two.",
                ("all", "rarer", "commoner", "difference"),
            ),
            number("percent", "Captions with an indicator, mean over occupations.", "points", -100, 100),
            *interval("the mean (Student t)", "points", of="percent"),
            number("n", "Occupations.", "occupations", 0),
            number("published", "What the paper states for LAION, where it does.", "%", 0, 100),
            _reason,
        ),
    ),
    Schema(
        "paradox_similarity_mean",
        "Similarity by approach",
        "Mean over occupations of the similarity of captions to prompts, and of training to generated images "
        "(section 5.2), with the difference from the naive approach in the same occupations.",
        (
            _model,
            _approach,
            key("prompt", "Prompt `1` to `4`, or their `mean`."),
            key("compared", "`text` (captions with the prompt) or `image` (training with generated images)."),
            number("similarity", "Mean cosine.", "", -1, 1),
            *interval("the mean (Student t)", of="similarity"),
            number("n", "Occupations.", "occupations", 0),
            number("change", "Mean difference from the naive approach, occupation by occupation."),
            number("change_low", "Lower limit of the confidence interval of the difference.", of="change"),
            number("change_high", "Upper limit of the confidence interval of the difference.", of="change"),
            number("change_percent", "Difference from naive, relative to it.", "%"),
            number("published", "Mean cosine that the paper states, where it does.", "", -1, 1),
            number("published_percent", "Increase over naive that the paper states, where it does.", "%"),
            _reason,
        ),
    ),
    Schema(
        "paradox_gender_word_accuracy",
        "Whether images follow gender indicators in their captions",
        "Generated images whose perceived gender is the one that the caption's own image shows, or that the "
        "caption indicates, of all images from captions with indicators of one gender (section 6).",
        (
            _model,
            _approach,
            key("indicator", "Captions that indicate `female`, `male`, or either (`all`)."),
            key("against", "`training image` behind the caption, or `indicator` in the caption."),
            number("percent", "Generated images of the same gender.", "%", 0, 100),
            *interval("the share (Wilson)", "%", of="percent"),
            number("n", "Generated images compared.", "images", 0),
            number("published", "What the paper states for SD 1.4, where it does.", "%", 0, 100),
            _reason,
        ),
        images=True,
    ),
    Schema(
        "paradox_approach_change",
        "Change of amplification between approaches",
        "Expected amplification of an approach less that of a reference approach, both over the occupations that "
        "they share and without image noise where the change has an interval; else both are the plain measure.",
        (
            _model,
            _approach,
            key("reference", "The approach that it is compared with."),
            key(
                "definition",
                "`published`, `no_exclusion` or `directional`, as in the table of amplification.",
            ),
            key(
                "prompt",
                "Prompt `1` to `4`, their `mean`, or `captions`; the reference has the same or its mean.",
            ),
            number("reference_amplification", "Expected amplification of the reference.", "points"),
            number("amplification", "Expected amplification of the approach.", "points"),
            number("change", "Approach less reference.", "points"),
            *interval("the change", "points", of="change"),
            number("change_percent", "Change relative to the reference, where that is above 0.", "%"),
            number("n_occupations", "Occupations measured with both.", "occupations", 0),
            _reason,
        ),
        images=True,
    ),
    Schema(
        "paradox_paraphrase_check",
        "What paraphrasing changed",
        "Paraphrased captions that differ from the caption, and that keep its occupation and its gender "
        "indicators (A.6).",
        (
            _corpus,
            key("check", "`changed`, `occupation_kept` or `indicator_kept`."),
            number("percent", "Paraphrases of which it is true.", "%", 0, 100),
            *interval("the share (Wilson)", "%", of="percent"),
            number("n", "Paraphrases.", "captions", 0),
            _reason,
        ),
    ),
)
