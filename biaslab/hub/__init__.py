"""Names of models and what is behind them: folders, the hub, installed packages; what a source of images is."""
