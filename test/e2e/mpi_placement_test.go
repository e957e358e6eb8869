package e2e

import (
	"strings"
	"testing"
)

// placements are ways in which people place the ranks of Open MPI, each with what it prints:
// how many ranks of how many ran on which host, in which directory. The mpirun of Open MPI 5
// sometimes crashes when processes that were spawned end (open-mpi/ompi issue 12601), on any
// host: that is tried twice.
const placements = `printf '#!/bin/sh\necho "of $OMPI_COMM_WORLD_SIZE on $(hostname) in $(pwd)$X"\n' >rank
chmod +x rank
mkdir sub
on() { echo "$1:"; shift; mpirun "$@" | sort | uniq -c | sed 's/^ *//'; }
on slots ./rank
on by-node --map-by node -n 2 ./rank
on one-each -N 1 ./rank
on host --host lab-1:2 ./rank
on localhost --host localhost:2 ./rank
printf 'lab-1 slots=1\nlab-0 slots=2\n' >hosts
on hostfile --hostfile hosts ./rank
printf 'rank 0=lab-1 slot=0\nrank 1=lab-0 slot=0\n' >ranks
on rankfile -n 2 --rankfile ranks ./rank
on directory -n 1 -x X=' exported' -wdir /work/sub ../rank
on programs -n 1 --host lab-0 ./rank : -n 3 --host lab-1:4 -wdir /tmp /work/rank
printf -- '-n 2 ./rank\n-n 1 -wdir /tmp /work/rank\n' >app
on app-file --app app | sed 's/ on lab-.//'
echo oversubscribed:; mpirun --oversubscribe -n 9 ./rank | wc -l
echo files:; /usr/bin/mpirun --output-filename logs ./rank >/dev/null; find logs -name stdout | wc -l
echo at-once:; mpirun -n 2 ./rank >a & mpirun -n 2 ./rank >b & wait; cat a b | wc -l
cat >spawn.py <<'end'
import sys
from mpi4py import MPI
if len(sys.argv) > 1:
    MPI.Comm.Get_parent().gather(MPI.Get_processor_name(), root=0)
    MPI.Comm.Get_parent().Disconnect()
else:
    children = MPI.COMM_SELF.Spawn(sys.executable, ['spawn.py', 'child'], maxprocs=2)
    print('children:', len(children.gather(None, root=MPI.ROOT)))
    children.Disconnect()
end
spawn() { mpirun -n 1 python3 spawn.py >children; }
spawn || spawn
cat children`

const placed = `slots:
2 of 4 on lab-0 in /work
2 of 4 on lab-1 in /work
by-node:
1 of 2 on lab-0 in /work
1 of 2 on lab-1 in /work
one-each:
1 of 2 on lab-0 in /work
1 of 2 on lab-1 in /work
host:
2 of 2 on lab-1 in /work
localhost:
2 of 2 on lab-0 in /work
hostfile:
2 of 3 on lab-0 in /work
1 of 3 on lab-1 in /work
rankfile:
1 of 2 on lab-0 in /work
1 of 2 on lab-1 in /work
directory:
1 of 1 on lab-0 in /work/sub exported
programs:
1 of 4 on lab-0 in /work
3 of 4 on lab-1 in /tmp
app-file:
2 of 3 in /work
1 of 3 in /tmp
oversubscribed:
9
files:
4
at-once:
4
children: 2
`

// TestMPIPlacesRanks as the options of mpirun say, in the forms that people use.
func TestMPIPlacesRanks(t *testing.T) {
	for _, f := range mpiFamilies() {
		if !f.refuses { // another one's options
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			r := mpiJob{family: f, nodes: 2, ranks: 2, run: strings.ReplaceAll(placements, "\n", "\n  ")}.try(t)
			if r.Code != 0 || r.Stdout != placed {
				t.Errorf("got code %d\n%s\n%s", r.Code, r.Stdout, r.Stderr)
			}
		})
	}
}
