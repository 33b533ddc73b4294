"""Parts of the stage model_cost: the machine's ceilings, and predictions from counted work."""
