"""What is checked and measured: a sequence implementation or a layer bound to a workload."""
