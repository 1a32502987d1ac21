"""Every operation of Headgate, declared once.

A declaration is a function without a body. Its name, arguments, result and docstring are the operation's; the decorator
adds what HTTP and permissions need. The service derives from it the route, the checks of a request, the OpenAPI, the
scope check and the pages of the reference; the remote client derives the request that it sends.

One file a noun: `locks.py`, … `declaring.py` defines what a declaration is, `arguments.py` the arguments that several
operations share. Only declarations belong here: no I/O, and no import but core's. Annotations are read when they are
first needed, so that importing a declaration costs little.
"""
