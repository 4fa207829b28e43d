"""``afap`` with many open flows.  Open ``scheduler`` first."""
