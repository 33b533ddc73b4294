"""GPT-2 and its variants: one decoder with slots, and parts that fill them."""
