"""The parts of the stage model_cost: what a pass must do, whether it is right, its time."""
