package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// moves has a job with data in its volume go on at another site, with a burst buffer that is drained, and with a volume
// that is copied.
func (m *measurement) moves(ctx context.Context) error {
	sites := "sites:\n"
	for i, name := range []string{"one", "two"} {
		sites += fmt.Sprintf("  - {name: %s, provider: ssh, hosts: [%s], scratch: %s}\n", name, hostname(firstClient+i), m.path("scratch-"+name))
		if err := os.MkdirAll(m.path("scratch-"+name), 0o700); err != nil {
			return err
		}
	}
	far := m.path("far", "moved")
	if err := errors.Join(os.MkdirAll(far, 0o755), os.WriteFile(m.path("two.yaml"), []byte(sites), 0o644)); err != nil {
		return err
	}
	left, begun, err := move(ctx, m, "moved", fmt.Sprintf("{kind: burst, remote: 'far:%s', disk: %dM}", far, wideRoom>>20))
	if err != nil {
		return err
	}
	copiedLeft, copiedBegun, err := move(ctx, m, "copied", "/work")
	if err != nil {
		return err
	}
	what := fmt.Sprintf("a volume of %d MiB that has drained before: ", m.sizes.moved>>20)
	const against = "a volume that is copied, links of 200 Mbit/s"
	return errors.Join(
		timeRow(what+"end of the job until its hosts are released", left, against, copiedLeft),
		timeRow("the same: next site until the job runs", begun, against, copiedBegun))
}

// move moves a job once, and gives how long its first attempt needed after its command, and its second one before that.
func move(ctx context.Context, m *measurement, name, volume string) (left, begun time.Duration, err error) {
	text := fmt.Sprintf(`name: %[1]s
image: docker-archive:%[2]s
volume: %[3]s
workdir: /work
checkpoint: {grace: 60s}
mounts: [{from: %[4]s, to: /meet, write: true}]
run: |
  if [ -e data ]; then busybox touch /meet/%[1]s-again; exit 0; fi
  busybox head -c %[5]d /dev/urandom > new
  busybox mv new data
  trap 'exit 85' TERM
  busybox touch /meet/%[1]s-written
  while sleep 0.2; do :; done
`, name, m.image, volume, m.path("meet"), m.sizes.moved)
	if err := os.WriteFile(m.path(name+".yaml"), []byte(text), 0o644); err != nil {
		return 0, 0, err
	}
	bee := func(args ...string) (string, error) {
		return m.on(ctx, home, append([]string{m.bee, "--sites", m.path("two.yaml")}, args...)...)
	}
	id, err := bee("run", "-q", "-d", "--site", "one,two", name+".yaml")
	if err != nil {
		return 0, 0, err
	}
	if err := there(ctx, m.path("meet", name+"-written")); err != nil {
		return 0, 0, err
	}
	if volume != "/work" {
		if err := there(ctx, m.path("far", name, "data")); err != nil {
			return 0, 0, err
		}
	}
	for _, args := range [][]string{{"move", id, "--site", "two"}, {"wait", id}} {
		if _, err := bee(args...); err != nil {
			return 0, 0, err
		}
	}
	out, err := bee("show", "--json", id)
	if err != nil {
		return 0, 0, err
	}
	return phases([]byte(out))
}

// phases gives the times of two attempts: of the first one after its command, and of the second one before that.
func phases(raw []byte) (left, begun time.Duration, err error) {
	var v struct {
		Attempts []struct {
			Site   string
			Phases map[string]float64
		}
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return 0, 0, err
	}
	if len(v.Attempts) != 2 || v.Attempts[0].Site == v.Attempts[1].Site {
		return 0, 0, fmt.Errorf("the job has not moved once: %+v", v.Attempts)
	}
	sum := func(of map[string]float64, names ...string) (d time.Duration) {
		for _, n := range names {
			d += time.Duration(of[n] * float64(time.Second))
		}
		return d
	}
	return sum(v.Attempts[0].Phases, "drain", "checkpoint", "collect", "release"), sum(v.Attempts[1].Phases, "acquire", "stage", "launch", "join", "image", "start"), nil
}
