package e2e

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// TestManyRentedMachines: 64 machines are rented and gone again. What they take is held against two machines, and
// what is after they answer against hosts behind ssh, all on the processors of this machine.
func TestManyRentedMachines(t *testing.T) {
	testkit.Long(t, "TestMPIOnRentedMachines")
	const most = 64
	b, _ := busyboxJob(t, "run: 'true'")
	rented := rented(t, b)
	bare, farm, _ := rackWith(t, sshfarm.Start(t, most), "run: 'true'")
	job := strings.TrimSuffix(b.Read("job.yaml"), "\n")
	acquired := map[int]float64{}
	for _, n := range []int{2, 8, 32, most} {
		bare.File("sites.yaml", "sites:\n  - {name: rack, provider: ssh, hosts: ["+strings.Join(farm.Names[:n], ", ")+"], scratch: "+farm.Private+", slots: 2}\n")
		phases := map[*testkit.Bee]map[string]float64{}
		for _, here := range []*testkit.Bee{b, bare} {
			id := strings.TrimSpace(here.Must("run", "-d", here.File("many.yaml", job+"\nnodes: "+strconv.Itoa(n)+"\n")))
			v := here.Await(id, 5*time.Minute)
			if v.State != "succeeded" || len(v.Attempts) != 1 || len(v.Attempts[0].Hosts) != n {
				t.Fatalf("%d hosts: %+v\n%s", n, v, rented.Console())
			}
			phases[here] = v.Attempts[0].Phases
		}
		wantNothingRented(t, rented)
		acquired[n] = phases[b][string(core.PhaseAcquire)] + phases[b][string(core.PhaseQueue)]
		testkit.Figure(t, "%d machines answer after %.1f s; from then to the job's start %.1f s, on hosts behind ssh %.1f s", n, acquired[n], toStart(phases[b]), toStart(phases[bare]))
	}
	testkit.Figure(t, "%d machines take %.2f times as long as two", most, acquired[most]/acquired[2])
}

// toStart is how long hosts that answer take until the job starts.
func toStart(phases map[string]float64) (seconds float64) {
	for _, phase := range []core.Phase{core.PhaseStage, core.PhaseLaunch, core.PhaseJoin, core.PhaseImage, core.PhaseStart} {
		seconds += phases[string(phase)]
	}
	return seconds
}
