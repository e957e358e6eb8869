package inside

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/bench/fair"
	"github.com/bee-hpc/bee/internal/core"
)

// watchCommand is the second argument of bee to print what computes on a host, once standard input
// has ended. A Detail follows.
const watchCommand = "watch"

// watching is what it prints when it has begun.
const watching = "watching\n"

// Bounds of the look at other hosts. None of them delays the command for longer than beginTime.
const (
	mostHosts = 128
	beginTime = 5 * time.Second
	endTime   = time.Minute // files are read for their digests
)

// runWatch looks at the processes of the run on this host until in ends.
func runWatch(in io.Reader, w io.Writer, detail Detail) error {
	watch := watchHere()
	_, err := io.WriteString(w, watching)
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	found := ended(watch, detail)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(found)
}

// A farWatch looks at another host of the run, by the launch agent.
type farWatch struct {
	host  string
	agent *exec.Cmd
	in    io.Closer
	begun chan struct{}   // closed: it looks, or never will
	found chan fair.Found // what was seen; closed without it: nothing was
}

// farWatches are those of all hosts but this one.
type farWatches struct {
	all    []*farWatch
	unseen []string
}

// otherHosts are the hosts of the run but this one.
func otherHosts() []string {
	rank, err := strconv.Atoi(os.Getenv("BEE_NODE_RANK"))
	hosts := strings.Split(os.Getenv("BEE_NODELIST"), ",")
	if err != nil || rank < 0 || rank >= len(hosts) {
		return nil
	}
	return slices.Delete(hosts, rank, rank+1)
}

// programVariable has the path of bee on each host: on a bare one it is another than in a container, and no text of a
// command may name that.
const programVariable = "BEE_PROGRAM"

// watchOthers begins to look at the other hosts of the run.
func watchOthers(detail Detail) *farWatches {
	var w farWatches
	agent := filepath.Join(filepath.Dir(os.Args[0]), "rsh") // beside bee, in a container or on the bare host
	for i, host := range otherHosts() {
		if i >= mostHosts {
			w.unseen = append(w.unseen, host)
			continue
		}
		f := startFar(host, agent, host, fmt.Sprintf(`exec "$%s" %s %s %s`, programVariable, Command, watchCommand, detail))
		w.all = append(w.all, f)
	}
	late := time.After(beginTime)
	for _, f := range w.all {
		select {
		case <-f.begun:
		case <-late:
			return &w // what begins later is seen from then on
		}
	}
	return &w
}

// startFar starts the look at a host.
func startFar(host string, command ...string) *farWatch {
	f := &farWatch{host: host, begun: make(chan struct{}), found: make(chan fair.Found, 1)}
	f.agent = exec.Command(command[0], command[1:]...) //nolint:noctx // it ends with its input
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, programVariable+"=") {
			f.agent.Env = append(f.agent.Env, v)
		}
	}
	in, err := f.agent.StdinPipe()
	var out io.Reader
	if err == nil {
		out, err = f.agent.StdoutPipe()
	}
	if err == nil {
		err = f.agent.Start()
	}
	if err != nil {
		f.agent = nil // nothing is seen there
		close(f.begun)
		close(f.found)
		return f
	}
	f.in = in
	go f.read(out)
	return f
}

// read reads what the other host prints.
func (f *farWatch) read(out io.Reader) {
	defer close(f.found)
	text := bufio.NewReader(io.LimitReader(out, MaxFound))
	line, err := text.ReadString('\n')
	if err == nil && line != watching {
		err = errors.New("another program answers")
	}
	close(f.begun)
	var found fair.Found
	if err == nil && json.NewDecoder(text).Decode(&found) == nil {
		f.found <- found
	}
	core.BestEffort(io.Copy(io.Discard, out)) // else it would wait for ever
	core.BestEffort(f.agent.Wait())           // what it printed counts
}

// join ends the look at all hosts, and adds what was seen.
func (w *farWatches) join(here *fair.Found) {
	for _, f := range w.all {
		if f.in != nil {
			core.BestEffort(f.in.Close()) // it may have ended
		}
	}
	late := time.After(endTime)
	var others []fair.Found
	for _, f := range w.all {
		select {
		case found, is := <-f.found:
			if is {
				found.Host, found.Others, found.Unseen = f.host, nil, nil
				others = append(others, found)
				continue
			}
		case <-late:
			late = time.After(0)
			if f.agent != nil {
				f.agent.Process.Kill()
			}
		}
		w.unseen = append(w.unseen, f.host)
	}
	here.Join(others)
	here.Unseen = w.unseen
}
