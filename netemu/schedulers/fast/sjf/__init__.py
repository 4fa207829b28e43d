"""``sjf``, compiled; nothing else uses what is in here.  Open ``scheduler.py`` first."""
