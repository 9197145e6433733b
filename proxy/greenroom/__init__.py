"""Greenroom: a discovery-store proxy that keeps inference workers out of routing until their gates pass."""

__version__ = "0.1.0"
