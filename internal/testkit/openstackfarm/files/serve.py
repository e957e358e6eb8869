"""Serves a WSGI application: MODULE PORT."""

import importlib
import sys

import waitress

module, port = sys.argv[1], int(sys.argv[2])
sys.argv = ["wsgi"]  # the services read it
waitress.serve(importlib.import_module(module).application, host="127.0.0.1", port=port, threads=8, _quiet=True)
