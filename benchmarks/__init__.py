"""What is measured: each module has ``run(quick) -> rows``; ``railyard bench`` runs them."""
