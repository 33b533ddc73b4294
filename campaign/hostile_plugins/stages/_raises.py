"""Code that cannot be imported."""

raise RuntimeError("this plugin raises when it is imported")
