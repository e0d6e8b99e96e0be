"""A tuned config as another framework's settings, in that framework's units, with its side conditions."""
