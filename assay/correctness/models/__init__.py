"""Gates for models, and what builds, perturbs and calls the models that they examine."""
