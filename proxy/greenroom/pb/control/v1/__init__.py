"""Generated from protos/ by scripts/generate_protos.py; edit the protos instead."""
