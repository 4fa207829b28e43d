"""The NameNode: its pure core (core, namespace, blockmap), its journal, its process."""
