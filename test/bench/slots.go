package main

import (
	"encoding/json"
	"fmt"
	"time"
)

// The slots that the step of that name moves a job through, and what it has in its
// volume: a tenth of that is written again in each.
const (
	slotOf   = 10 * time.Minute
	slotsOf  = 2
	slotData = 512 // MiB
)

// slots has a job move through time slots, between sites of two hosts each without a
// shared file system, with 1 Gbit/s between them, and reports which share of the time
// from its submission to its end was not computing.
func (b *bench) slots(int) error {
	site := "{name: %s, provider: local, hosts: 2, private_scratch: true, link_rate: 1gbit, slot: " + slotOf.String() + "}"
	seconds := int(slotsOf*slotOf/time.Second) + 60
	run := fmt.Sprintf(`run: |
  [ -e still ] || for i in $(seq 10); do dd if=/dev/urandom of=data$i bs=1M count=%d 2>/dev/null; done
  touch still
  n=$(cat state 2>/dev/null || echo 0)
  trap 'dd if=/dev/urandom of=data1 bs=1M count=%d 2>/dev/null; echo $n > state; exit 85' TERM
  while [ $n -lt %d ]; do sleep 1; n=$((n+1)); done
`, slotData/10, slotData/10, seconds)
	err := b.write("slots.yaml", "sites:\n  - "+fmt.Sprintf(site, "one")+"\n  - "+fmt.Sprintf(site, "two")+"\n")
	if err == nil {
		err = b.write("moves.yaml", "name: moves\nimage: docker-archive:busybox.tar\nnodes: 2\nvolume: /data\nworkdir: /data\ncheckpoint: {grace: 20s}\n"+run)
	}
	if err != nil {
		return err
	}
	if _, err := b.do(b.bee, "--sites", "slots.yaml", "run", "-q", "moves.yaml"); err != nil {
		return err
	}
	out, err := b.do(b.bee, "show", "--json", "moves")
	if err != nil {
		return err
	}
	var v struct {
		Created, Ended time.Time
		Attempts       []struct{ Phases map[string]float64 }
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		return err
	}
	if len(v.Attempts) != slotsOf+1 {
		return fmt.Errorf("it took %d attempts", len(v.Attempts))
	}
	computed := 0.0
	for _, a := range v.Attempts {
		computed += a.Phases["run"]
	}
	wall := v.Ended.Sub(v.Created).Seconds()
	b.rows = append(b.rows, [4]string{fmt.Sprintf("time not computing, of a job with %d MiB that moves through %d slots of %s and ends in a third, between sites of two hosts with 1 Gbit/s",
		slotData, slotsOf, slotOf), fmt.Sprintf("%.1f s", wall-computed), fmt.Sprintf("all of its time %.0f s", wall), fmt.Sprintf("%.3f", (wall-computed)/wall)})
	return nil
}
