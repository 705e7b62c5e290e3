"""What a run takes and checks before its work: models, images, costs and inputs, for the tables of all papers."""
