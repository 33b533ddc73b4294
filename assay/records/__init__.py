"""The only thing that crosses from measuring to telling."""
