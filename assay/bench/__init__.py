"""Instruments: how a call is made, timed, limited and judged."""
