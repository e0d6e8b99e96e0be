"""Data parallelism: a process a rank, gradients reduced in buckets while backward runs."""
