"""The DataNode: block files of a rack's nodes, the pipeline between them, its process."""
