"""Every operation of Headgate, declared once.

A declaration is a function without a body. Its name, arguments, result and docstring describe the operation; the
decorator adds what HTTP and permissions need. The service derives the route, the validation of requests, the OpenAPI,
the scope check and the reference pages from it; the remote client derives the request.

One file per noun: `locks.py`, … `declaring.py` defines declarations, and `arguments.py` the arguments that several
operations share. Only declarations belong here: no I/O, and no import but core's. Annotations are evaluated on first
use, so that importing a declaration is cheap.
"""
