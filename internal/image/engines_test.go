package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
)

// podman runs podman with storage of its own.
func podman(t *testing.T) func(args ...string) (string, error) {
	t.Helper()
	program := testkit.RequireTool(t, "podman")
	dir, err := os.MkdirTemp("/var/tmp", "bee-podman-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		exec.Command(program, "unshare", "rm", "-rf", dir).Run() //nolint:errcheck // in the temporary directory
		fsutil.RemoveAll(dir)
	})
	conf := filepath.Join(dir, "storage.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "[storage]\ndriver=\"vfs\"\ngraphroot=%q\nrunroot=%q\n", dir+"/root", dir+"/run"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONTAINERS_STORAGE_CONF", conf)
	return func(args ...string) (string, error) {
		out, err := exec.Command(program, args...).CombinedOutput()
		return string(out), err
	}
}

func TestArchiveIsOneThatPodmanLoads(t *testing.T) {
	run := podman(t)
	addr := testkit.Registry(t, "")
	s := store(t)
	flat, err := s.Pull(t.Context(), busybox(t), PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ref := addr + "/busybox:1"
	if err := push(t, s, flat.ID, ref); err != nil {
		t.Fatal(err)
	}
	layered, err := s.Pull(t.Context(), ref, PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, id := range map[string]string{"flattened": flat.ID, "with its own layers": layered.ID} {
		t.Run(name, func(t *testing.T) {
			// A run that uses the image meanwhile is no obstacle.
			_, release, err := s.Tree(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			path, tag, err := s.Archive(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if out, err := run("load", "-q", "-i", path); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			out, err := run("image", "inspect", "--format", "{{.Config.WorkingDir}} {{.Config.Env}} {{.Config.Entrypoint}} {{.Architecture}}", tag)
			if want := "/tmp [A=b] [/bin/sh -c] " + runtime.GOARCH; err != nil || strings.TrimSpace(out) != want {
				t.Errorf("got %q, %v; want %q", out, err, want)
			}
			again, _, err := s.Archive(t.Context(), id)
			if err != nil || again != path {
				t.Errorf("again: %s, %v", again, err)
			}
		})
	}
	t.Run("what podman has", func(t *testing.T) {
		got, err := s.Pull(t.Context(), "podman:bee.local/image:"+hexOf(flat.ID)[:16], PullOptions{})
		if err != nil || got.Config.WorkingDir != "/tmp" {
			t.Fatalf("got %+v, %v", got, err)
		}
		if a, b := listing(t, s.dir.path("trees", flat.ID)), listing(t, s.dir.path("trees", got.ID)); a != b {
			t.Errorf("the trees differ:\n%s\n%s", a, b)
		}
		if _, err := s.Pull(t.Context(), "podman:nothing:1", PullOptions{}); !core.IsKind(err, core.NotFound) || core.Remedy(err) == "" {
			t.Errorf("got %v", err)
		}
	})
}

func TestWhatDockerHas(t *testing.T) {
	testkit.Docker(t)
	s := store(t)
	want, err := s.Pull(t.Context(), busybox(t), PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path, tag, err := s.Archive(t.Context(), want.ID)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("docker", "load", "-q", "-i", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer exec.Command("docker", "rmi", tag).Run() //nolint:errcheck // the daemon may be the test's own
	got, err := s.Pull(t.Context(), "docker-daemon:"+tag, PullOptions{})
	if err != nil || got.Config.WorkingDir != "/tmp" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if a, b := listing(t, s.dir.path("trees", want.ID)), listing(t, s.dir.path("trees", got.ID)); a != b {
		t.Errorf("the trees differ:\n%s\n%s", a, b)
	}
	if _, err := s.Pull(t.Context(), "docker-daemon:nothing:1", PullOptions{}); !core.IsKind(err, core.NotFound) || core.Remedy(err) == "" {
		t.Errorf("an image that is not there: %v", err)
	}
}

// TestADockerThatDoesNotAnswer: that an image is not there, nobody can say then.
func TestADockerThatDoesNotAnswer(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+t.TempDir()+"/none.sock")
	if _, err := store(t).Pull(t.Context(), "docker-daemon:nothing:1", PullOptions{}); !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
		t.Errorf("got %v, %s", err, core.Remedy(err))
	}
}

func TestAFileThatIsNoArchive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	for _, text := range []string{"", "name: x\n", strings.Repeat("no tar\n", 200)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := store(t).Pull(t.Context(), "docker-archive:"+file, PullOptions{})
		if !core.IsKind(err, core.Invalid) || !strings.Contains(core.Remedy(err), "docker save") || strings.Count(err.Error(), file) != 1 {
			t.Errorf("%q: %v: %s", text, err, core.Remedy(err))
		}
	}
}

func TestPushKeepsTheDigest(t *testing.T) {
	_, addr := newFaulty(t)
	write(t, addr+"/x:1", imageOf(t, host, map[string][]byte{"a": []byte("1")}, map[string][]byte{"b": []byte("2")}))
	s := store(t)
	i, err := s.Pull(t.Context(), addr+"/x:1", PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	digest, err := s.Push(t.Context(), i.ID, addr+"/y:2", PullOptions{})
	if err != nil || digest != i.ID {
		t.Fatalf("got %s, %v; want %s", digest, err, i.ID)
	}
	if _, err := s.Push(t.Context(), i.ID, "127.0.0.1:1/y:2", PullOptions{}); err == nil || !strings.HasPrefix(err.Error(), "push image 127.0.0.1:1/y:2: ") || strings.Contains(core.Remedy(err), "--pull") {
		t.Errorf("where there is no registry: %v, remedy %q", err, core.Remedy(err))
	}
	again, err := store(t).Pull(t.Context(), addr+"/y@"+i.ID, PullOptions{})
	if err != nil || again.ID != i.ID {
		t.Errorf("got %s, %v", again.ID, err)
	}
}

func TestDockerfileIsBuilt(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.RequireTool(t, "buildah")
	podman(t) // buildah keeps its images where podman does
	s := store(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"Dockerfile": "FROM scratch\nARG GREETING=none\nCOPY data /opt/data\nENV GREETING=$GREETING\nWORKDIR /opt\nCMD [\"/bin/x\"]\n", "data": "some data"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var lines bytes.Buffer
	o := PullOptions{Progress: func(m string, _, _ int64) { fmt.Fprintln(&lines, m) }}
	b := spec.Build{Context: dir, Args: map[string]string{"GREETING": "hello"}}
	i, err := s.Build(t.Context(), b, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, lines.String())
	}
	if got, _ := os.ReadFile(filepath.Join(s.dir.path("trees", i.ID), "opt/data")); string(got) != "some data" {
		t.Errorf("got %q", got)
	}
	if c := i.Config; c.WorkingDir != "/opt" || !strings.Contains(strings.Join(c.Env, " "), "GREETING=hello") || len(c.Cmd) != 1 {
		t.Errorf("got %+v", c)
	}
	lines.Reset()
	again, err := s.Build(t.Context(), b, o)
	if err != nil || again.ID != i.ID || lines.Len() > 0 {
		t.Errorf("the second build was made: %v, %v\n%s", again.ID, err, lines.String())
	}
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte("other data"), 0o644); err != nil {
		t.Fatal(err)
	}
	other, err := s.Build(t.Context(), b, o)
	if err != nil || other.ID == i.ID {
		t.Errorf("a changed file was not noticed: %v, %v", other.ID, err)
	}
	b.Dockerfile = "Wrong"
	if err := os.WriteFile(filepath.Join(dir, b.Dockerfile), []byte("FROM scratch\nCOPY nothing /\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Build(t.Context(), b, o); !core.IsKind(err, core.Permanent) || !strings.Contains(err.Error(), "nothing") || core.Remedy(err) == "" {
		t.Errorf("a Dockerfile that is wrong: %v", err)
	}
	b.Dockerfile = "None"
	if _, err := s.Build(t.Context(), b, o); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
		t.Errorf("no Dockerfile: %v", err)
	}
}

// TestBuilderIsWhatThereIs: what the Beefile names, else the first program of this host,
// else a virtual machine.
func TestBuilderIsWhatThereIs(t *testing.T) {
	guest := func(context.Context, GuestBuild) (int, error) { return 0, nil }
	for _, c := range []struct {
		name, asked, installed, want string
		guest                        func(context.Context, GuestBuild) (int, error)
	}{
		{"the first", "", "docker podman", "podman", guest},
		{"the one asked for", "docker", "docker podman", "docker", guest},
		{"a machine", "", "", "vm", guest},
		{"a machine, as asked for", "vm", "vm docker", "vm", guest},
		{"not another than asked for", "buildah", "docker", "", guest},
		{"none", "", "", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, tool := range strings.Fields(c.installed) {
				if err := core.WriteProgram(filepath.Join(dir, tool), []byte("#!/bin/sh\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir)
			s := store(t)
			s.BuildInGuest = c.guest
			got, err := (&build{cache: s, spec: spec.Build{Builder: c.asked}}).builder("Dockerfile")
			if got != c.want || c.want == "" && (!core.IsKind(err, core.Unsupported) || core.Remedy(err) == "") {
				t.Errorf("it is %q, %v", got, err)
			}
		})
	}
}

// TestBuildInAGuest gives it what it needs, and reports what came of it.
func TestBuildInAGuest(t *testing.T) {
	s := store(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "Dockerfile")
	if err := os.WriteFile(file, []byte("FROM scratch\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(strings.TrimPrefix(busybox(t), "docker-archive:"))
	if err != nil {
		t.Fatal(err)
	}
	code := 3
	s.BuildInGuest = func(_ context.Context, b GuestBuild) (int, error) {
		fmt.Fprintf(b.Output, "step\nfailed: %s\n", b.Dockerfile) //nolint:errcheck // what is missing shows below
		return code, os.WriteFile(b.Archive, made, 0o644)
	}
	b := spec.Build{Context: dir, Builder: spec.BuilderVM}
	if _, err := s.Build(t.Context(), b, PullOptions{}); !core.IsKind(err, core.Permanent) || !strings.HasSuffix(err.Error(), "3\nstep\nfailed: "+file) {
		t.Errorf("a build that fails: %v", err)
	}
	if _, err := s.Build(t.Context(), b, PullOptions{Platform: "linux/s390x"}); !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
		t.Errorf("for another platform: %v", err)
	}
	code = 0
	i, err := s.Build(t.Context(), b, PullOptions{})
	if err != nil || !s.Has(i.ID) {
		t.Fatalf("%+v, %v", i, err)
	}
	b.Builder = "buildah"
	if again, err := s.Build(t.Context(), b, PullOptions{}); err != nil || again.ID != i.ID {
		t.Errorf("it is built anew for another builder: %v, %v", again, err)
	}
}

// TestABuildInAGuestHasItsBases, which this user may get and the guest could not.
func TestABuildInAGuestHasItsBases(t *testing.T) {
	address, config := testkit.PrivateRegistry(t)
	t.Setenv("DOCKER_CONFIG", config)
	s := store(t)
	made, err := s.Pull(t.Context(), busybox(t), PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ref := address + "/base:1"
	if err := push(t, s, made.ID, ref); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "Dockerfile")
	if err := os.WriteFile(file, []byte("ARG TAG=none\nFROM "+address+"/base:$TAG\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s = store(t)
	s.BuildInGuest = func(ctx context.Context, b GuestBuild) (int, error) {
		if len(b.Bases) != 1 || b.Bases[0].Ref != ref {
			t.Fatalf("it has %+v", b.Bases)
		}
		i, err := store(t).Pull(ctx, "docker-archive:"+b.Bases[0].Archive+":"+b.Bases[0].Tag, PullOptions{})
		if err != nil || i.Config.WorkingDir != "/tmp" {
			t.Errorf("as its base there is %+v, %v", i, err)
		}
		raw, err := os.ReadFile(b.Bases[0].Archive)
		return 0, errors.Join(err, os.WriteFile(b.Archive, raw, 0o600))
	}
	b := spec.Build{Context: dir, Builder: spec.BuilderVM, Args: map[string]string{"TAG": "1"}}
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	if _, err := s.Build(t.Context(), b, PullOptions{}); !core.IsKind(err, core.Permanent) || !strings.Contains(err.Error(), file+": get image "+ref) || !strings.Contains(core.Remedy(err), "docker login") {
		t.Errorf("without a password: %v, remedy %q", err, core.Remedy(err))
	}
	t.Setenv("DOCKER_CONFIG", config)
	if _, err := s.Build(t.Context(), b, PullOptions{}); err != nil {
		t.Errorf("with the password: %v", err)
	}
}

// TestTheEmptyImage has no files, and is one.
func TestTheEmptyImage(t *testing.T) {
	s := store(t)
	i, err := s.Empty(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(s.dir.path("trees", i.ID)); err != nil || len(entries) != 0 {
		t.Errorf("it has %v, %v", entries, err)
	}
	if again, err := s.Empty(t.Context()); err != nil || again.ID != i.ID || i.Arch != runtime.GOARCH {
		t.Errorf("%+v, and then %+v, %v", i, again, err)
	}
}

func TestDockerfileCommands(t *testing.T) {
	b := spec.Build{Context: "/src", Args: map[string]string{"B": "2", "A": "1"}}
	for tool, want := range map[string]string{
		"buildah": "buildah build -t t:1 -f /src/Dockerfile --layers --platform linux/amd64 --build-arg A=1 --build-arg B=2 /src; buildah push t:1 docker-archive:/a.tar:t:1",
		"podman":  "podman build -t t:1 -f /src/Dockerfile --platform linux/amd64 --build-arg A=1 --build-arg B=2 /src; podman save -o /a.tar t:1",
		"docker":  "docker build -t t:1 -f /src/Dockerfile --platform linux/amd64 --build-arg A=1 --build-arg B=2 /src; docker save -o /a.tar t:1",
	} {
		var got []string
		for _, argv := range dockerfileCommands(tool, "/src/Dockerfile", "t:1", "/a.tar", b, "linux/amd64") {
			got = append(got, strings.Join(argv, " "))
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
		}
	}
}
