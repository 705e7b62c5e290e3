"""Plans and checks of a run before its work: models, images, costs and inputs, for the tables of all papers."""
