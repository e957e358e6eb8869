package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// job is a run on all hosts of the lab, with a burst buffer whose I/O process is on a host without a client.
type job struct {
	*lab
	name, id string
	// far is the directory of this machine in which the remote's files are.
	far   string
	plans int
}

// start starts a job. volume are the keys of its volume beside the kind.
func (l *lab) start(ctx context.Context, name, far, volume string) (*job, error) {
	j := &job{lab: l, name: name, far: far}
	text := fmt.Sprintf("name: %s\nimage: docker-archive:%s\nnodes: %d\nvolume: {kind: burst, %s}\nworkdir: /work\nmounts: [{from: %s, to: /tool}, {from: %s, to: /meet, write: true}]\nrun: 'until [ -e /tool/end-%s ]; do sleep 0.5; done'\n",
		name, l.image, 1+clients, volume, l.path("tool"), l.path("meet"), name)
	if err := errors.Join(os.MkdirAll(far, 0o755), os.WriteFile(l.path(name+".yaml"), []byte(text), 0o644)); err != nil {
		return nil, err
	}
	out, err := l.on(ctx, home, l.bee, "run", "-q", "-d", name+".yaml")
	if err != nil {
		return nil, err
	}
	j.id = strings.TrimSpace(out)
	for node := range 1 + clients {
		deadline := time.Now().Add(2 * time.Minute)
		for {
			out, err := j.exec(ctx, node, "true")
			if err == nil {
				break
			}
			var view struct{ State string }
			shown, serr := l.on(ctx, home, l.bee, "show", "--json", j.id)
			if serr == nil {
				serr = json.Unmarshal([]byte(shown), &view)
			}
			if serr != nil || time.Now().After(deadline) || view.State == "failed" {
				logs, _ := l.on(ctx, home, l.bee, "show", j.id) // "" shows nothing
				return nil, errors.Join(err, serr, errors.New(out+logs))
			}
			if err := core.Sleep(ctx, 200*time.Millisecond); err != nil {
				return nil, err
			}
		}
	}
	return j, nil
}

// exec runs a command in the container of a node. Clients are the nodes from 1 on.
func (j *job) exec(ctx context.Context, node int, argv ...string) (string, error) {
	return j.on(ctx, home, append([]string{j.bee, "exec", "--node", fmt.Sprint(node), j.id, "--"}, argv...)...)
}

// tool runs one of this program's tools in the container of a node, and reads what it prints.
func (j *job) tool(ctx context.Context, node int, result any, args ...string) error {
	out, err := j.exec(ctx, node, append([]string{"/tool/burst", toolArg}, args...)...)
	if err == nil {
		err = json.Unmarshal([]byte(out), result)
	}
	return err
}

// end ends the job, once everything is drained.
func (j *job) end(ctx context.Context) error {
	if err := os.WriteFile(j.path("tool", "end-"+j.name), nil, 0o644); err != nil {
		return err
	}
	_, err := j.on(ctx, home, j.bee, "wait", j.id)
	return err
}

// done is what came of a plan.
type done struct {
	begun   time.Time // of the first phase
	ended   time.Time // of the last one
	waited  time.Duration
	drained time.Time // when the remote had all that was written
}

// carryOut has clients carry a plan out, and waits until the remote has what they wrote.
func (j *job) carryOut(ctx context.Context, p plan) (done, error) {
	j.plans++
	base := fmt.Sprintf("%s-%d.json", j.name, j.plans)
	const ahead = 5 * time.Second // in which all clients have read the plan
	p.At = time.Now().Add(ahead)
	raw, err := json.Marshal(p)
	if err == nil {
		err = os.WriteFile(j.path("meet", base), raw, 0o644)
	}
	if err != nil {
		return done{}, err
	}
	spans, errs := make([][]span, p.Clients), make([]error, p.Clients)
	var all sync.WaitGroup
	together, fail := context.WithCancel(ctx) // the others would wait for one that has failed
	defer fail()
	for i := range p.Clients {
		all.Go(func() {
			if errs[i] = j.tool(together, 1+i, &spans[i], "work", "/meet/"+base, fmt.Sprint(i)); errs[i] != nil {
				fail()
			}
		})
	}
	var wanted []string
	for _, f := range p.Phases {
		wanted = append(wanted, f.Write...)
	}
	drained := make(chan time.Time, 1)
	watch, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer close(drained)
		if at, err := j.drained(watch, wanted, p.Size); err == nil {
			drained <- at
		}
	}()
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return done{}, err
	}
	d := summary(p, spans)
	select {
	case at, is := <-drained:
		if is {
			d.drained = at
			return d, nil
		}
	case <-time.After(20 * time.Minute):
	}
	return done{}, errors.Join(ctx.Err(), errors.New("the remote lacks something"))
}

// summary adds the phases of all clients up.
func summary(p plan, spans [][]span) done {
	d := done{begun: p.At, drained: p.At}
	for i := range p.Phases {
		begun, ended := spans[0][i].Begun, time.Time{}
		for _, of := range spans {
			if of[i].Ended.After(ended) {
				ended = of[i].Ended
			}
		}
		d.waited += ended.Sub(begun)
		d.ended = ended
	}
	return d
}

// drained waits until the remote has files of a size, and gives when it had the last one.
func (j *job) drained(ctx context.Context, names []string, size int64) (at time.Time, err error) {
	for i := 0; i < len(names); {
		info, err := os.Stat(filepath.Join(j.far, strings.TrimPrefix(names[i], "/work/")))
		if err == nil && info.Size() == size {
			i++
			continue
		}
		if err := core.Sleep(ctx, 10*time.Millisecond); err != nil {
			return at, err
		}
	}
	return time.Now(), ctx.Err()
}

// there waits until a file is there, for some minutes at most.
func there(ctx context.Context, name string) error {
	deadline := time.Now().Add(10 * time.Minute)
	for {
		if _, err := os.Stat(name); err == nil || time.Now().After(deadline) {
			return err
		}
		if err := core.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// files gives names of files in the volume.
func files(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("/work/%s-%03d", prefix, i))
	}
	return names
}

// store has a remote have files, as others have put them there.
func store(far string, names []string, size int64) error {
	if err := os.MkdirAll(far, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		if err := noise(filepath.Join(far, strings.TrimPrefix(name, "/work/")), size); err != nil {
			return err
		}
	}
	return nil
}
