package e2e

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// adapted is a Beefile that a page shows, with other lines for some of its keys; an empty one
// removes the key.
func adapted(t *testing.T, text string, lines map[string]string) string {
	t.Helper()
	for key, line := range lines {
		at := regexp.MustCompile(`(?m)^` + key + `: .*\n`)
		if !at.MatchString(text) {
			t.Fatalf("the page has no key %s:\n%s", key, text)
		}
		text = at.ReplaceAllLiteralString(text, line)
	}
	return text
}

// TestAPrivateRegistry runs the Beefile of docs/how-to/private-registry.md, with credentials and without.
func TestAPrivateRegistry(t *testing.T) {
	t.Parallel()
	address, config := testkit.PrivateRegistry(t)
	image := testkit.NewLayer(t)
	image.Busybox("bin", "sh echo")
	image.Add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/solver", Mode: 0o755}, []byte("#!/bin/sh\necho solved $1\n"))
	name := address + "/lab/solver:2.1"
	b := testkit.NewBee(t)
	job := b.File("job.yaml", strings.ReplaceAll(shown(t, "how-to/private-registry.md", "yaml", "name: private\n"), "registry.example.org", address))
	b.Must("image", "import", image.Archive(name, v1.Config{Env: []string{"PATH=/bin"}}))
	own := b.Env
	b.Env = append(own, "DOCKER_CONFIG="+config)
	b.Must("image", "push", name, name)
	b.Must("image", "rm", name)
	b.Env = append(own, "DOCKER_CONFIG="+t.TempDir())
	b.Fail("run", job)
	b.Env = append(own, "DOCKER_CONFIG="+config)
	if out := b.Must("run", "-q", job); out != "solved case.in\n" {
		t.Errorf("it printed %q", out)
	}
}

// TestANotebookOnANode runs the Beefile of docs/how-to/jupyter.md, with a web server in place of Jupyter.
func TestANotebookOnANode(t *testing.T) {
	t.Parallel()
	b := testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}})
	b.File("notebook.yaml", adapted(t, shown(t, "how-to/jupyter.md", "yaml", "name: notebook\n"), map[string]string{
		"image": "image: docker-archive:" + image + "\n", "cores": "", "memory": "",
		"run": "run: cp old.ipynb new.ipynb && exec httpd -f -p 127.0.0.1:8888 -h /work\n",
	}))
	b.File("old.ipynb", "{}\n")
	b.Env = append(b.Env, "BEE_SITES="+b.File("sites.yaml", "sites: [{name: cluster, provider: local, hosts: 1, oversubscribe: true}]\n"))
	id := strings.TrimSpace(b.Must("run", "-d", "-q", "--site", "cluster", "notebook.yaml"))
	testkit.Eventually(t, time.Minute, func() error {
		if r := b.Try("exec", "notebook", "--", "test", "-e", "new.ipynb"); r.Code != 0 {
			return b.Explained(id, r.Stderr)
		}
		return nil
	})
	c := b.Command("forward", "notebook", "0:8888") // 8888 of this machine may be in use
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	forwarded, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		r, err := http.Get(strings.TrimSpace(forwarded) + "/old.ipynb")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != "{}\n" {
			return errors.Join(err, errors.New("got "+string(body)))
		}
		return nil
	})
	b.Must("stop", "notebook")
	if v := b.Await(id, time.Minute); v.State != "stopped" {
		t.Errorf("the run: %+v", v)
	}
	if err := c.Wait(); err != nil {
		t.Logf("bee forward ended with %v", err)
	}
	if got := b.Read("notebooks/new.ipynb"); got != "{}\n" {
		t.Errorf("the notebook has %q", got)
	}
}

// TestAMonthOfSlots runs the Beefile of docs/how-to/month-long.md over slots of seconds, with a
// script in place of GROMACS.
func TestAMonthOfSlots(t *testing.T) {
	t.Parallel()
	b := testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}})
	text := shown(t, "how-to/month-long.md", "yaml", "name: protein\n")
	for _, part := range []string{"mpirun gmx_mpi mdrun -deffnm md -cpi md.cpt", "grace: 5m"} {
		if !strings.Contains(text, part) {
			t.Fatalf("the page has no %q", part)
		}
	}
	text = strings.NewReplacer("mpirun gmx_mpi mdrun -deffnm md", "sh md.tpr", "grace: 5m", "grace: 10s").Replace(text)
	b.File("store/.keep", "")
	b.File("protein.yaml", adapted(t, text, map[string]string{
		"image": "image: docker-archive:" + image + "\n", "nodes": "", "store": "store: ./store\n",
		"notify": "notify: [{on: [ended], command: cat >notified}]\n",
	}))
	b.File("md.tpr", `n=0; [ "$1" != -cpi ] || n=$(cat $2); echo "from $n" >> md.log
trap 'echo $n > md.new; mv md.new md.cpt; exit 0' TERM
while [ $n -lt 40 ]; do n=$((n+1)); sleep 0.25; done
echo $n > md.gro`)
	sites := b.File("sites.yaml", "sites:\n  - {name: cluster, provider: local, slot: 28s, oversubscribe: true}\n  - {name: rack, provider: local, slot: 28s, oversubscribe: true}\n")
	b.Env = append(b.Env, "BEE_SITES="+sites)
	id := strings.TrimSpace(b.Must("run", "-d", "-q", "protein.yaml"))
	v := b.Await(id, 2*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) < 2 || v.Attempts[1].Site != "rack" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if log := strings.Split(b.Read("results/md.log"), "\n"); log[0] != "from 0" || log[1] == "from 0" || len(log) != len(v.Attempts)+1 {
		t.Errorf("attempts began %q", log)
	}
	if got := b.Read("results/md.gro"); got != "40\n" {
		t.Errorf("it counted to %q", got)
	}
	testkit.Eventually(t, time.Minute, func() error {
		got, err := os.ReadFile(filepath.Join(b.Work, "notified"))
		if err == nil && !strings.Contains(string(got), id) {
			err = errors.New("the notification is " + string(got))
		}
		return err
	})
}
