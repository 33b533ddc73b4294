"""Tables, figures and pages. All reports are generated from records."""
