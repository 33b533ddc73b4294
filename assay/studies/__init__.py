"""From a defconfig to records: settings, plan, execution."""
