"""The circuit policies of networks in which circuits are links."""
