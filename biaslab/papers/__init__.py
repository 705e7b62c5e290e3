"""One package per paper, with the same modules: prompts, measure, printed, analysis, figures, findings."""
