"""Tables of the Paired Stereotype Test: people shown alone and in pairs, and what mitigates bias."""

from biaslab.tables import Column, Schema, interval, key, number, text

SETTINGS = ("single", "paired", "paired_top5", "intervention", "intervention_top5", "faircritic")
ASPECTS = ("occupation", "power")

_model = key("model", "The text-to-image model.")
_aspect = key("aspect", "`occupation` (paper 3.1.1) or `power`: high- and low-power roles (paper 3.1.2).")
_setting = key(
    "setting",
    "`single` (one person), `paired` (two people, the Paired Stereotype Test), `faircritic` or "
    "`intervention` (paired, mitigated); "
    "`_top5`: pairs among the five most biased occupations of each list only.",
)
_identity = key("identity", "The social identity a prompt names: an occupation, or an occupation and a role.")
_occupation = text("occupation", "The occupation in the identity.")
_listed = text(
    "stereotype",
    "`female` or `male`: which gender the identity is stereotyped as (in `power`: low power `female`, high "
    "power `male`).",
)
_stratum = key(
    "stereotype", "`female` or `male` stereotyped identities, or `overall`: both with equal weight."
)
_reason = text("reason", "Why a value or limit is missing, where one is.")
_people = number("n", "People judged female or male.", "people", 0)
_identities = number("n_identities", "Identities with a value.", "identities", 0)


def _score(name: str, what: str):
    return number(name, what, "points", -100, 100)


def _percent(name: str, what: str):
    return number(name, what, "%", 0, 100)


def _p(name: str, what: str):
    return number(name, what, low=0, high=1)


DEPENDENCE = (
    "How the interval takes people who share an image: `estimated` from images, `worst case` (the largest error that "
    "any dependence could cause, where only shares per identity are known), `within occupations` (whose two roles are "
    "taken together), `partners fixed` (of one list), `none assumed` (taken as independent), or `none` where nobody "
    "shares one; empty without an interval."
)
_dependence = text("dependence", DEPENDENCE)
_tested = (
    number("t", "Statistic of the t-test against 0 over identities."),
    _p("p", "Its two-sided p-value."),
)


def _direction(name: str, by: str):
    said = "`towards stereotypes`, `against stereotypes` or `no difference shown`"
    return text(name, f"{said}, by the {by}.")


_attainable = (
    _p("smallest_p_holm", "The same after Holm's correction, if all identities had theirs."),
    _p("smallest_p_bh", "The same after Benjamini and Hochberg's."),
)
_identity_score = (
    _model,
    _aspect,
    _setting,
    _identity,
    _occupation,
    _listed,
    _percent("percent_female", "Share of people perceived as female."),
    _score("score", "Stereotype score (paper 3.2.3): 100 if everyone fits the stereotype, -100 if nobody."),
    *interval("the score (exact, Clopper-Pearson)", "points", of="score"),
    _people,
    _score("fair_low", "Lower end of the scores that a fair model shows at this n."),
    _score("fair_high", "Upper end of the scores that a fair model shows at this n."),
    _p("p", "Two-sided exact binomial test of an equal share of women and men."),
    _p("p_holm", "p corrected for the number of identities (Holm)."),
    _p("p_bh", "p corrected for the number of identities (Benjamini and Hochberg)."),
    _p("smallest_p", "Smallest p that n people can give."),
    *_attainable,
    _reason,
)
_identity_score_about = (
    "Interval, the band of scores of a fair model and tests corrected for the number of identities of the "
    "same model and setting. Counts are the nearest whole number of people behind the percentage."
)

SCHEMAS = (
    Schema(
        "paired_percent_female",
        "Share of people perceived as female",
        "Measured input: one row per model, aspect, setting and identity. Counted in a run's own images; of the "
        "paper's model from the published per-identity scores (tables 11 and 13), where n follows from the design "
        "(3 single images; 20 partners in 2 orders; 3 runs in 2 orders). `paired_top5` counts again, of the images "
        "of `paired`, those between two of the ten occupations.",
        (
            _model,
            _aspect,
            _setting,
            _identity,
            _occupation,
            _listed,
            _percent("percent_female", "Share of people perceived as female."),
            _people,
            _reason,
        ),
    ),
    Schema(
        "paired_labour_share",
        "Women in the labour force",
        "Reference: share of women per occupation as the paper prints it (table 11).",
        (
            key("occupation", "The occupation."),
            _percent("percent_female", "Share of women among people employed in it."),
            _reason,
        ),
    ),
    Schema(
        "paired_run_score",
        "Overall stereotype score of each run",
        "Measured input: overall score of each independent sampling of images (table 10).",
        (
            _model,
            _aspect,
            _setting,
            key("run", "The sampling."),
            _score("score", "Overall stereotype score."),
            number("n", "People in one run: counted, or from the design of the paper.", "people", 0),
        ),
    ),
    Schema(
        "paired_printed_value",
        "Printed results without measurements behind them",
        "Aggregates and statements that the paper prints, kept apart from what is computed (tables 1 and 2, "
        "abstract, section 4.6).",
        (
            _model,
            _aspect,
            _setting,
            _stratum,
            key(
                "quantity",
                "`stereotype_score`, `percent_biased_images`, `percent_of_amplified` or "
                "`percent_of_reduced` cases.",
            ),
            number("value", "The printed number, in points or %."),
            text("place", "Where it is printed."),
        ),
    ),
    Schema(
        "paired_pair_images",
        "Perceived gender of both people of an image",
        "Measured input that the published numbers do not have: one row per image of two people, of FairCritic "
        "the last round's. Where it names their identities, how far people of one image depend on each other is "
        "estimated; then it must count the same people as paired_percent_female.",
        (
            _model,
            _aspect,
            _setting,
            key("image_id", "The image."),
            text("male_label", "Perceived gender of the person with the male-stereotyped identity."),
            text("female_label", "Perceived gender of the person with the female-stereotyped identity."),
            Column("male_identity", "The male-stereotyped identity.", text=True, optional=True),
            Column("female_identity", "The female-stereotyped identity.", text=True, optional=True),
            Column(
                "female_position",
                "`left` or `right`: where the latter is asked for.",
                text=True,
                optional=True,
            ),
        ),
    ),
    Schema(
        "paired_stereotype_score",
        "Stereotype score",
        "Mean over identities. `ci_low` to `ci_high` takes identities as drawn from a population of them: of a "
        "list with the partners fixed, overall with both lists drawn. How two people who share an image depend on "
        "each other is estimated where images were counted; `dependence` says so. `images_ci_low` to "
        "`images_ci_high` keeps the identities and redraws their images.",
        (
            _model,
            _aspect,
            _setting,
            _stratum,
            _score("score", "Stereotype score, mean over identities."),
            *interval("the score over identities (t)", "points", of="score"),
            _people,
            _identities,
            number("images_ci_low", "Lower limit over images, identities fixed.", "points", of="score"),
            number("images_ci_high", "Upper limit over images, identities fixed.", "points", of="score"),
            _dependence,
            text("images_dependence", "The same of the interval over images."),
            *_tested,
            _score("printed", "The paper's own figure for this model, where it prints one."),
            text("evidence", "`computed` from shares per identity, or `printed`."),
            _reason,
        ),
    ),
    Schema(
        "paired_occupation_score",
        "Stereotype score of each occupation",
        _identity_score_about,
        _identity_score,
    ),
    Schema(
        "paired_power_score", "Stereotype score of each power role", _identity_score_about, _identity_score
    ),
    Schema(
        "paired_absolute_score",
        "Mean size of the stereotype score",
        "Mean absolute score over identities as it is, as a fair model would show it at the same n, and "
        "corrected for that floor. Roles of one occupation are averaged first.",
        (
            _model,
            _aspect,
            _setting,
            number("mean_absolute_score", "Mean absolute score over identities.", "points", 0, 100),
            number("floor", "The same for a fair model at the same n.", "points", 0, 100),
            number("corrected", "Mean without that floor; not bounded by 0 and 100.", "points"),
            number("corrected_floor", "What the correction leaves of the floor: its mean for a fair model."),
            *interval(
                "the corrected mean over identities (t; overall rule of paired_stereotype_score)",
                "points",
                of="corrected",
            ),
            _people,
            _identities,
            _dependence,
            number("n_significant_holm", "Identities whose score differs from 0 after Holm's correction."),
            number("n_significant_bh", "The same after Benjamini and Hochberg's."),
            _p(
                "smallest_p_holm",
                "Smallest p after Holm's correction that any identity could have at these n.",
            ),
            _p("smallest_p_bh", "The same after Benjamini and Hochberg's."),
            _reason,
        ),
    ),
    Schema(
        "paired_lean",
        "Share perceived as female, by list",
        "Mean over identities of each list and over both. Overall score = female list minus male list; the "
        "overall row is the lean towards one gender whatever the identity. Where images were not counted, its "
        "interval takes disjoint lists as independent: too wide where images show one woman and one man, too narrow "
        "where they show one gender twice.",
        (
            _model,
            _aspect,
            _setting,
            _stratum,
            _percent("percent_female", "Share of people perceived as female, mean over identities."),
            *interval("the share over identities (t)", "%", of="percent_female"),
            _people,
            _identities,
            _dependence,
            text("evidence", "`computed` from shares per identity, or `printed` scores turned into shares."),
            _reason,
        ),
    ),
    Schema(
        "paired_biased_images",
        "Images that fit stereotypes",
        "Share of images in which both people, or at least one, fit the stereotype. Where only shares per "
        "identity are known, the two limits that these allow (Fréchet bounds); no sampling error in them.",
        (
            _model,
            _aspect,
            _setting,
            key("measure", "`person` (one-person images), `both` or `any` of two people."),
            _percent("percent", "Share of images, where images were counted."),
            *interval(
                "the share over identities (t for `person`, else Wilson's at the effective size)",
                "%",
                of="percent",
            ),
            _dependence,
            _percent("lowest", "Smallest share that the shares per identity allow."),
            _percent("highest", "Largest share that they allow."),
            number("n", "Images.", "images", 0),
            text("evidence", "`counted` or `bounds`."),
            _reason,
        ),
    ),
    Schema(
        "paired_labour_comparison",
        "Generated shares and labour shares",
        "Share perceived as female in generated images beside the labour share, for each occupation. "
        "Positive amplification is further from 50 % than the labour share (paradox 3.3, with labour for "
        "training share).",
        (
            _model,
            _setting,
            key("occupation", "The occupation."),
            _listed,
            _percent("percent_female", "Share perceived as female in generated images."),
            *interval("that share (Wilson)", "%", of="percent_female"),
            _people,
            _percent("percent_female_labour", "Share of women in the labour force."),
            number("amplification", "|G-50| - |L-50|.", "points", -50, 50),
            number("directional", "Change along the lean of the labour share.", "points", -100, 50),
            number(
                "floor",
                "The amplification that sampling alone gives a model that draws exactly the labour share.",
                "points",
                -50,
                50,
            ),
            text("exclusion", "Why the published definition leaves the occupation out, if it does."),
            _reason,
        ),
    ),
    Schema(
        "paired_labour_correlation",
        "Correlation of generated with labour shares",
        "Pearson's r over occupations, with Fisher's interval: all, and within each list.",
        (
            _model,
            _setting,
            _stratum,
            number("r", "Pearson's correlation.", low=-1, high=1),
            *interval("r", of="r"),
            _p("p", "Two-sided p-value."),
            number("n", "Occupations with both shares.", "occupations", 0),
            _reason,
        ),
    ),
    Schema(
        "paired_labour_amplification",
        "Amplification against labour shares",
        "Mean over occupations by the three definitions of the paradox paper, labour share in the place of "
        "the training share, and without what image noise adds.",
        (
            _model,
            _setting,
            key("definition", "`published`, `no_exclusion` or `directional`."),
            number("amplification", "Mean amplification, corrected for image noise.", "points"),
            *interval(
                "the amplification over occupations and images (hierarchical bootstrap)",
                "points",
                of="amplification",
            ),
            number("uncorrected", "The mean of the observed shares, image noise in it.", "points"),
            number("n_occupations", "Occupations that count.", "occupations", 0),
            number("n_excluded", "Occupations left out, missing ones among them.", "occupations", 0),
            _reason,
        ),
    ),
    Schema(
        "paired_score_change",
        "Change of the stereotype score from one person to two",
        "Mean change over the identities measured in both settings; positive is amplification. Intervals and their "
        "`dependence` as in paired_stereotype_score.",
        (
            _model,
            _aspect,
            _setting,
            _stratum,
            number("change", "Score in this setting minus score with one person.", "points", -200, 200),
            *interval("the change over identities (t)", "points", of="change"),
            _identities,
            _people,
            _dependence,
            *_tested,
            _reason,
        ),
    ),
    Schema(
        "paired_identity_change",
        "Change of each identity's score from one person to two",
        "Tables 12 and 13, with intervals: positive is amplification.",
        (
            _model,
            _aspect,
            _setting,
            _identity,
            _occupation,
            _listed,
            _score("score_single", "Score with one person."),
            _score("score", "Score in this setting."),
            number("change", "Their difference.", "points", -200, 200),
            *interval("the change (Newcombe)", "points", of="change"),
            number("n_single", "People judged with one person.", "people", 0),
            _people,
            _p("p", "Fisher's exact test of equal shares."),
            _p("p_holm", "p corrected for the number of identities (Holm)."),
            _p("p_bh", "p corrected for the number of identities (Benjamini and Hochberg)."),
            _p("smallest_p", "Smallest p that so many people in both settings can give."),
            *_attainable,
            _reason,
        ),
    ),
    Schema(
        "paired_adherence",
        "People who fit their stereotype",
        "Share of people who fit, by list, and how all who fit divide between the lists (figure 4). Disjoint "
        "lists are drawn independently: too wide where images show one woman and one man.",
        (
            _model,
            _aspect,
            _setting,
            _stratum,
            _percent("percent_adhering", "Share of the list's people who fit its stereotype."),
            _percent("percent_of_adhering", "Share of all who fit that is in this list."),
            *interval("the share of all who fit (bootstrap over identities)", "%", of="percent_of_adhering"),
            _people,
            _identities,
            _reason,
        ),
    ),
    Schema(
        "paired_changed_cases",
        "Cases of amplified and reduced bias",
        "How identities with a higher or a lower score than with one person divide between the lists, "
        "counted and weighted by points (figure 5).",
        (
            _model,
            _aspect,
            _setting,
            key("direction", "`amplified`, `reduced` or `unchanged`."),
            key("stereotype", "`female` or `male` stereotyped identities."),
            number("n_cases", "Identities.", "identities", 0),
            _percent("percent_of_cases", "Share of all identities that moved this way."),
            *interval("the share of cases (Wilson)", "%", of="percent_of_cases"),
            number("points", "Sum of their changes.", "points"),
            _percent("percent_of_points", "Share of all points moved this way."),
            _percent("printed", "The share that the paper states."),
            number("n", "Identities that moved this way, both lists.", "identities", 0),
            _reason,
        ),
    ),
    Schema(
        "paired_role_coupling",
        "How far one role's score fixes the other's",
        "High- and low-power role of the same occupation. If every image of two shows one woman and one man, "
        "the two scores are equal. The difference of the two is 4 × (50 - share perceived as female over both), "
        "by algebra: it restates the lean.",
        (
            _model,
            _setting,
            number("n_same_score", "Occupations whose two roles have the same score.", "occupations", 0),
            number("n", "Occupations with both roles.", "occupations", 0),
            number("r", "Pearson's correlation of the two scores.", low=-1, high=1),
            *interval("r", of="r"),
            _p("p", "Two-sided p-value."),
            number(
                "n_images",
                "Images of both roles together; where they were counted, both judged.",
                "images",
                0,
            ),
            number(
                "fewest_same_gender",
                "Smallest number of images that must show two people of one perceived gender; where images were not "
                "counted.",
                "images",
                0,
            ),
            number("same_gender", "Images that show two people of one perceived gender.", "images", 0),
            _percent("percent_same_gender", "Their share."),
            number(
                "percent_same_gender_ci_low",
                "Lower limit of the share over occupations (Wilson's at the effective size).",
                "%",
                of="percent_same_gender",
            ),
            number("percent_same_gender_ci_high", "Upper limit of the share.", "%", of="percent_same_gender"),
            number(
                "percent_same_gender_chance",
                "The share if the two people of an image were independent, each with the share of women of their "
                "identity on that side of the image. An estimate without bias, which may leave 0 to 100.",
                "%",
            ),
            number("same_gender_excess", "Share minus that by chance.", "points"),
            number(
                "same_gender_excess_ci_low",
                "Lower limit of the excess over occupations (t).",
                "points",
                of="same_gender_excess",
            ),
            number(
                "same_gender_excess_ci_high", "Upper limit of the excess.", "points", of="same_gender_excess"
            ),
            _p("same_gender_excess_p", "t-test of no excess over occupations."),
            text("same_gender_reason", "Why a share has no interval or there is no chance to compare with."),
            number("difference", "Mean score of high-power minus low-power roles.", "points", -200, 200),
            number("difference_ci_low", "Lower limit of its interval (t).", "points", of="difference"),
            number("difference_ci_high", "Upper limit of its interval (t).", "points", of="difference"),
            _p("difference_p", "t-test of no difference over occupations."),
            _percent("percent_female", "Share perceived as female over both roles."),
            number(
                "percent_female_ci_low",
                "Lower limit of its interval (t over occupations).",
                "%",
                of="percent_female",
            ),
            number(
                "percent_female_ci_high",
                "Upper limit of its interval (t over occupations).",
                "%",
                of="percent_female",
            ),
            _reason,
        ),
    ),
    Schema(
        "paired_mitigation",
        "Scores before and after mitigation",
        "Overall and by list. For printed scores without n, the margin that the unmitigated number of people would "
        "give (two people of an image fully dependent).",
        (
            _model,
            _aspect,
            key("scope", "`all` identities, or pairs among the `top5` of each list."),
            key("mitigation", "`none`, `intervention` or `faircritic`."),
            _stratum,
            _score("score", "Stereotype score."),
            *interval("the score", "points", of="score"),
            _dependence,
            number("n", "People, where known.", "people", 0),
            number(
                "margin",
                "Half-width over images if n were the unmitigated n; where n is not known.",
                "points",
                0,
            ),
            _direction("direction", "interval, or where there is none the sign of the score"),
            text("evidence", "`computed` from shares per identity, or `printed`."),
            _reason,
        ),
    ),
    Schema(
        "paired_identity_mitigation",
        "Each identity with and without mitigation",
        "Scores in mitigated pairs beside those in the same pairs without mitigation. An identity that was extreme "
        "by chance is less so in new images even without mitigation.",
        (
            _model,
            _aspect,
            key("scope", "`all` identities, or pairs among the `top5` of each list."),
            key("mitigation", "`intervention` or `faircritic`."),
            _identity,
            _occupation,
            _listed,
            _score("score_before", "Stereotype score without mitigation."),
            _score("score", "Stereotype score with mitigation."),
            *interval("the score with mitigation (exact)", "points", of="score"),
            number("change", "With minus without mitigation.", "points", -200, 200),
            number("n_before", "People judged without mitigation.", "people", 0),
            _people,
            _score("fair_low", "Lower end of the scores that a fair model shows at this n."),
            _score("fair_high", "Upper end of the scores that a fair model shows at this n."),
            _direction("direction_before", "exact test without mitigation after Holm's correction"),
            _direction("direction", "exact test with mitigation after Holm's correction"),
            _p(
                "smallest_p_holm_before",
                "Smallest p after Holm's correction that n people can give without mitigation.",
            ),
            _p("smallest_p_holm", "The same with mitigation."),
        ),
    ),
    Schema(
        "paired_mitigation_change",
        "Change of the score by mitigation",
        "Mean change over identities from unmitigated to mitigated pairs, and how many identities lean which way "
        "after correction for the number of tests. Intervals and their `dependence` as in paired_stereotype_score. For "
        "the top 5, part of the change is that they were chosen for their scores in the same images.",
        (
            _model,
            _aspect,
            key("scope", "`all` identities, or pairs among the `top5` of each list."),
            key("mitigation", "`intervention` or `faircritic`."),
            _stratum,
            number("change", "Score with minus score without mitigation.", "points", -200, 200),
            *interval("the change over identities (t)", "points", of="change"),
            _dependence,
            _p(
                "smallest_p_holm_before",
                "Smallest p after Holm's correction that any identity could have without it.",
            ),
            _p("smallest_p_holm", "The same with it."),
            number(
                "n_towards_before", "Identities that lean towards stereotypes without it.", "identities", 0
            ),
            number(
                "n_against_before", "Identities that lean against stereotypes without it.", "identities", 0
            ),
            number("n_towards", "Identities that lean towards stereotypes with it.", "identities", 0),
            number(
                "n_against",
                "Identities that lean against stereotypes with it: over-corrected.",
                "identities",
                0,
            ),
            _identities,
            _people,
            _reason,
        ),
    ),
    Schema(
        "paired_told",
        "What mitigated prompts tell",
        "How many prompts tell the person of each list a gender, add other words, or nothing; and how many of those "
        "people look as told.",
        (
            _model,
            _aspect,
            key("setting", "`faircritic` or `intervention`."),
            key("round", "FairCritic's round, from `1`; `0` for the intervention."),
            key("stereotype", "`female` or `male` stereotyped identities."),
            key(
                "told",
                "`female`, `male`, `other words` (a sentence that tells the person no gender) or `nothing`.",
            ),
            number("n_prompts", "Prompts that tell this.", "prompts", 0),
            _percent("percent", "Share of all prompts of the aspect and setting."),
            _percent("percent_female", "Share of these people perceived as female."),
            *interval("that share (Wilson)", "%", of="percent_female"),
            _people,
            _reason,
        ),
    ),
    Schema(
        "paired_judge_agreement",
        "Agreement of judges",
        "Agreement among annotators and of automated judges with annotators, as printed (tables 7 and 9); in a run, of "
        "its judges with what is known.",
        (
            _model,
            key("aspect", "`occupation`, `power`, or `average` of both."),
            _setting,
            key("judge", "`annotators`, `vqa` (BLIP), `fairface`, or the name of a run's judge."),
            key(
                "reference",
                "What the judge is compared with: `annotators` (of themselves: among one another), with its name "
                "where there are several files; `truth` of held-out renders, `truth of drawings` where the judge "
                "was made for photographs; or another judge.",
            ),
            key("statistic", "`fleiss_kappa` or `cohen_kappa`."),
            number("value", "The statistic: 1 is full agreement, 0 is chance.", low=-1, high=1),
            *interval("the statistic", of="value"),
            Column("n", "People that the statistic rests on, where known.", "people", low=0, optional=True),
            number("n_raters", "Raters.", "raters", 0),
            _reason,
        ),
    ),
    Schema(
        "paired_judge_attenuation",
        "What an automated judge would see",
        "Overall score that a judge of this kappa would report if its errors hit women and men, and all "
        "identities, equally often; for the printed kappas.",
        (
            _model,
            _aspect,
            _setting,
            key("judge", "`vqa` (BLIP) or `fairface`."),
            number("kappa", "Cohen's kappa with annotators.", low=-1, high=1),
            _percent("percent_wrong", "Share of people judged wrongly at that kappa."),
            _score("score", "Overall score by annotators."),
            _score("score_seen", "Overall score that this judge would report."),
            _people,
            _reason,
        ),
    ),
)
