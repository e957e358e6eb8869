"""Every rank tells where it is; what they compute together is checked."""
import os
import signal
import socket
import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
mode = sys.argv[1] if len(sys.argv) > 1 else "ok"
total = world.allreduce(world.rank + 1)
big = bytearray(4 << 20) if world.rank else bytearray(b"x" * (4 << 20))
world.Bcast([big, MPI.BYTE])
assert big == b"x" * (4 << 20)
hosts = world.gather(socket.gethostname())
fine = world.gather(os.environ.get("EXPORTED", "-"))
if world.rank == 0:
    print("size", world.size, "sum", total, "hosts", ",".join(sorted(set(hosts))),
          "exported", ",".join(sorted(set(fine))), flush=True)
if mode in ("exit", "abort", "kill") and world.rank == world.size - 1:
    time.sleep(1)  # until the output of rank 0 is out
if mode == "exit" and world.rank == world.size - 1:
    sys.exit(7)  # after MPI_Finalize
if mode == "abort" and world.rank == world.size - 1:
    world.Abort(7)
if mode == "kill" and world.rank == world.size - 1:
    os.kill(os.getpid(), signal.SIGKILL)
if mode in ("abort", "kill"):
    time.sleep(60)
if mode == "barrier":
    world.barrier()
if mode == "sleep":
    time.sleep(600)
