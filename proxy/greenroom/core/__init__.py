"""What is held, and what is done about it: pure functions over etcd's own messages.

Nothing here does I/O, reads a clock or logs: time is an argument, and what should be sent to etcd is returned.

The words, as they are used everywhere: an *instance* is one worker, named by its lease; a *gated key* must not be
public before its instance is *released*; a *shadow* carries it meanwhile; the *record* is the instance's state; the
*fence* is the compare on the record that every dependent write carries.
"""
