"""``afap`` with many open flows; nothing else uses what is in here.  Open ``scheduler`` first."""
