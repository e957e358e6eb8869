"""Neighbours on one host read each other's memory, as CMA does."""
import ctypes
import os
import socket
import sys

from mpi4py import MPI

PR_SET_PTRACER, PR_SET_PTRACER_ANY = 0x59616D61, ctypes.c_ulong(-1)


class iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)
world = MPI.COMM_WORLD
text = ctypes.create_string_buffer(b"rank %06d" % world.rank)
all_ = world.allgather((socket.gethostname(), os.getpid(), ctypes.addressof(text)))
neighbours = 0
for rank, (host, pid, address) in enumerate(all_):
    if host == socket.gethostname() and rank != world.rank:
        got = ctypes.create_string_buffer(11)
        here, there = iovec(ctypes.addressof(got), 11), iovec(address, 11)
        n = libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        if n != 11 or got.raw != b"rank %06d" % rank:
            print("rank", world.rank, "cannot read rank", rank, os.strerror(ctypes.get_errno()), file=sys.stderr)
            world.Abort(1)
        neighbours += 1
everyone = world.reduce(neighbours)
if world.rank == 0:
    print("read", everyone)
