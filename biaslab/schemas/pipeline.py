"""Tables about the pipeline itself: what it was told to do."""

from biaslab.tables import Schema, key, text

SCHEMAS = (
    Schema(
        "pipeline_settings",
        "What the pipeline was told to do",
        "One row per model and setting, with its value: captions, models, guidance, steps, gate and judge.",
        (
            key("model", "The text-to-image model."),
            key("setting", "Name of the setting."),
            text("value", "Its value, as in a parameters file."),
            text("description", "What it decides."),
        ),
    ),
)
