"""What goes in: framework-neutral arrays with a content hash."""
