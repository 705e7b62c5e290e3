"""Tables of the judge: outcomes, errors, corrected shares, and the agreement of people with it."""

from biaslab.tables import Schema, interval, key, number, text

_OUTCOMES = (
    "`judged`, or why not: `uncertain`, `no_face`, `several_faces`, `face_too_small`, `unreadable`, `blocked`, "
    "`unrated`."
)
_SUBSETS = "`all`, `training` or `generated` images."
_REFERENCES = "`truth` (known), `ratings` (the majority of people), or `simulated` (of made-up raters)."
_MEASURES = (
    "`sensitivity` (of judged images that show a woman by the reference, those judged female), `specificity` (the "
    "same for men), `judged_female`, `judged_male` (of all images that show one, those that were judged), "
    "`judged_neither` (of images that show neither, those judged all the same)."
)

SCHEMAS = (
    Schema(
        "judging_outcomes",
        "What became of each image",
        "How many images were judged and how many were not, for each reason; reasons that never occur have rows, too.",
        (
            key("source", "`training` or `generated` images."),
            key("group", "`all`, or one occupation."),
            key("outcome", _OUTCOMES),
            number("n", "Images with this outcome.", "images", 0),
            number("n_images", "All images of the source and group.", "images", 0),
            number("percent", "Share of all images of the source and group.", "%", 0, 100),
            *interval("the share (Wilson)", "%", of="percent"),
        ),
    ),
    Schema(
        "judging_error",
        "How often the judge is right",
        "Sensitivity, specificity and shares judged against a reference: the known truth, or the vote of raters.",
        (
            key("reference", _REFERENCES),
            key("source", _SUBSETS),
            key("group", "`all`, or one occupation."),
            key("measure", _MEASURES),
            number("value", "The share.", "%", 0, 100),
            *interval("the share (Wilson)", "%", of="value"),
            number("n", "Reference images that the share rests on.", "images", 0),
        ),
    ),
    Schema(
        "judging_confusion",
        "The judge against the reference",
        "Images by what they show by the reference and what the judge said.",
        (
            key("reference", _REFERENCES),
            key("source", _SUBSETS),
            key("group", "`all`, or one occupation."),
            key("truth", "`female`, `male` or `neither` by the reference."),
            key("judged", "`female`, `male`, or why the image was not judged."),
            number("n", "Images.", "images", 0),
        ),
    ),
    Schema(
        "judging_corrected",
        "Shares corrected for the judge's error",
        "The share perceived as female as judged, and corrected by sensitivity and specificity (Rogan and Gladen).",
        (
            key("model", "The text-to-image model."),
            key("approach", "How training captions were selected or prompts made."),
            key("occupation", "The occupation that the prompt or caption names."),
            key("source", "`training` or `generated` images."),
            key("prompt", "Prompt `1` to `4`, `captions` or `ratings`."),
            number("percent_female", "Share as judged.", "%", 0, 100),
            number("n", "Images judged female or male.", "images", 0),
            number("percent_corrected", "Corrected share.", "%", 0, 100),
            number(
                "corrected_low", "Lower limit of the corrected share.", "%", 0, 100, of="percent_corrected"
            ),
            number(
                "corrected_high", "Upper limit of the corrected share.", "%", 0, 100, of="percent_corrected"
            ),
            text("reference", "The group whose error was used: the occupation, or `all`."),
            number("sensitivity", "The judge's sensitivity there.", "%", 0, 100),
            number("specificity", "The judge's specificity there.", "%", 0, 100),
            number("sensitivity_n", "Reference images behind the sensitivity.", "images", 0),
            number("specificity_n", "Reference images behind the specificity.", "images", 0),
            text("reason", "Why a share is not corrected, where it is not."),
        ),
    ),
    Schema(
        "judging_agreement",
        "Agreement of raters with one another and with the judge",
        "Krippendorff's alpha of the raters, and how often the judge says what most raters say.",
        (
            key(
                "statistic",
                "`krippendorff_alpha`, or `judge_agreement` (0–100): the judge's answer is the raters' majority, "
                "over images that both decided.",
            ),
            key("labels", "`female/male/unsure`, or `female/male`: unsure ratings set aside."),
            key("subset", _SUBSETS),
            number("value", "Alpha (1 is perfect, 0 is chance), or percent.", "", -100, 100),
            *interval("the value", of="value"),
            number("n_items", "Images that the value rests on.", "images", 0),
            number("n_raters", "Raters with at least one rating.", "raters", 0),
            number("published", "What the paper prints for its own images and judge, where it does."),
            text("reason", "Why a value or its limits are missing, where they are."),
        ),
    ),
    Schema(
        "judging_rated",
        "The sample that was rated",
        "Images of the sample by source and by how their ratings ended.",
        (
            key("source", "`training` or `generated` images."),
            key("vote", "`female`, `male`, `tie`, `unsure` or `unrated`."),
            number("n", "Images.", "images", 0),
            number("n_images", "All images of the sample from this source.", "images", 0),
        ),
    ),
)
