"""Machines of the tests, for Nova and Neutron."""
