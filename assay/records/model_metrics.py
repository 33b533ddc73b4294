"""What the stage for models records beside its gates: names that it and those who tell share."""

MODELS = "models"  # the stage; its other metrics are gates, one record for each model and gate
PARAMETERS = "parameters"
CACHE_BYTES = "cache_bytes_per_token"
SECONDS = "examination_s"
