package image

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// saved writes an archive as `docker save` does.
func saved(t *testing.T, file string, images map[string]v1.Image) {
	t.Helper()
	tags := map[name.Tag]v1.Image{}
	for tag, i := range images {
		parsed, err := name.NewTag(tag)
		if err != nil {
			t.Fatal(err)
		}
		tags[parsed] = i
	}
	if err := tarball.MultiWriteToFile(file, tags); err != nil {
		t.Fatal(err)
	}
}

// laid writes a layout; each image has annotations.
func laid(t *testing.T, dir string, images ...laidImage) {
	t.Helper()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range images {
		o := []layout.Option{layout.WithAnnotations(i.annotations)}
		if i.platform != nil {
			o = append(o, layout.WithPlatform(*i.platform))
		}
		if err := path.AppendImage(i.image, o...); err != nil {
			t.Fatal(err)
		}
	}
}

type laidImage struct {
	image       v1.Image
	platform    *v1.Platform
	annotations map[string]string
}

// TestImportedImagesAreCalledAsInTheirArchive: a Beefile that has the name is content
// with the cache.
func TestImportedImagesAreCalledAsInTheirArchive(t *testing.T) {
	const refName = "org.opencontainers.image.ref.name"
	one, two := imageOf(t, host, map[string][]byte{"is": []byte("one")}), imageOf(t, host, map[string][]byte{"is": []byte("two")})
	other := v1.Platform{OS: "linux", Architecture: "s390x"}
	foreign := imageOf(t, other, map[string][]byte{"is": []byte("one, elsewhere")})
	for what, c := range map[string]struct {
		write func(path string)
		tag   string
		want  map[string]string // what is in the image of each name
		count int
	}{
		"docker's, of one image": {
			write: func(path string) { saved(t, path, map[string]v1.Image{"example.invalid/app:1": one}) },
			want:  map[string]string{"example.invalid/app:1": "one"}, count: 1,
		},
		"docker's, of one image with two names": {
			write: func(path string) { saved(t, path, map[string]v1.Image{"app:1": one, "app:latest": one}) },
			want:  map[string]string{"app:1": "one", "app:latest": "one", "docker.io/library/app": "one"}, count: 1,
		},
		"docker's, of two": {
			write: func(path string) { saved(t, path, map[string]v1.Image{"app:1": one, "localhost/app:2": two}) },
			want:  map[string]string{"app:1": "one", "localhost/app:2": "two"}, count: 2,
		},
		"one of docker's two": {
			write: func(path string) { saved(t, path, map[string]v1.Image{"app:1": one, "app:2": two}) }, tag: ":app:2",
			want: map[string]string{"app:2": "two"}, count: 1,
		},
		"a layout": {
			write: func(path string) {
				laid(t, path, laidImage{foreign, &other, map[string]string{refName: "app:1"}}, laidImage{one, &host, map[string]string{refName: "app:1"}},
					laidImage{one, nil, map[string]string{refName: "1.0", "io.containerd.image.name": "docker.io/you/app:1.0"}}, laidImage{two, nil, map[string]string{refName: "app:2"}})
			},
			want: map[string]string{"app:1": "one", "you/app:1.0": "one", "app:2": "two"}, count: 3,
		},
		"a layout's second name, packed": {
			write: func(path string) {
				laid(t, path+".d", laidImage{one, nil, map[string]string{refName: "app:1"}}, laidImage{two, nil, map[string]string{refName: "app:2"}})
				archive(t, path+".d", path, true)
			},
			tag: ":2", want: map[string]string{"app:2": "two"}, count: 1,
		},
		"a layout without names": {
			write: func(path string) { laid(t, path, laidImage{foreign, &other, nil}, laidImage{one, &host, nil}) }, count: 1,
		},
	} {
		t.Run(what, func(t *testing.T) {
			s, path := store(t), filepath.Join(t.TempDir(), "it")
			c.write(path)
			for _, time := range []string{"first", "second"} {
				came, err := s.Import(t.Context(), path+c.tag, PullOptions{})
				if err != nil || len(came) != c.count {
					t.Fatalf("the %s time: %v, %v", time, came, err)
				}
			}
			if all, err := s.List(); err != nil || len(all) > 2 {
				t.Errorf("the cache has %v, %v", all, err)
			}
			for name, is := range c.want {
				i, err := s.Resolve(t.Context(), &spec.Job{Image: name}, host.Architecture, "never", nil)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if got, err := os.ReadFile(filepath.Join(s.dir.path("trees", i.ID), "is")); err != nil || string(got) != is {
					t.Errorf("%s is %q, %v", name, got, err)
				}
			}
		})
	}
}

// TestArchivesNameNoContent: what an archive calls its images can be no digest, id or
// path, which Beefiles trust.
func TestArchivesNameNoContent(t *testing.T) {
	s, dir := store(t), t.TempDir()
	names := []string{"app@sha256:" + strings.Repeat("a", 64), "sha256:abcd", "oci:app", "docker-daemon:app", "no name", "../app", "good"}
	var images []laidImage
	for _, n := range names {
		images = append(images, laidImage{imageOf(t, host, map[string][]byte{"is": []byte(n)}), nil, map[string]string{"org.opencontainers.image.ref.name": n}})
	}
	laid(t, filepath.Join(dir, "layout"), images...)
	came, err := s.Import(t.Context(), filepath.Join(dir, "layout"), PullOptions{})
	var got []string
	for _, i := range came {
		got = append(got, i.Names...)
	}
	if err != nil || len(came) != len(names) || !slices.Equal(got, []string{"good"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestSeveralImagesAreNotGuessedAmong: a Beefile that names no one of them gets that error,
// and how to.
func TestSeveralImagesAreNotGuessedAmong(t *testing.T) {
	s, dir := store(t), t.TempDir()
	one, two := imageOf(t, host, map[string][]byte{"is": []byte("one")}), imageOf(t, host, map[string][]byte{"is": []byte("two")})
	saved(t, filepath.Join(dir, "x.tar"), map[string]v1.Image{"app:1": one, "app:2": two})
	laid(t, filepath.Join(dir, "layout"), laidImage{one, nil, map[string]string{"org.opencontainers.image.ref.name": "app:1"}}, laidImage{two, nil, map[string]string{"org.opencontainers.image.ref.name": "app:2"}})
	for _, ref := range []string{"docker-archive:" + dir + "/x.tar", "oci:" + dir + "/layout"} {
		_, err := s.Pull(t.Context(), ref, PullOptions{})
		if !core.IsKind(err, core.Invalid) || !strings.Contains(err.Error(), "app:1; app:2") || !strings.Contains(core.Remedy(err), "PATH:app:1") {
			t.Errorf("%s: %v: %s", ref, err, core.Remedy(err))
		}
		if _, err := s.Pull(t.Context(), ref+":app:2", PullOptions{}); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
		if _, err := s.Pull(t.Context(), ref+":app:3", PullOptions{}); !core.IsKind(err, core.NotFound) || !strings.Contains(err.Error(), "app:1; app:2") {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

// TestNames: one's own find an image until another gets them.
func TestNames(t *testing.T) {
	s, dir := store(t), t.TempDir()
	ids := map[string]string{}
	for _, is := range []string{"one", "two"} {
		saved(t, filepath.Join(dir, is), map[string]v1.Image{"example.invalid/" + is: imageOf(t, host, map[string][]byte{"is": []byte(is)})})
		came, err := s.Import(t.Context(), filepath.Join(dir, is), PullOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ids[is] = came[0].ID
	}
	for _, is := range slices.Sorted(maps.Keys(ids)) {
		if err := s.Name(ids[is], "mine", ""); err != nil {
			t.Fatal(err)
		}
		i, err := s.Resolve(t.Context(), &spec.Job{Image: "mine:latest"}, host.Architecture, "missing", nil)
		if err != nil || i.ID != ids[is] {
			t.Errorf("mine is %s, %v", i.ID, err)
		}
		if i, err = s.Get("mine"); err != nil || i.ID != ids[is] {
			t.Errorf("mine is %s, %v", i.ID, err)
		}
	}
	if err := s.Name(ids["one"], "sha256:abcd", ""); !core.IsKind(err, core.Invalid) {
		t.Errorf("an id as a name: %v", err)
	}
}

// TestATagThatMoved means what it means now, and what it meant once has no name.
func TestATagThatMoved(t *testing.T) {
	s, puller, dir, ref := store(t), store(t), t.TempDir(), testkit.Registry(t, "")+"/app:1"
	var ids []string
	for _, is := range []string{"one", "two"} {
		file := filepath.Join(dir, is)
		saved(t, file, map[string]v1.Image{"example.invalid/" + is: imageOf(t, host, map[string][]byte{"is": []byte(is)})})
		came, err := s.Import(t.Context(), file, PullOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := push(t, s, came[0].ID, ref); err != nil {
			t.Fatal(err)
		}
		i, err := puller.Pull(t.Context(), ref, PullOptions{Policy: "always"})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := puller.Get(ref); err != nil || got.ID != i.ID {
			t.Errorf("%s is %s, %v", ref, got.ID, err)
		}
		ids = append(ids, i.ID)
	}
	if names, err := puller.Names(); err != nil || len(names[ids[0]]) > 0 || !slices.Equal(names[ids[1]], []string{ref}) {
		t.Errorf("they are called %v, %v", names, err)
	}
}

// TestRefusedImagesDoNotCome: neither from where they are nor out of the cache.
func TestRefusedImagesDoNotCome(t *testing.T) {
	s, file := store(t), filepath.Join(t.TempDir(), "x.tar")
	saved(t, file, map[string]v1.Image{"app": imageOf(t, host, map[string][]byte{"is": nil})})
	why := errors.New("not wanted")
	refuse := PullOptions{Accept: func(string, core.ImageConfig) error { return why }}
	if _, err := s.Pull(t.Context(), "docker-archive:"+file, refuse); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	if all, err := s.List(); err != nil || len(all) > 0 {
		t.Errorf("the cache has %v, %v", all, err)
	}
	if _, err := s.Pull(t.Context(), "docker-archive:"+file, PullOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pull(t.Context(), "docker-archive:"+file, refuse); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

// TestPushedImagesAreCalledAsThere, where they are pushed from and where they are pulled,
// so that one Beefile is good for both.
func TestPushedImagesAreCalledAsThere(t *testing.T) {
	ref := testkit.Registry(t, "") + "/you/app:1"
	here, there, file := store(t), store(t), filepath.Join(t.TempDir(), "x.tar")
	saved(t, file, map[string]v1.Image{"app": imageOf(t, host, map[string][]byte{"is": []byte("it")})})
	came, err := here.Import(t.Context(), file, PullOptions{})
	if err == nil {
		err = push(t, here, came[0].ID, ref)
	}
	if err == nil {
		_, err = there.Pull(t.Context(), ref, PullOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	for where, s := range map[string]*Store{"here": here, "there": there} {
		i, err := s.Resolve(t.Context(), &spec.Job{Image: ref}, host.Architecture, "never", nil)
		if err != nil || where == "here" && i.ID != came[0].ID {
			t.Errorf("%s it is %s, %v", where, i.ID, err)
			continue
		}
		if got, err := os.ReadFile(filepath.Join(s.dir.path("trees", i.ID), "is")); err != nil || string(got) != "it" {
			t.Errorf("%s it holds %q, %v", where, got, err)
		}
	}
}
