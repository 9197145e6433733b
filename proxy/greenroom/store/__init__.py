"""Towards etcd: the channel, fenced execution of plans, the mirror and what it drives.

Nothing here is an authority: whatever depends on an instance's state is written by a Txn that compares it.
"""
