"""What the stage `steady` imports."""

NUMBER = 1.0
