"""Tables about images that were fetched by URL, and what it means that others could not be."""

from biaslab.schemas.paradox import APPROACHES
from biaslab.tables import Schema, interval, key, number, text

_corpus = key("corpus", "The captions searched.")
_approach = key("approach", "How training captions were selected.", APPROACHES)
_occupation = key("occupation", "Occupation, in the paper's spelling.")
_selected_for = key(
    "prompt", "Prompt `1` to `4` that they were selected for; `captions` where they serve all."
)

SCHEMAS = (
    Schema(
        "paradox_downloads",
        "What became of each image's URL",
        "One row per caption whose image was asked for, in the order of captions; empty where images are not fetched.",
        (
            _corpus,
            key("caption_id", "The caption's id in the corpus."),
            text("url", "The URL that the corpus states."),
            text("outcome", "`ok`, or why there is no image: `not_found`, `timed_out`, `not_an_image`, ..."),
            number("status", "HTTP status of the last response.", "", 0),
            number("n_bytes", "Size of the body, as far as it was read.", "bytes", 0),
            number("width", "Width as received.", "pixels", 0),
            number("height", "Height as received.", "pixels", 0),
            number("n_tries", "How often it was tried.", "", 0),
            number("seconds", "Time that requests took, without waits between them.", "s", 0),
            text("final_url", "Where redirects led."),
            text("sha256", "Digest of the body."),
            text("fetched", "When, in UTC."),
            text("detail", "What went wrong, in words."),
        ),
    ),
    Schema(
        "paradox_download_outcomes",
        "Outcomes of fetching training images",
        "One row per approach, prompt, occupation and outcome: how many images had it, and how those that could be "
        "fetched are perceived. Empty where images are not fetched by URL.",
        (
            _corpus,
            _approach,
            _selected_for,
            _occupation,
            key("outcome", "`ok`, or why there is no image: `not_found`, `timed_out`, `not_an_image`, ..."),
            number("n", "Images with this outcome.", "images", 0),
            number("n_female", "Of these, perceived as female.", "images", 0),
            number("n_male", "Of these, perceived as male.", "images", 0),
        ),
    ),
    Schema(
        "paradox_image_survival",
        "Images that could be fetched, and what the others could change",
        "Share of the images behind selected captions that could be fetched, and bounds of the share perceived as "
        "female: as if every missing image showed a man, and as if every one showed a woman.",
        (
            _corpus,
            _approach,
            _selected_for,
            _occupation,
            number("percent", "Images that could be fetched.", "%", 0, 100),
            *interval("the share fetched (Wilson)", "%", of="percent"),
            number("n", "Images asked for.", "images", 0),
            number("n_missing", "Of these, without an image.", "images", 0),
            text("most_missing", "The most frequent reason."),
            number("n_female", "Images perceived as female.", "images", 0),
            number("n_male", "Images perceived as male.", "images", 0),
            number("percent_female", "Of these two, female.", "%", 0, 100),
            number("training_low", "The same if every missing image showed a man.", "%", 0, 100),
            number("training_high", "The same if every missing image showed a woman.", "%", 0, 100),
            text("reason", "Why a value is missing, where it is."),
        ),
    ),
    Schema(
        "paradox_amplification_bounds",
        "Amplification whatever the missing images show",
        "Expected amplification as measured, and its least and greatest value over everything that the training "
        "images that could not be fetched may show. Intervals for sampling come on top.",
        (
            key("model", "The text-to-image model."),
            _approach,
            key(
                "definition",
                "`published`, `no_exclusion` or `directional`, as in the table of amplification.",
            ),
            key("prompt", "Prompt `1` to `4`, or `captions`."),
            number(
                "amplification", "Plain measure of the images that there are, their noise left in.", "points"
            ),
            number("lowest", "Its least possible value.", "points"),
            number("highest", "Its greatest possible value.", "points"),
            number(
                "n_occupations", "Occupations with generated images and images asked for.", "occupations", 0
            ),
            text("reason", "Why a value is missing, where it is."),
        ),
        images=True,
    ),
)
