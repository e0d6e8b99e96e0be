"""The contract between the layers: what a measurement, a plan, a probe and a tuned config are."""
