"""Two ranks that talk all the time: each step needs what the other one had. With the
name of a file they also append to that by turns, and read what the other one wrote."""
import fcntl
import hashlib
import os
import sys

from mpi4py import MPI


def line(what):
    return what.hex().encode() + b"\n"


def locked(how, do):
    """Who locks a file sees what others have written to it, also while it is open."""
    fcntl.lockf(turns, how)
    try:
        return do()
    finally:
        fcntl.lockf(turns, fcntl.LOCK_UN)


comm = MPI.COMM_WORLD
other = 1 - comm.rank
own = hashlib.sha256(b"%d" % comm.rank).digest()
step = 0
turns = os.open(sys.argv[1], os.O_RDWR | os.O_APPEND | os.O_CREAT) if len(sys.argv) > 1 else None
while True:
    enough = comm.rank == 0 and step % 50 == 0 and os.path.exists("enough")
    if turns and step % 2 == comm.rank:
        locked(fcntl.LOCK_EX, lambda: os.write(turns, line(own)) and os.fsync(turns))
    far, over = comm.sendrecv((own, enough), other, source=other)
    if turns and step % 2 == other:
        found = locked(fcntl.LOCK_SH, lambda: os.pread(turns, len(line(far)), step * len(line(far))))
        if found != line(far):
            print("rank", comm.rank, "finds in line", step, found, "and not", line(far), flush=True)
            comm.Abort(1)
    if over or enough:
        break
    own = hashlib.sha256(own + far).digest()
    step += 1
    if comm.rank == 0 and step % 50 == 0:
        print(step, flush=True)
both = comm.gather(own.hex())
if comm.rank == 0:
    with open("result", "w") as f:
        print(step, *both, file=f)
