package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// running starts a job of two nodes in the background that runs until the file end is in
// its volume.
func running(t *testing.T, more string) (b *testkit.Bee, id string) {
	t.Helper()
	b = testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}})
	b.File("sites.yaml", "sites: [{name: lab, provider: local, hosts: 2}]\n")
	b.Env = append(b.Env, "BEE_SITES="+filepath.Join(b.Work, "sites.yaml"))
	job := b.File("job.yaml", "name: md\nimage: docker-archive:"+image+"\nnodes: 2\nworkdir: /work\nvolume: /work\nrun: |\n  "+more+"\n  echo ready >begun; until test -e end; do sleep 0.1; done\n")
	id = strings.TrimSpace(b.Must("run", "-d", "-q", job))
	testkit.Eventually(t, 60*time.Second, func() error {
		if r := b.Try("exec", "md", "cat", "/work/begun"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	return b, id
}

// reachInto has a job with the image of another one run until all that reaches into a
// running job was tried on a node of it.
func reachInto(t *testing.T, b *testkit.Bee, job, line string, node int) {
	t.Helper()
	_, image, _ := strings.Cut(b.Read(filepath.Base(job)), "image: ")
	image, _, _ = strings.Cut(image, "\n")
	waiting := b.File("waiting.yaml", "name: waiting\nimage: "+image+"\n"+line+"\nworkdir: /work\nrun: echo begun >log; until test -e end; do sleep 0.1; done\n")
	id := strings.TrimSpace(b.Must("run", "-d", "-q", waiting))
	begun(t, b, id)
	b.ReachInto(id, node, "httpd -p 127.0.0.1:PORT -h /tmp")
	b.Touch(id, "end")
	if v := b.Await(id, 60*time.Second); v.State != "succeeded" {
		t.Errorf("the job that was reached into: %+v", v)
	}
}

func TestFilesAreCopiedToAndFromARun(t *testing.T) {
	t.Parallel()
	b, id := running(t, "mkdir -p d/below; echo one >d/f; echo two >d/below/g; ln -s f d/in; ln -s /etc/passwd d/out")
	if r := b.Try("cp", "md:d", "got"); r.Code != 201 || !strings.Contains(r.Stderr, `"out"`) {
		t.Errorf("a link that leads out: %+v", r)
	}
	if got := b.Read("got/f") + b.Read("got/below/g") + b.Read("got/in"); got != "one\ntwo\none\n" {
		t.Errorf("got %q", got)
	}
	if _, err := os.Lstat(filepath.Join(b.Work, "got/out")); err == nil {
		t.Error("the link that leads out is there")
	}
	b.Must("cp", "md:d/f", "here")
	b.Must("cp", "got/below", id+":/work")
	b.Must("cp", "here", "md:1:/tmp/there")
	if got := b.Must("exec", "--node", "1", "md", "cat", "/tmp/there", "/work/below/g"); got != "one\ntwo\n" {
		t.Errorf("in the job: %q", got)
	}
	archive := b.Must("cp", "md:d/below", "-")
	c := b.Command("cp", "-", "md:/tmp")
	c.Stdin = strings.NewReader(archive)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if got := b.Must("exec", "md", "cat", "/tmp/below/g"); got != "two\n" {
		t.Errorf("of an archive: %q", got)
	}
	for _, line := range []string{"cp md:absent x", "cp md:9:f x", "cp here md:/absent/x"} {
		if r := b.Try(strings.Fields(line)...); r.Code == 0 || r.Code == 1 || !strings.Contains(r.Stderr, "bee: ") {
			t.Errorf("%s: %+v", line, r)
		}
	}
	b.Touch("md", "/work/end")
	b.Await(id, 60*time.Second)
	if r := b.Try("cp", "md:d", "later"); r.Code != 202 {
		t.Errorf("of a run that is over: %+v", r)
	}
}

func TestAPortOfARunIsForwarded(t *testing.T) {
	t.Parallel()
	b, id := running(t, "echo content >index.html; httpd -p 127.0.0.1:8123 -h /work")
	c := b.Command("forward", "md", "0:8123")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	c.Stderr = &printed
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 64)
	n, err := out.Read(line)
	address := strings.TrimSpace(string(line[:n]))
	if err != nil || !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Fatalf("%q, %v, %s", address, err, printed.String())
	}
	for range 3 {
		r, err := http.Get(address + "/index.html")
		if err != nil {
			t.Fatalf("%v, %s", err, printed.String())
		}
		body, err := io.ReadAll(r.Body)
		if r.Body.Close(); err != nil || string(body) != "content\n" {
			t.Errorf("%v: %q", err, body)
		}
	}
	begun := printed.String()
	b.Touch("md", "/work/end")
	b.Await(id, 60*time.Second)
	if err := c.Wait(); err != nil || len(printed.String()) <= len(begun) {
		t.Errorf("at the end of the run: %v, %s", err, printed.String())
	}
}

func TestWhatARunUsesIsShown(t *testing.T) {
	t.Parallel()
	b, id := running(t, "while ! test -e end; do :; done &")
	testkit.Eventually(t, 60*time.Second, func() error {
		var views []struct {
			Node        int
			MemoryBytes int64   `json:"memory_bytes"`
			CoresUsed   float64 `json:"cores_used"`
			Processes   int
		}
		text := b.Must("stats", "--no-stream", "--json", "md")
		if err := json.Unmarshal([]byte(text), &views); err != nil {
			t.Fatal(err)
		}
		if len(views) != 2 || views[0].CoresUsed < 0.05 || views[0].MemoryBytes == 0 || views[0].Processes < 3 || views[1].Node != 1 || views[1].Processes < 1 {
			return errors.New(text)
		}
		return nil
	})
	if text := b.Must("stats", "--no-stream"); !strings.Contains(text, id) || !strings.Contains(text, "MEMORY") {
		t.Errorf("got %s", text)
	}
	b.Touch("md", "/work/end")
	b.Await(id, 60*time.Second)
}
