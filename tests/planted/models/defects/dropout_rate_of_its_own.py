"""A GPT-2 with dropout of 0.1 in its MLP, in training alone.

Re-enacts a default that nobody overrides: dropout=0 in the configuration changes nothing.
"""

BASE = "dropout_of_config"
REPLACE = {
    "FeedForward(config, dropout=config.dropout)": "FeedForward(config)",
}
PLANTED = "dropout at a rate that the configuration does not set"
CAUGHT_BY = ("modes",)
CAUSE = ("train",)
