"""Attempts as processes: whose children they are, how they end, what is told of it."""

import os

