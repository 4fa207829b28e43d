"""What the author of a scheduler reads: policies, what they see, what they may decide.

Imports nothing else of the ResourceManager.  Not here: state that changes, and any scheduler.
Open ``policies`` first.
"""
