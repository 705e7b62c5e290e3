"""Tables that set the paradox paper's own spreads and tests beside recomputed ones."""

from biaslab.schemas.paradox import APPROACHES
from biaslab.tables import Schema, interval, key, number, text

_model = key("model", "The text-to-image model.")

SCHEMAS = (
    Schema(
        "paradox_printed_spread",
        "Spread over prompts, computed and printed",
        "The standard deviation over the four prompts of each occupation's share, computed from the shares, beside the "
        "one that the arXiv version prints (its Tables 5 and 6).",
        (
            _model,
            key("occupation", "The occupation that the prompt names."),
            number("sd_prompts", "Population standard deviation over prompts, computed.", "points", 0),
            number("printed", "As printed, to 0.1.", "points", 0),
            number("difference", "Computed minus printed.", "points"),
        ),
        images=True,
    ),
    Schema(
        "paradox_t_tests",
        "The paper's tests of no amplification",
        "The tests of sections 5.3 and 6 (footnote 11): expected amplification by the published definition against 0, "
        "at level 0.05. Where the source has shares for the approach, the test that belongs to the interval is made, "
        "with image noise taken out; what the paper says of its own plain t-test stands beside it.",
        (
            _model,
            key("approach", "How training captions were selected or prompts made.", APPROACHES),
            key("prompt", "Prompt `1` to `4`, or `captions`."),
            number("amplification", "Expected amplification over occupations.", "points"),
            *interval("the amplification", "points", of="amplification"),
            number("n_occupations", "Occupations that count.", "occupations", 0),
            number("t", "The test's statistic."),
            number("p", "Its two-sided p-value.", low=0, high=1),
            text("rejected", "Whether p is below 0.05: `yes`, `no`, or empty without a test."),
            text("printed", "Whether the paper rejects, for its own images of this model: `yes` or `no`."),
            text("reason", "Why there is no test, where there is none."),
        ),
        images=True,
    ),
)
