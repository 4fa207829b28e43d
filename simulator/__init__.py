"""The virtual clock: see ARCHITECTURE.md."""
