"""What everything stands on: errors, readers of what comes from outside, declared tables, groups of settings."""
