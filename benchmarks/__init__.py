"""What Railyard measures of itself: ``scripts/bench NAME`` runs the ``run`` of a file here."""
