"""Two ranks that talk all the time: each step needs what the other one had."""
import hashlib
import os

from mpi4py import MPI

comm = MPI.COMM_WORLD
other = 1 - comm.rank
own = hashlib.sha256(b"%d" % comm.rank).digest()
step = 0
while True:
    enough = comm.rank == 0 and step % 50 == 0 and os.path.exists("enough")
    far, over = comm.sendrecv((own, enough), other, source=other)
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
