"""The control API from Python: for programs that write gates, and for the command line.

naming      what callers call the things that errors are about
place       where the API is asked: address, files, token
refusals    errors in words; tls_words: those of connections
calls       the API's calls, as they are
"""
