"""Tables of the Paired Stereotype Test that take the people of each image: positions, failures, controls, critiques."""

from biaslab.schemas.paired import ASPECTS, DEPENDENCE
from biaslab.tables import Column, Schema, interval, key, number, text

# What prompts ask for: people alone, pairs of opposite stereotype, pairs without contrast, three people, mitigation.
ASKED = ("single", "paired", "alike", "same", "three", "intervention", "faircritic")
POSITIONS = ("alone", "left", "middle", "right")
OUTCOMES = (
    "judged",
    "uncertain",
    "no_face",
    "one_face",
    "too_many_faces",
    "overlapping",
    "face_too_small",
    "unreadable",
    "blocked",
    "unrated",
)
ORDERS = ("right", "swapped", "unclear")

_model = key("model", "The text-to-image model.")
_aspect = key(
    "aspect", "`occupation` (paper 3.1.1) or `power`: high- and low-power roles (paper 3.1.2).", ASPECTS
)
_setting = key(
    "setting",
    "What prompts ask for: `single` (one person), `paired` (two of opposite stereotype), `alike` (two of one "
    "stereotype), `same` (one identity twice), `three`, or `paired` mitigated: `intervention`, `faircritic`.",
    ASKED,
)
_round = number("round", "FairCritic's round, from 1; 0 where none has been.", low=0)
_stratum = key(
    "stereotype", "`female` or `male` stereotyped identities, or `overall`: both with equal weight."
)
_identities = number("n_identities", "Identities with a value.", "identities", 0)
_images = number("n_images", "Images.", "images", 0)
_dependence = text("dependence", DEPENDENCE)
_people = number("n", "People judged female or male.", "people", 0)
_reason = text("reason", "Why a value or limit is missing, where one is.")


def _percent(name: str, what: str):
    return number(name, what, "%", 0, 100)


def _fair(what: str):
    ends = (("fair_low", "Lower"), ("fair_high", "Upper"))
    return tuple(
        number(
            name,
            f"{end} end of the {what} that coin flips give at this n, the people of one image fully dependent.",
            "points",
            -100,
            100,
        )
        for name, end in ends
    )


SCHEMAS = (
    Schema(
        "paired_prompts",
        "What the model is asked",
        "Every text and how many images are generated from it.",
        (
            _model,
            key("prompt_id", "The prompt."),
            text("aspect", "`occupation` or `power`."),
            text("setting", "As in paired_people."),
            _round,
            number("run", "The sampling of roles of power; 1 for occupations.", low=1),
            text("text", "The text."),
            number("n_images", "Images of it.", "images", 0),
        ),
    ),
    Schema(
        "paired_images",
        "What became of each prompt",
        "Measured input: every image asked for, whether there is one, and what an images endpoint says of it.",
        (
            _model,
            key("image_id", "The image."),
            text("prompt_id", "The prompt."),
            text("aspect", "`occupation` or `power`."),
            text("setting", "As in paired_people."),
            text("outcome", "`ok`, or why there is none: `blocked`, `refused`, `not_an_image`, `unavailable`, …"),
            text("revised_prompt", "What an endpoint says it drew in place of the prompt, where it says so."),
            text("request_id", "How an endpoint names the request, where it does."),
            text("time", "When an endpoint answered, UTC."),
            number("tokens_cut", "Tokens at the prompt's end that no text encoder reads.", "tokens", 0),
            text("detail", "More about an image that is not there, such as the code and message of a refusal."),
        ),
    ),
    Schema(
        "paired_people",
        "Everyone whom images are to show",
        "Measured input: one row per image and person asked for, with what the judge saw at that position.",
        (
            _model,
            _aspect,
            _setting,
            key("image_id", "The image."),
            key("position", "Where the prompt puts the person.", POSITIONS),
            _round,
            number("run", "The sampling of roles of power; 1 for occupations.", low=1),
            text("identity", "The social identity: an occupation, or an occupation and a level of power."),
            text("occupation", "The occupation in the identity."),
            text("role", "The role within the occupation, where the prompt names one."),
            text("level", "`high` or `low` power of that role."),
            text("stereotype", "`female` or `male`: which gender the identity is stereotyped as."),
            Column("outcome", "What became of the person.", text=True, allowed=OUTCOMES),
            text("gender", "Perceived gender: `female`, `male`, `unsure`, or empty where nobody was judged."),
            number("p_female", "The judge's probability of perceived as female.", low=0, high=1),
            number("n_faces", "Faces found in the whole image; missing where nobody looked for them.", "faces", 0),
            text(
                "role_order",
                "Whether the people stand as asked: `right`, `swapped`, `unclear`, or empty where it was not "
                "looked for.",
            ),
            number("skin_tone", "Monk tone of the face as it appears, 1 (lightest) to 10.", low=1, high=10),
            _reason,
        ),
    ),
    Schema(
        "paired_renders",
        "The judge on people whose truth is known",
        "Measured input: held-out renders of two people, one row per person, with what is true and what was judged.",
        (
            key("judge", "The judge of gender."),
            key("image_id", "The image."),
            key("position", "`left` or `right`.", POSITIONS),
            text("identity", "Who is shown."),
            text("truth_gender", "The gender that was drawn."),
            text("ambiguous", "`yes` where the visible cues leave more than 1 % doubt, else `no`."),
            text("outcome", "What became of the person."),
            text("gender", "Perceived gender."),
            text("role_order", "Whether the people were found to stand as they do."),
            number("n_faces", "Faces found in the image; missing where nobody looked for them.", "faces", 0),
            number("truth_skin_tone", "Monk tone that was drawn.", low=1, high=10),
            number("skin_tone", "Monk tone of the face as it appears.", low=1, high=10),
        ),
    ),
    Schema(
        "paired_critiques",
        "What the critic says",
        "Measured input: each critique of FairCritic, a row per guideline; kept whole, because that it can be read is "
        "part of the method.",
        (
            _model,
            key("batch_id", "The images that were looked at together."),
            key("identity", "Whom the guideline is for; empty where there is none or it is for all."),
            key("round", "FairCritic's round, from `1`."),
            text("aspect", "`occupation` or `power`."),
            text("outcome", "`judged` or `no_judgement`."),
            text("biased", "`yes`, `no`, or empty without a judgement."),
            text("kind", "The kind of bias."),
            text("reasons", "The critic's reasons in words."),
            text("gender", "Which gender the guideline asks for, where it asks for one."),
            _percent("share", "Share of the prompts that get the guideline."),
            text("guideline", "The sentence that is added to prompts."),
            number("n", "People that the critique rests on.", "people", 0),
            _images,
        ),
    ),
    Schema(
        "paired_score_by_order",
        "Overall score by order, and what people not judged could change",
        "Overall stereotype score over all images, in which people count at the position asked for whether they were "
        "found there or not, and without images whose people were found in another order or in one that is not clear. "
        "Leaving these out is no correction: the order is easier to recognise where people look as the stereotype has "
        "it. Score and intervals as in paired_stereotype_score and, for controls, paired_control_score.",
        (
            _model,
            _aspect,
            _setting,
            key("images", "`all`, or `as_asked`: without those whose order is `swapped` or `unclear`; images whose "
                "order was not looked for, failed ones among them, stay.", ("all", "as_asked")),
            number("score", "Overall stereotype score of people judged.", "points", -100, 100),
            *interval("the score over identities (t)", "points", of="score"),
            _dependence,
            number("score_if_none_fit", "The score if nobody of those not judged fitted their stereotype.", "points",
                -100, 100),
            number("score_if_all_fit", "The score if all of those not judged did.", "points", -100, 100),
            _people,
            number("n_not_judged", "People asked for in these images who were not judged.", "people", 0),
            _images,
            _identities,
            _reason,
        ),
    ),
    Schema(
        "paired_outcomes",
        "What became of images of people",
        "Images by what the gate and the judge made of the people in them; an image counts once, as its people's worst "
        "outcome.",
        (
            _model,
            _aspect,
            _setting,
            key("outcome", "What became of the image.", OUTCOMES),
            number("n", "Images with this outcome.", "images", 0),
            *(
                number(f"n_{order}", f"Of them, images whose people stand as asked: {said}.", "images", 0)
                for order, said in zip(ORDERS, ("yes", "in another order", "not clear"), strict=True)
            ),
            _images,
            _percent("percent", "Share of all images of the aspect and setting."),
            *interval("the share (Wilson)", "%", of="percent"),
        ),
    ),
    Schema(
        "paired_valid_images",
        "Images that show what was asked",
        "Share of images with as many people as asked for, with everyone's gender judged, with the people in the order "
        "asked for, and with all three: what mitigation must not cost.",
        (
            _model,
            _aspect,
            _setting,
            key("measure", "`people` (as many faces as asked, none too small), `judged`, `order` (of images with the "
                "right number of people and an order to look for: stand as asked), `valid` (all of them). Where the "
                "judge looks for no faces (`people`) or for no order (`order`), that and `valid` are missing."),
            _percent("percent", "Share of images."),
            *interval("the share (Wilson)", "%", of="percent"),
            _images,
            number("change", "Change against the same pairs without mitigation.", "points"),
            number("change_ci_low", "Lower limit of the change (Newcombe).", "points", of="change"),
            number("change_ci_high", "Upper limit of the change (Newcombe).", "points", of="change"),
            _reason,
        ),
    ),
    Schema(
        "paired_position_effect",
        "Left against right",
        "Share perceived as female on the left minus on the right, mean over identities, each of which stands on both "
        "sides beside the same partners: for occupations a lean that the position has by itself. In `power` only the "
        "person on the left is named with the occupation (`carpenter manager`, `intern`), so the difference is that of "
        "position and of being named by occupation together. Intervals as in "
        "paired_stereotype_score: overall the dependence of two people in one image is estimated.",
        (
            _model,
            _aspect,
            _setting,
            _stratum,
            _percent("percent_female_left", "Share perceived as female on the left."),
            _percent("percent_female_right", "The same on the right."),
            number("difference", "Left minus right.", "points", -100, 100),
            *interval("the difference over identities (t)", "points", of="difference"),
            _dependence,
            *_fair("differences"),
            number("p", "Two-sided t-test of no difference.", low=0, high=1),
            _people,
            _identities,
            _reason,
        ),
    ),
    Schema(
        "paired_control_score",
        "Scores with and without contrast",
        "Stereotype score of occupations alone, beside an opposite stereotype, beside the same stereotype, beside "
        "themselves, and among three; the effect of contrast is the paired score minus each. Intervals as in "
        "paired_stereotype_score: overall the dependence of the lists is estimated beside the opposite stereotype, "
        "and taken at its largest among three. Beside the same stereotype an image counts for two identities of one "
        "list: these intervals are √(k (n - 1) / (n - k)) times as wide, with k = 2 and n identities in a list, as if "
        "each had images of its own: enough where the people of an image all fit or none does. Among three so are "
        "those of lists, with k = 5/3.",
        (
            _model,
            _setting,
            _stratum,
            number("score", "Stereotype score, mean over identities.", "points", -100, 100),
            *interval("the score over identities (t)", "points", of="score"),
            _dependence,
            *_fair("scores"),
            number("contrast", "Score in pairs of opposite stereotype minus this one.", "points", -200, 200),
            number("contrast_ci_low", "Lower limit of the contrast over identities (t).", "points", of="contrast"),
            number("contrast_ci_high", "Upper limit of the contrast over identities (t).", "points", of="contrast"),
            text("contrast_dependence", "How that interval takes people who share an image: as `dependence`."),
            _people,
            _identities,
            _reason,
        ),
    ),
    Schema(
        "paired_labour_gap",
        "Score against the gap in the labour force",
        "Line through the scores of pairs (mean of both people: 100, 0 or -100) over the gap between the labour shares "
        "of women in the two occupations, and means in fifths of the pairs by gap.",
        (
            _model,
            _setting,
            key("group", "`line`, or `fifth_1` (smallest gaps) to `fifth_5`."),
            number("gap", "Mean gap: labour share of women, female- minus male-stereotyped occupation.", "points"),
            number("score", "Mean score; the line goes through the mean score at the mean gap.", "points", -100, 100),
            number("slope", "Of the line: points of score per point of gap."),
            *interval("the slope (clustered by both occupations)", of="slope"),
            number("score_ci_low", "Lower limit of the score of a fifth (clustered by both occupations).", "points",
                of="score"),
            number("score_ci_high", "Upper limit of the score of a fifth.", "points", of="score"),
            number("p", "Of the line: two-sided test of slope 0.", low=0, high=1),
            *_fair("scores of a fifth"),
            _images,
            _reason,
        ),
    ),
    Schema(
        "paired_skin_tone",
        "Skin tone by power and stereotype",
        "Mean Monk tone of faces as they appear, and the difference between the two people of one image.",
        (
            _model,
            _aspect,
            _setting,
            key("group", "`male` and `female` stereotyped (in `power`: high and low), or `difference`: the first minus "
                "the second person of the same image."),
            number("skin_tone", "Mean Monk tone, or mean difference.", "tones"),
            *interval("the mean (clustered by both occupations; in `power` by occupation)", "tones", of="skin_tone"),
            number("p", "Of the difference: two-sided t-test with these errors.", low=0, high=1),
            _images,
            _reason,
        ),
    ),
    Schema(
        "paired_truth",
        "Gate, judge and order on people whose truth is known",
        "Held-out renders of two people.",
        (
            key("judge", "The judge of gender."),
            key("measure", "`gate` (images in which both people were found, where faces are looked for), "
                "`judged` (of people found, judged female or male), `gender` (of people judged, right), "
                "`gender_unambiguous` (the same where the cues leave no doubt), `order` (of images with two people "
                "found, order recognised), `skin_tone` (within one Monk tone of what was drawn)."),
            _percent("percent", "The share."),
            *interval("the share (Wilson)", "%", of="percent"),
            number("n", "People; images for `gate` and `order`.", low=0),
        ),
    ),
    Schema(
        "paired_questions",
        "What a judge that answers questions is asked",
        "Every question about a person of the run's images, as a question-answering judge gets it (Table 8), and how "
        "many people it is asked about.",
        (
            _model,
            _aspect,
            key("setting", "`single`, `paired` or `three`: how many people the prompt asks for."),
            key("position", "Where the prompt puts the person.", POSITIONS),
            key("question", "The question."),
            number("n", "People whom it is asked about.", "people", 0),
        ),
    ),
)  # fmt: skip
