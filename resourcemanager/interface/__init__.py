"""What the author of a scheduler reads: the policies, what they see, and how they make a scheduler.

Imports nothing else of the ResourceManager.  Not here: state that changes, and any scheduler.
Open ``policies`` first, then ``views`` and ``recipe``, and ``forecast`` for schedulers that plan
ahead; ``defaults`` are the policies of a recipe that names none of its own.
"""
