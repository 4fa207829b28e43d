"""Commands for the cluster that is up: starting, stopping, looking at it, its files and links."""
