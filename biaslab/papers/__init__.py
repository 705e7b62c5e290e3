"""The papers, a package each, with the same rooms: prompts, measure, printed, analysis, figures, findings."""
