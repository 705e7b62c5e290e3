"""Tables that known truth buys: the judge, shares and amplification against the world's own, and the world itself."""

from biaslab.tables import Schema, interval, key, number, text

CUES = ("all", "unambiguous", "ambiguous")
PARTS = ("measurement", "model", "guidance", "total")
COMPONENTS = (
    "exclusion_distance",
    "exclusion_direction",
    "threshold",
    "face_gate",
    "finite_samples",
    "judge_error",
)
_cues = key("cues", "`unambiguous`: an ideal judge would be 99 % sure or more; `ambiguous`; or `all`.", CUES)
_generator = key("generator", "`world` (keeps the world's truth, has no model), or the text-to-image model.")
_approach = key(
    "approach",
    "How training captions were selected; `matched`: captions that ask what the templates ask (prompt-like, without "
    "an indicator).",
)
_definition = key(
    "definition", "`published`, `no_exclusion` or `directional`, as in the table of amplification."
)
_skew = key("skew", "The world's knobs: `default`, or `off` for no paradox.")
_reason = text("reason", "Why a value or its limits are missing, where they are.")

SCHEMAS = (
    Schema(
        "calibration_confusion",
        "What held-out renders show and what the judge says",
        "Renders by true perceived gender, by how clear it is, and by what gate and judge made of them.",
        (
            _cues,
            key("truth", "Perceived gender that the scene was drawn with.", ("female", "male")),
            key("judged", "`female`, `male`, or why the render has no gender: `uncertain`, `no_face`, ..."),
            number("n", "Renders.", "images", 0),
            number("n_images", "All renders of this truth and clearness.", "images", 0),
            number("percent", "Share of them.", "%", 0, 100),
            *interval("the share (Wilson)", "%", of="percent"),
        ),
    ),
    Schema(
        "calibration_judge",
        "How often the judge is right, beside the best that any judge can be",
        "Of renders with an answer, those whose answer is the true perceived gender.",
        (
            _cues,
            key("truth", "`all` renders, or those that show `female` or `male`."),
            key(
                "answers",
                "`judged`: where the judge is sure enough; `likelier`: the likelier gender for all that pass the gate.",
                ("judged", "likelier"),
            ),
            number("accuracy", "Share of right answers.", "%", 0, 100),
            *interval("the accuracy (Wilson)", "%", of="accuracy"),
            number("n", "Renders with an answer.", "images", 0),
            number("n_images", "All renders of this kind.", "images", 0),
            number(
                "ceiling",
                "What an ideal judge of the visible cues would reach on the same renders, by Bayes' rule: the mean "
                "probability of the likelier gender; only over `all` truths, since it guards no single gender.",
                "%",
                0,
                100,
            ),
        ),
    ),
    Schema(
        "calibration_reliability",
        "Whether the judge's probabilities mean what they say",
        "Renders that pass the gate, by the judge's probability of female.",
        (
            key("bin", "Range of the judge's probability."),
            number("low", "Its lower end.", "", 0, 1),
            number("high", "Its upper end.", "", 0, 1),
            number("mean_judge", "Mean probability of the judge.", "%", 0, 100),
            number(
                "mean_ideal", "Mean probability by Bayes' rule from the cues that were drawn.", "%", 0, 100
            ),
            number("percent_female", "Renders that show a woman.", "%", 0, 100),
            *interval("the share (Wilson)", "%", of="percent_female"),
            number("n", "Renders.", "images", 0),
        ),
    ),
    Schema(
        "calibration_judge_by_occupation",
        "How often the judge is right, by occupation",
        "Sensitivity, specificity and shares judged over renders whose truth is known: held-out ones and those of the "
        "truth-preserving generator.",
        (
            key("occupation", "The occupation, or `all`."),
            key(
                "measure",
                "`sensitivity` (of judged renders of women, those judged female), `specificity` (the same for men), "
                "`judged_female`, `judged_male` (of all renders of one gender, those judged).",
            ),
            number("value", "The share.", "%", 0, 100),
            *interval("the share (Wilson)", "%", of="value"),
            number("n", "Renders behind it.", "images", 0),
        ),
    ),
    Schema(
        "calibration_shares",
        "Measured shares against true ones",
        "The share perceived as female as measured, beside the one that the world has by construction.",
        (
            key("source", "`training` images, or those `generated` by the truth-preserving generator."),
            _skew,
            _approach,
            key("occupation", "The occupation."),
            number(
                "percent_true",
                "True share: of captions of this kind; for nearest captions the mean over those selected.",
                "%",
                0,
                100,
            ),
            number("percent_drawn", "Women among the very images, before gate and judge.", "%", 0, 100),
            number(
                "drawn_low", "Lower limit of that share's interval (Wilson).", "%", 0, 100, of="percent_drawn"
            ),
            number(
                "drawn_high",
                "Upper limit of that share's interval (Wilson).",
                "%",
                0,
                100,
                of="percent_drawn",
            ),
            number("n_drawn", "Images that show a woman or a man.", "images", 0),
            number("percent_female", "Share as judged.", "%", 0, 100),
            *interval(
                "the share that the judge sees (Wilson); the judge's error is not in it",
                "%",
                of="percent_female",
            ),
            number("n", "Images judged female or male.", "images", 0),
            number("percent_corrected", "Share as judged, corrected for the judge's error.", "%", 0, 100),
            number(
                "corrected_low",
                "Lower limit of its interval, with the uncertainty of the judge's error (Lang & Reiczigel 2014).",
                "%",
                0,
                100,
                of="percent_corrected",
            ),
            number(
                "corrected_high", "Upper limit of the same interval.", "%", 0, 100, of="percent_corrected"
            ),
            text(
                "reference",
                "Whose error the correction takes: that on renders of the occupation, or `all` where they are fewer "
                "than 30 of a gender. None of these renders is among the images counted.",
            ),
            _reason,
        ),
    ),
    Schema(
        "calibration_inside",
        "How many intervals hold the true share, beside what chance lets",
        "Occupations whose interval holds the true share. If an interval means what it says, their number is binomial.",
        (
            key(
                "counted",
                "`drawn`: the people drawn, so nothing but sampling; `judged`: what the judge says of them, which "
                "its error moves; `corrected`: the same corrected for that error.",
                ("drawn", "judged", "corrected"),
            ),
            key("source", "`training` images, or those `generated` by the truth-preserving generator."),
            _skew,
            _approach,
            number("inside", "Intervals that hold the true share.", "occupations", 0),
            number("n", "Intervals.", "occupations", 0),
            number("expected", "How many would hold it on average.", "occupations", 0),
            number(
                "least",
                "The count that chance alone falls below in at most 5 % of studies.",
                "occupations",
                0,
            ),
            number("p", "Chance of so few or fewer, if every interval were right (binomial).", "", 0, 1),
            number("mean_off", "Mean difference from the true share.", "points"),
            number("rms_off", "Root mean square of the differences.", "points", 0),
            number("p_holm", "p after Holm's correction over the kinds of images counted alike.", "", 0, 1),
        ),
    ),
    Schema(
        "calibration_amplification",
        "Amplification with and without a model, beside what the truth implies",
        "Expected bias amplification of the truth-preserving generator and of the model at each guidance scale, with "
        "the amplification that true shares imply for a generator that keeps them.",
        (
            _generator,
            key("guidance_scale", "Guidance of the model; empty for the world."),
            _skew,
            _approach,
            _definition,
            key(
                "prompt",
                "`mean`: each prompt apart, then averaged, as in the paper; `pooled`: the images of all prompts taken "
                "together, which needs fewer.",
                ("mean", "pooled"),
            ),
            number("amplification", "Expected amplification as measured.", "points"),
            number("beyond_floor", "Measured, less floor.", "points"),
            *interval(
                "the amplification freed of its floor (occupations and images resampled)",
                "points",
                of="beyond_floor",
            ),
            number("floor", "What sampling noise of the images alone adds to it.", "points"),
            number("implied", "What true shares imply for a generator that keeps the truth.", "points"),
            number("excess", "Measured, less floor, less implied: what generator and judge add.", "points"),
            number(
                "excess_low",
                "Lower limit of the excess, for these occupations (images resampled).",
                "points",
                of="excess",
            ),
            number(
                "excess_high",
                "Upper limit of the excess, for these occupations (images resampled).",
                "points",
                of="excess",
            ),
            number("n_occupations", "Occupations with shares on both sides.", "occupations", 0),
            number("n_training", "Judged training images of an occupation and prompt, median.", "images", 0),
            number(
                "n_generated", "Judged generated images of an occupation, all prompts, median.", "images", 0
            ),
            _reason,
        ),
    ),
    Schema(
        "calibration_guidance",
        "What measurement, model and guidance each add",
        "The signed change from the true training share to the share generated, along the true lean, split into parts "
        "that add up: none of them has a floor.",
        (
            _generator,
            key("guidance_scale", "Guidance of the model."),
            _approach,
            key(
                "part",
                "`measurement`: from the true share of the training captions to that of captions like the prompts "
                "(exact); `model`: from there to images at the lowest guidance; `guidance`: from there to images at "
                "this guidance; `total`.",
                PARTS,
            ),
            number("points", "Mean over occupations.", "points"),
            *interval("the mean (Student t over occupations; none for what is exact)", "points", of="points"),
            number("n_occupations", "Occupations.", "occupations", 0),
            number(
                "n_generated",
                "Judged generated images of an occupation at this guidance, median.",
                "images",
                0,
            ),
        ),
    ),
    Schema(
        "calibration_contributions",
        "What each rule of measurement contributes",
        "Expected amplification (published definition, mean of prompts) with and without one rule, on the same images.",
        (
            _generator,
            _approach,
            key(
                "component",
                "`exclusion_distance`: leaving out occupations whose lean flips, against counting their distance; "
                "`exclusion_direction`: against counting the signed change; `threshold`: only sure answers count; "
                "`face_gate`: only images with one large face count; `finite_samples`: what sampling noise of the "
                "images adds; `judge_error`: the judge's answers in place of the truth.",
                COMPONENTS,
            ),
            number("with_rule", "Amplification with it.", "points"),
            number("without_rule", "Amplification without it.", "points"),
            number("contribution", "With less without.", "points"),
            *interval("the contribution (occupations resampled)", "points", of="contribution"),
            number("n_occupations", "Occupations.", "occupations", 0),
            number("n_images", "Images that it makes a difference for, training and generated.", "images", 0),
            _reason,
        ),
    ),
    Schema(
        "mini_quality",
        "What the embedded world and models must reach, and what they reach",
        "One row per requirement, as measured in this run.",
        (
            key("metric", "What is measured."),
            number("value", "Its value."),
            *interval("the value", of="value"),
            text("unit", "Unit of the value."),
            number("n", "What the value rests on.", "", 0),
            text("n_of", "What n counts."),
            text("reach", "What it shall reach."),
            text(
                "met",
                "`yes` or `no` where the whole interval agrees; `yes, not certain` or `no, not certain` where it "
                "reaches to the other side; empty where nothing is asked or measured.",
            ),
            _reason,
        ),
    ),
    Schema(
        "world_knobs",
        "The world's knobs",
        "What can be set, its settings in the worlds with and without the paradox, and the effect that it causes.",
        (
            key("knob", "Name of the knob."),
            number("default", "Its setting in the default world."),
            number("off", "Its setting in the world without the paradox."),
            text("does", "What it does."),
            text("causes", "Which of the paper's effects follows."),
        ),
    ),
    Schema(
        "world_conditional",
        "How far each kind of caption leans",
        "For each world, exact shares by algebra: how much further from 50 % a kind of caption leans than all "
        "captions with the occupation, mean over the 62.",
        (
            key("skew", "The world: every knob, none, or one cause alone."),
            key("captions", "Kind of caption."),
            number("percent_of_captions", "Its share among captions that show a person.", "%", 0, 100),
            number("lean", "Mean distance of the share of women from 50.", "points", 0, 50),
            number("lean_gain", "That less the same of all captions.", "points"),
        ),
    ),
    Schema(
        "world_occupations",
        "The share of women behind each kind of caption",
        "P(female | occupation, kind of caption) in the default world, in per cent, exact.",
        (
            key("occupation", "The occupation."),
            key("captions", "Kind of caption."),
            number("percent_female", "Share of women.", "%", 0, 100),
        ),
    ),
    Schema(
        "world_ceiling",
        "The best that any judge of the cues can do",
        "By enumerating every combination of gender cues, with as many women as men and nothing covered.",
        (
            key("sure", "Probability from which a person counts as unambiguous."),
            number("ambiguous", "People who are ambiguous then.", "%", 0, 100),
            number("accuracy", "Accuracy of an ideal judge over all people.", "%", 0, 100),
            number("accuracy_unambiguous", "Its accuracy over those who are not ambiguous.", "%", 0, 100),
        ),
    ),
)
