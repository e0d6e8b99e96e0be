"""Published figures of devices, and what stands in for those that nobody published."""
