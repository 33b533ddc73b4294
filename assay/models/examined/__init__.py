"""A model as the gates examine it: how it is made, woken, called, trained and decoded."""
