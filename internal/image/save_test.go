package image

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// unusual is a configuration of all that docker acts on.
func unusualConfig() v1.Config {
	return v1.Config{
		Env: []string{"PATH=/bin"}, Cmd: []string{"sh"}, WorkingDir: "/no/such", User: "app:0", Labels: map[string]string{"a": "b"}, StopSignal: "SIGQUIT",
		Volumes: map[string]struct{}{"/data": {}}, ExposedPorts: map[string]struct{}{"80/tcp": {}}, OnBuild: []string{"RUN true"}, Shell: []string{"/bin/sh", "-ec"},
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "true"}},
	}
}

// TestSavedImagesAreWhole goes out of one cache and into another, with all that the
// configuration says, and under its name.
func TestSavedImagesAreWhole(t *testing.T) {
	s := store(t)
	i, err := s.Pull(t.Context(), "docker-archive:"+testkit.Busybox(t, unusualConfig()), PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := listing(t, s.dir.path("trees", i.ID))
	for _, format := range []string{DockerArchive, OCIArchive} {
		t.Run(format, func(t *testing.T) {
			var out bytes.Buffer
			if err := s.Save(t.Context(), i.ID, "tool:1", format, &out); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "saved.tar")
			if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			other := store(t)
			came, err := other.Import(t.Context(), file, PullOptions{})
			if err != nil || len(came) != 1 || strings.Join(came[0].Names, " ") != "tool:1" {
				t.Fatalf("got %+v, %v", came, err)
			}
			if got := listing(t, other.dir.path("trees", came[0].ID)); got != want {
				t.Errorf("its files are\n%s\nnot\n%s", got, want)
			}
			r, err := other.read(came[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			var file2 v1.ConfigFile
			if err := json.Unmarshal(r.Document, &file2); err != nil {
				t.Fatal(err)
			}
			got, _ := json.Marshal(file2.Config)
			if want, _ := json.Marshal(unusualConfig()); !bytes.Equal(got, want) {
				t.Errorf("its configuration is\n%s\nnot\n%s", got, want)
			}
		})
	}
	if err := s.Save(t.Context(), i.ID, "tool:1", "squashfs", &bytes.Buffer{}); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
		t.Errorf("an unknown format: %v", err)
	}
}

// TestDockerfilesNameImagesOfTheCache, which no registry has.
func TestDockerfilesNameImagesOfTheCache(t *testing.T) {
	run := podman(t)
	s := store(t)
	name := func(c v1.Config) {
		t.Helper()
		i, err := s.Pull(t.Context(), "docker-archive:"+testkit.Busybox(t, c), PullOptions{})
		if err == nil {
			err = s.Name(i.ID, "bee-tool:1", "")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	name(v1.Config{Env: []string{"OF=one"}})
	dir := t.TempDir()
	for name, text := range map[string]string{"Dockerfile": "FROM bee-tool:1 AS base\nFROM scratch\nCOPY --from=base /etc/passwd /from/passwd\nFROM bee-tool:1\nCOPY data /opt/data\n", "data": "some data"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, builder := range []string{"buildah", "podman"} {
		testkit.RequireTool(t, builder)
		var lines bytes.Buffer
		build := func() core.Image {
			t.Helper()
			i, err := s.Build(t.Context(), spec.Build{Context: dir, Builder: builder}, PullOptions{Progress: func(m string, _, _ int64) { lines.WriteString(m + "\n") }})
			if err != nil {
				t.Fatalf("%s: %v\n%s", builder, err, lines.String())
			}
			return i
		}
		name(v1.Config{Env: []string{"OF=one", "BY=" + builder}})
		first := build()
		for _, file := range []string{"bin/busybox", "opt/data"} {
			if _, err := os.Lstat(filepath.Join(s.dir.path("trees", first.ID), file)); err != nil {
				t.Errorf("%s: %v", builder, err)
			}
		}
		if !strings.Contains(strings.Join(first.Config.Env, " "), "OF=one") {
			t.Errorf("%s: the environment is %q", builder, first.Config.Env)
		}
		if again := build(); again.ID != first.ID {
			t.Errorf("%s: it was built again", builder)
		}
		name(v1.Config{Env: []string{"OF=two", "BY=" + builder}})
		if other := build(); !strings.Contains(strings.Join(other.Config.Env, " "), "OF=two") {
			t.Errorf("%s: the name's new image was not noticed: %q", builder, other.Config.Env)
		}
		if out, err := run("images", "--format", "{{.Repository}}"); err != nil || strings.Contains(out, "bee-tool") {
			t.Errorf("%s keeps the name: %s, %v", builder, out, err)
		}
	}
}
